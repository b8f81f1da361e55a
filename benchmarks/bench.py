"""Asks one dataset of some services for everything that trainers ask for, and says how long it took."""

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import numpy as np

from benchmarks.asks import Asks
from benchmarks.load import Ask, Caller, Tally, calling, send_paced, send_wave

STEP_S = 30.0  # a training step of reinforcement finetuning takes half a minute at least
IN_FLIGHT = 0.4  # the largest share of a pool that a wave leases


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

    degraded: answers given without a store that the services share; more than a few, and something else was measured.
    """

    operation: str
    tasks: int
    runs: int
    callers: int
    requests: int
    p50_ms: float
    p99_ms: float
    per_second: float
    degraded: int = 0


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
        runs_stay: bool = False,
    ) -> None:
        """Prepare.

        Args:
            ports: of the services; callers go from one to the next, unless runs stay.
            dataset: its name.
            tasks: how many it has.
            seconds: how long each load lasts.
            runs_stay: whether all requests about a run go to one service.
        """
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
        wave = len(runs) * min(max(8, 2 * callers // len(runs)), int(IN_FLIGHT * self._tasks / count))
        tally = Tally()
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
        tally = Tally()
        async with self._calling(callers) as open_callers:
            await send_paced(open_callers, asks, tally, per_second=per_second)
            await self._end_leases(open_callers[0], runs)
        return self._row(f"select {count} at {per_second}/s", runs, callers, tally)

    async def reports(self, count: int, runs: list[str], callers: int) -> LoadRow:
        """Report tasks picked at random, from some callers on some runs; each report closes a step."""
        return await self._steady(f"report {count}", self._asks.reports(runs, count), runs, callers)

    async def steady_selects(self, count: int, runs: list[str], callers: int) -> LoadRow:
        """Select without waves or rewinds, whose processor time would count too: leases must end by themselves."""
        return await self._steady(f"select {count}", self._asks.selects(runs, count), runs, callers)

    async def _steady(self, operation: str, asks: Iterator[Ask], runs: list[str], callers: int) -> LoadRow:
        tally = Tally()
        async with self._calling(callers) as open_callers:
            await send_wave(open_callers, asks, tally, until=_over(time.perf_counter() + self._seconds))
        return self._row(operation, runs, callers, tally)

    async def trainers(self, count: int, runs: list[str], callers: int) -> LoadRow:
        """Let each caller be a trainer that does nothing but select and report what it got; both count as requests."""
        tally, next_run = Tally(), itertools.cycle(runs)

        async def train(caller: Caller, end: float) -> None:
            while time.perf_counter() < end:
                selection = await tally.post(caller, self._asks.select(next(next_run), count))
                await tally.post(caller, self._asks.answer_to(selection))

        async with self._calling(callers) as open_callers, tally.running():
            end = time.perf_counter() + self._seconds  # connecting takes a busy machine longer than a quick load
            await asyncio.gather(*(train(caller, end) for caller in open_callers))
        return self._row(f"select {count}, then report", runs, callers, tally)

    def _calling(self, callers: int) -> AbstractAsyncContextManager[list[Caller]]:
        return calling(self._ports, callers, runs_stay=self._runs_stay)

    async def _end_leases(self, caller: Caller, runs: list[str]) -> None:
        for run in runs:
            await caller.post(self._asks.rewind(await caller.post(self._asks.select(run, 1))))

    def _row(self, operation: str, runs: list[str], callers: int, tally: Tally) -> LoadRow:
        p50, p99 = np.percentile(tally.times_ms, [50, 99]).tolist()
        done = len(tally.times_ms)
        figures = (p50, p99, done / tally.wall_s, tally.degraded)
        return LoadRow(operation, self._tasks, len(runs), callers, done, *figures)


def _over(end: float) -> Callable[[], bool]:
    """Return what says whether it is past `end` on the performance counter."""
    return lambda: time.perf_counter() > end
