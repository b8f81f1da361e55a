"""Asks one dataset of some services for everything that trainers ask for, and says how long it took."""

import asyncio
import itertools
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import numpy as np

from benchmarks.asks import Asks
from benchmarks.load import Caller, Tally, calling, send_paced, send_wave
from benchmarks.processor import processors_of

STEP_S = 30.0  # a training step of reinforcement finetuning takes half a minute at least
CALLERS = "callers"
SERVICE = "service"  # all processes of all of them
IN_FLIGHT = 0.4  # the largest share of a pool that a wave leases
OPERATION = re.compile(r"(?P<kind>select|report) (?P<count>\d+)( at (?P<pace>\d+)/s)?(, tracker)?$")


@dataclass(frozen=True, slots=True)
class ShareRow:
    """One trainer's steps: select, then report. Medians; share: of a training step of STEP_S seconds."""

    tasks: int
    count: int
    steps: int
    select_ms: float
    report_ms: float
    share: float


@dataclass(frozen=True, slots=True)
class LoadRow:
    """One kind of request from some callers, spread over some runs.

    client_share: how much of one core the callers took; near 1 they would be what was measured.
    degraded: answers given without a store that the services share; more than a few, and something else was measured.
    processors_ms: processor time for each request: of the callers, the services and what they lean on, by name; empty
        where not looked at.
    """

    operation: str
    tasks: int
    runs: int
    callers: int
    requests: int
    p50_ms: float
    p99_ms: float
    per_second: float
    client_share: float
    degraded: int = 0
    processors_ms: dict[str, float] = field(default_factory=dict)

    @property
    def processor_ms(self) -> float:
        """Processor time for each request, of all together."""
        return sum(self.processors_ms.values())


