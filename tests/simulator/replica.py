"""One simulated service process: the real use cases over fake stores."""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from dataclasses import fields
from typing import Any

from prometheus_client import CollectorRegistry

from bots_service.engine.engine import Engine
from bots_service.engine.replicas import FollowReplicas
from bots_service.metrics.training import TrainingMetrics
from bots_service.ports.stores import DurableStores, HotStores
from bots_service.usecases import UseCases
from tests.simulator.fake_hot import FakeLeases, FakeStates, Hot, HotLink
from tests.simulator.fake_sql import FakeAnswers, FakeDatasets, FakeJournal, FakeRuns, FakeSnapshots, Sql
from tests.simulator.links import Link, Network, Process

_AT_WORK: contextvars.ContextVar[Process | None] = contextvars.ContextVar("at_work", default=None)


def owned_by(context: contextvars.Context) -> dict[asyncio.Task[Any], None] | None:
    """Return the tasks of the process to which this context belongs."""
    process = context.get(_AT_WORK)
    return None if process is None else process.tasks


class GoneError(Exception):
    """The process died before it answered, or was not there."""


class Replica:
    """A service process that dies, and starts again without memory."""

    def __init__(self, name: str, network: Network, sql: Sql, hot: Hot, *, snapshot_every: int) -> None:
        self.name = name
        self._network, self._sql, self._hot = network, sql, hot
        self._snapshot_every = snapshot_every
        self.start()

    def start(self) -> None:
        self.process = Process(self.name)
        to_sql = Link(self._network, self.process, "sql")
        to_hot = HotLink(Link(self._network, self.process, "hot"))
        stores, hot = _fakes(self._sql, to_sql, self._hot, to_hot)
        engine = Engine(
            stores,
            hot,
            TrainingMetrics(CollectorRegistry()),
            snapshot_every=self._snapshot_every,
            cache_bytes=2**30,
            clock=lambda: self._network.loop.now,
        )
        self.use = UseCases(engine)
        self._spawn(_following(engine.follow_replicas))

    def crash(self) -> None:
        self.process.die()

    async def call(self, make: Callable[[UseCases], Coroutine[Any, Any, Any]], deadline_s: float) -> Any:
        """Return what a use case returned; it is stopped at the deadline, wherever it waits.

        Raises:
            GoneError: the process died, or the deadline passed.
        """
        await self._network.trip()
        if not self.process.alive:
            raise GoneError(self.name)
        task = self._spawn(make(self.use))
        await asyncio.wait({task}, timeout=deadline_s)
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
        await self._network.trip()
        if task.cancelled():
            raise GoneError(self.name)
        return task.result()

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start work that dies with the process."""
        context = contextvars.Context()
        context.run(_AT_WORK.set, self.process)
        return self._network.loop.create_task(work, context=context)


async def _following(replicas: FollowReplicas) -> None:
    async with replicas.in_background():
        await asyncio.Event().wait()


def _fakes(sql: Sql, to_sql: Link, hot: Hot, to_hot: HotLink) -> tuple[DurableStores, HotStores]:
    """Return fake stores, with as much of each as simulated trainers call."""
    called: dict[str, Any] = {
        "datasets": FakeDatasets(sql, to_sql),
        "runs": FakeRuns(sql, to_sql),
        "answers": FakeAnswers(sql, to_sql),
        "journal": FakeJournal(sql, to_sql),
        "snapshots": FakeSnapshots(sql, to_sql),
        "health": {},
    }
    others: dict[str, Any] = dict.fromkeys({field.name for field in fields(DurableStores)} - called.keys())
    states: Any = FakeStates(hot, to_hot)
    leases: Any = FakeLeases(hot, to_hot)
    return DurableStores(**called, **others), HotStores(states, leases, is_shared=True, health={})
