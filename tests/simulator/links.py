"""What lies between a simulated process and a server: delay, loss, and the process's own death at any await."""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from bots_service.errors import BotsError
from tests.simulator.virtual_loop import VirtualLoop

Result = TypeVar("Result")


class LostError(Exception):
    """The request or its reply was lost; nobody here knows which."""


@dataclass
class Process:
    """A simulated process: it is gone once it died, and its tasks with it. lost: requests and replies, by server."""

    name: str
    alive: bool = True
    lost: Counter[str] = field(default_factory=Counter)
    tasks: dict[asyncio.Task[Any], None] = field(default_factory=dict)

    def die(self) -> None:
        self.alive = False
        for task in list(self.tasks):
            task.cancel()


@dataclass
class Network:
    """Decides what becomes of each request.

    away: (process, server) pairs that can't reach each other; loss: share of requests or replies lost; slow: share of
    trips that take seconds.
    """

    loop: VirtualLoop
    rng: random.Random
    loss: float = 0.0
    slow: float = 0.0
    away: set[tuple[str, str]] = field(default_factory=set)
    trace: list[str] = field(default_factory=list)
    losses: int = 0

    def note(self, text: str) -> None:
        self.trace.append(f"{self.loop.now:9.4f}  {text}")

    async def trip(self) -> None:
        seconds = self.rng.uniform(0.5, 4.0) if self.rng.random() < self.slow else self.rng.uniform(0.0001, 0.02)
        await asyncio.sleep(seconds)


@dataclass
class Link:
    """One process's way to one server."""

    network: Network
    process: Process
    server: str

    async def call(self, what: str, effect: Callable[[], Result]) -> Result:
        """Return what the server answered.

        Raises:
            LostError: the request was lost, or the reply after it took effect.
        """
        network = self.network
        if not self.process.alive:
            raise asyncio.CancelledError
        try:
            await network.trip()
        except asyncio.CancelledError:
            if network.rng.random() < 0.5 and self._is_open:  # it is on its way, and its sender gone
                network.note(f"{self.process.name} -> {self.server} {what}, whose sender is gone")
                with contextlib.suppress(BotsError):
                    effect()
            raise
        self._pass(what, "is lost")
        result = effect()
        await network.trip()
        self._pass(what, "took effect, but its reply is lost")
        return result

    @property
    def _is_open(self) -> bool:
        return (self.process.name, self.server) not in self.network.away

    def _pass(self, what: str, loss: str) -> None:
        if not self._is_open or self.network.rng.random() < self.network.loss:
            self.network.note(f"{self.process.name} -> {self.server} {what} {loss}")
            self.network.losses += 1
            self.process.lost[self.server] += 1
            raise LostError(what)