class Bench:
    """Measures one dataset.

    Tasks stay leased until they are reported, so a load of selects alone would run the pool dry. It goes in waves with
    no more selections in flight than so many callers would have; between waves, not timed, each run is rewound to the
    step at which it stands, which ends its leases and changes nothing else.
    """

    def __init__(
        self,
        ports: Sequence[int],
        dataset: str,
        tasks: int,
        seconds: float,
        *,
        processes: Mapping[str, Sequence[int]],
        runs_stay: bool = False,
    ) -> None:
        """Prepare.

        Args:
            ports: of the services; callers go from one to the next, unless runs stay.
            dataset: its name.
            tasks: how many it has.
            seconds: how long each load lasts.
            processes: ids of the services' processes and of those that they lean on, to read their processor time.
            runs_stay: whether all requests about a run go to one service.
        """
        self._processors = processors_of(processes)
        self._runs_stay = runs_stay
        self._ports = ports
        self._tasks = tasks
        self._seconds = seconds
        self._asks = Asks(dataset, tasks)

    async def steps(self, run: str, count: int, steps: int) -> ShareRow:
        """Be one trainer, for so many steps."""
        selected, reported = Tally(), Tally()
        async with self._calling(1) as (caller,):
            for _ in range(steps):
                selection = await selected.post(caller, self._asks.select(run, count))
                await reported.post(caller, self._asks.answer_to(selection))
        select_ms, report_ms = float(np.median(selected.times_ms)), float(np.median(reported.times_ms))
        return ShareRow(self._tasks, count, steps, select_ms, report_ms, (select_ms + report_ms) / 1e3 / STEP_S)

    async def learn(self, count: int, runs: list[str], callers: int, *, steps: int) -> None:
        """Give the runs a history: so many reports each."""
        asks = itertools.islice(self._asks.reports(runs, count), steps * len(runs))
        async with self._calling(callers) as open_callers:
            await send_wave(open_callers, asks, Tally(), until=lambda: False)

    async def selects(self, count: int, runs: list[str], callers: int) -> LoadRow:
        """Select, in waves, from some callers on some runs."""
        # Two for each caller: the second waits in the queue that a lasting load would have.
        wave = len(runs) * min(max(8, 2 * callers // len(runs)), self._most(count))
        tally = self._tally()
        async with self._calling(callers) as open_callers:
            while tally.wall_s < self._seconds:
                end = time.perf_counter() + self._seconds - tally.wall_s
                asks = itertools.islice(self._asks.selects(runs, count), wave)
                await send_wave(open_callers, asks, tally, until=_over(end))
                await self._end_leases(open_callers[0], runs)
        return self._row(f"select {count}", runs, callers, tally)

    async def paced_selects(
        self, count: int, runs: list[str], callers: int, *, per_second: int, seconds: float
    ) -> LoadRow:
        """Select at a steady pace, far from what would be possible, from some callers on some runs."""
        asks = list(itertools.islice(self._asks.selects(runs, count), int(per_second * seconds)))
        tally = self._tally()
        async with self._calling(callers) as open_callers:
            await send_paced(open_callers, asks, tally, per_second=per_second)
            await self._end_leases(open_callers[0], runs)
        return self._row(f"select {count} at {per_second}/s", runs, callers, tally)

    async def reports(self, count: int, runs: list[str], callers: int) -> LoadRow:
        """Report tasks picked at random, from some callers on some runs; each report closes a step."""
        tally, asks = self._tally(), self._asks.reports(runs, count)
        async with self._calling(callers) as open_callers:
            await send_wave(open_callers, asks, tally, until=_over(time.perf_counter() + self._seconds))
        return self._row(f"report {count}", runs, callers, tally)

    async def again(self, row: LoadRow, runs: list[str], watching: AbstractAsyncContextManager[object]) -> None:
        """Repeat a load of selects or of reports on these runs, and watch it.

        Selects go in one wave, so that nothing but them is watched; more leases wait meanwhile than when it was timed.
        """
        made = OPERATION.match(row.operation)
        assert made is not None, row.operation
        count, pace = int(made["count"]), made["pace"]
        asks = self._asks.reports(runs, count)
        if made["kind"] == "select":
            asks = itertools.islice(self._asks.selects(runs, count), len(runs) * self._most(count))
        async with self._calling(row.callers) as open_callers:
            async with watching:
                if pace is None:
                    await send_wave(open_callers, asks, Tally(), until=_over(time.perf_counter() + self._seconds))
                else:
                    paced = list(itertools.islice(asks, int(float(pace) * self._seconds)))
                    await send_paced(open_callers, paced, Tally(), per_second=float(pace))
            if made["kind"] == "select":
                await self._end_leases(open_callers[0], runs)

    async def trainers(self, count: int, runs: list[str], callers: int) -> LoadRow:
        """Let each caller be a trainer that does nothing but select and report what it got; both count as requests."""
        tally, next_run = self._tally(), itertools.cycle(runs)

        async def train(caller: Caller, end: float) -> None:
            while time.perf_counter() < end:
                selection = await tally.post(caller, self._asks.select(next(next_run), count))
                await tally.post(caller, self._asks.answer_to(selection))

        async with self._calling(callers) as open_callers, tally.running():
            end = time.perf_counter() + self._seconds  # connecting takes a busy machine longer than a quick load
            await asyncio.gather(*(train(caller, end) for caller in open_callers))
        return self._row(f"select {count}, then report", runs, callers, tally)

    def _most(self, count: int) -> int:
        """Return how many selections of a run may be in flight."""
        return int(IN_FLIGHT * self._tasks / count)

    def _tally(self) -> Tally:
        return Tally(processors=self._processors)

    def _calling(self, callers: int) -> AbstractAsyncContextManager[list[Caller]]:
        return calling(self._ports, callers, runs_stay=self._runs_stay)

    async def _end_leases(self, caller: Caller, runs: list[str]) -> None:
        for run in runs:
            await caller.post(self._asks.rewind(await caller.post(self._asks.select(run, 1))))

    def _row(self, operation: str, runs: list[str], callers: int, tally: Tally) -> LoadRow:
        p50, p99 = np.percentile(tally.times_ms, [50, 99]).tolist()
        done = len(tally.times_ms)
        return LoadRow(
            *(operation, self._tasks, len(runs), callers, done, p50, p99),
            *(done / tally.wall_s, tally.cpu_s / tally.wall_s, tally.degraded),
            processors_ms={
                name: 1e3 * seconds / done for name, seconds in {**tally.processors_s, CALLERS: tally.cpu_s}.items()
            },
        )


def _over(end: float) -> Callable[[], bool]:
    """Return what says whether it is past `end` on the performance counter."""
    return lambda: time.perf_counter() > end
