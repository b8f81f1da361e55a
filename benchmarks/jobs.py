"""The requests that the load model knows, sent at a steady pace and metered."""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import httpx
import numpy as np

from benchmarks.asks import Asks
from benchmarks.load import Tally, calling, send_paced, send_wave
from benchmarks.meters import SETTLES_S, Meters, less
from benchmarks.running import make_run
from bots_service.scaling.costs import ServerCost

Answer = TypeVar("Answer")

CALLERS = 16
BUSY_CALLERS = 32
OF_RUN = ("", "/curve?points=500", "/outlooks?points=240", "/calibration", "/tags?steps=50", "/tasks?limit=1")


@dataclass(frozen=True, slots=True)
class CostRow:
    """What one kind of request cost, each. state_bytes: of a run's state, on average."""

    request: str
    tasks: int
    state_bytes: float
    requests: int
    cost: ServerCost


class Jobs:
    """Training jobs on some runs of a dataset, and those who watch them."""

    def __init__(self, meters: Meters, dataset: str, runs: Sequence[str], tasks: int, *, pace: float) -> None:
        """Prepare. tasks: of the dataset; pace: requests a second."""
        self.runs = list(runs)
        self._meters = meters
        self.asks = Asks(dataset, tasks)
        self.pace = pace
        self._idle = ServerCost()

    def make(self) -> None:
        """Make the runs, with settings as they are by default."""
        for run in self.runs:
            make_run(self._meters.cluster.services[0], self.asks.dataset, run)

    def without(self, idle: ServerCost) -> None:
        """Take off, from now on, what all replicas cost in a second without requests."""
        self._idle = idle

    async def idle(self, seconds: float) -> ServerCost:
        """Return what one replica costs in a second without requests."""
        fsyncs, began = self._meters.fsyncs(), time.perf_counter()
        before = self._meters.read()
        await asyncio.sleep(seconds)
        taken = less(self._meters.read(), before) * (1 / seconds)
        fsyncs = (self._meters.fsyncs() - fsyncs) / (time.perf_counter() - began)
        return replace(taken, fsyncs=fsyncs) * (1 / len(self._meters.cluster.services))

    async def learn(self, *, count: int, reports: int) -> None:
        """Give each run a history: so many reports of so many tasks picked at random."""
        asks = itertools.islice(self.asks.reports(self.runs, count), reports * len(self.runs))
        async with calling(self._meters.cluster.ports, CALLERS, runs_stay=True) as callers:
            await send_wave(callers, asks, Tally(), until=lambda: False)

    async def steps(self, count: int, *, rounds: int, runs_stay: bool = True) -> list[CostRow]:
        """Let each run select and report so often; return the cost of a select and of a report."""
        fsyncs, began = self._meters.fsyncs(), time.perf_counter()
        selects, reports, state_bytes = ServerCost(), ServerCost(), self.state_bytes()
        async with calling(self._meters.cluster.ports, CALLERS, runs_stay=runs_stay) as callers:
            for _ in range(rounds):
                asks = [self.asks.select(run, count) for run in self.runs]
                taken, answers = await self._metered(send_paced(callers, asks, Tally(), per_second=self.pace))
                selects += taken
                asks = [self.asks.answer_to(answer) for answer in answers]
                taken, _ = await self._metered(send_paced(callers, asks, Tally(), per_second=self.pace))
                reports += taken
        state_bytes = (state_bytes + self.state_bytes()) / 2
        fsyncs = self._meters.fsyncs() - fsyncs - self._idle.fsyncs * (time.perf_counter() - began)
        done = rounds * len(self.runs)
        reports = replace(reports, fsyncs=max(fsyncs, 0.0))
        return [
            CostRow(kind, count, state_bytes, done, cost * (1 / done))
            for kind, cost in (("select", selects), ("report", reports))
        ]

    async def busy(self, count: int, *, seconds: float) -> list[CostRow]:
        """Let many callers ask for all they can get; return the cost of a select and of a report."""
        rows = []
        for kind, asks in (
            ("select", self.asks.selects(self.runs, count)),
            ("report", self.asks.reports(self.runs, count)),
        ):
            tally = Tally()
            async with calling(self._meters.cluster.ports, BUSY_CALLERS, runs_stay=True) as callers:
                taken, _ = await self._metered(
                    send_wave(callers, asks, tally, until=until(time.perf_counter() + seconds))
                )
            done = len(tally.times_ms)
            rows.append(CostRow(kind, count, self.state_bytes(), done, taken * (1 / done)))
        return rows

    async def selects(self, count: int) -> CostRow:
        """Let each run select once; return what it cost."""
        asks = [self.asks.select(run, count) for run in self.runs]
        async with calling(self._meters.cluster.ports, CALLERS, runs_stay=True) as callers:
            taken, _ = await self._metered(send_paced(callers, asks, Tally(), per_second=self.pace))
        return CostRow("select", count, self.state_bytes(), len(asks), taken * (1 / len(asks)))

    async def reads(self, kind: str, times: int) -> CostRow:
        """Read so often what a page or Prometheus reads; return what it cost."""
        addresses = self.addresses(kind)
        with httpx.Client() as client:

            async def read() -> None:
                for turn in range(times):
                    for address in addresses[turn % len(addresses)]:
                        (await asyncio.to_thread(client.get, address)).raise_for_status()
                    await asyncio.sleep(1 / self.pace)

            taken, _ = await self._metered(read())
        return CostRow(kind, 0, self.state_bytes(), times, taken * (1 / times))

    def addresses(self, kind: str) -> list[list[str]]:
        """Return what is read at a time, of each replica or run in turn."""
        urls = [service.url for service in self._meters.cluster.services]
        if kind == "scrape":
            return [[f"{url}/metrics"] for url in urls]
        if kind == "overview":
            return [[f"{url}/overview?limit=50"] for url in urls]
        dataset = f"{urls[0]}/datasets/{self.asks.dataset}"
        runs = [f"{dataset}/runs/{run}" for run in self.runs]
        if kind == "watch":
            return [[f"{run}/summary", f"{run}/leases?limit=8"] for run in runs]
        return [[dataset, *(f"{run}{part}" for part in OF_RUN)] for run in runs]

    def state_bytes(self) -> float:
        """Return the size of a run's state in Redis, on average."""
        query = "SELECT r.uid FROM runs r JOIN datasets d ON d.id = r.dataset_id WHERE d.name = %s AND r.name = ANY(%s)"
        uids = self._meters.sql.execute(query, [self.asks.dataset, self.runs]).fetchall()
        sizes = [self._meters.redis.hstrlen(f"bots:{{{uid}}}:header", "state") for (uid,) in uids]
        return float(np.mean(sizes))

    async def _metered(self, work: Awaitable[Answer]) -> tuple[ServerCost, Answer]:
        """Return what something took in all, and what it returned."""
        before, began = self._meters.read(), time.perf_counter()
        answer = await work
        await asyncio.sleep(SETTLES_S)
        taken = less(self._meters.read(), before)
        return taken + self._idle * -(time.perf_counter() - began), answer


def until(end: float) -> Callable[[], bool]:
    """Return what says whether it is past `end` on the performance counter."""
    return lambda: time.perf_counter() > end
