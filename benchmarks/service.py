"""The service over loopback, driven from this process: latency and throughput of select and report, and their share.

Tasks stay leased until they are reported, so a load of selects alone would run the pool dry. It goes in waves with no
more selections in flight than so many callers would have; between waves, not timed, each run is rewound to the step at
which it stands, which ends its leases and changes nothing else.
"""

import itertools
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.load import Ask, Caller, Tally, calling, send_wave
from benchmarks.pools import make_rates
from benchmarks.running import Running, import_pool, make_run

STEP_S = 30.0  # a training step of reinforcement finetuning takes half a minute at least
REPORTS = 32  # different bodies of each size; making each anew would take this process's time
IN_FLIGHT = 0.4  # the largest share of a pool that a wave leases


@dataclass(frozen=True, slots=True)
class ServiceGrid:
    """Which loads are measured, and for how long each."""

    pools: tuple[int, ...]
    counts: tuple[int, ...]
    callers: tuple[int, ...]
    runs: tuple[int, ...]
    steps: int
    seconds: float


FULL = ServiceGrid((10**6, 10**5), (32, 512), (1, 4, 16, 64), (1, 50), steps=100, seconds=2.0)
QUICK = ServiceGrid((10**4,), (32,), (1, 8), (1, 3), steps=5, seconds=0.2)


@dataclass(frozen=True, slots=True)
class ImportRow:
    """Importing a pool from Parquet. peak_mib: the most memory the service had until then."""

    tasks: int
    seconds: float
    peak_mib: float | None


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


Row = ImportRow | ShareRow | LoadRow


async def measure_service(running: Running, grid: ServiceGrid, *, loads: bool) -> AsyncIterator[Row]:
    """Yield what was measured, pool by pool: import, steps, and the loads if wanted."""
    for tasks in grid.pools:
        dataset = f"pool-{tasks}"
        seconds = import_pool(running, dataset, make_rates(tasks, "k/16"))
        yield ImportRow(tasks, seconds, running.peak_memory_mib())
        runs = [f"run-{number}" for number in range(max(grid.runs) if loads else len(grid.counts))]
        for run in runs:
            make_run(running, dataset, run)
        bench = Bench(running.port, dataset, tasks, grid.seconds)
        for run, count in zip(runs, grid.counts, strict=False):
            yield await bench.steps(run, count, grid.steps)
        if not loads:
            continue
        for count, spread, callers in itertools.product(grid.counts, grid.runs, grid.callers):
            yield await bench.selects(count, runs[:spread], callers)
        if tasks == min(grid.pools):
            for count, spread, callers in itertools.product(grid.counts, grid.runs, grid.callers):
                yield await bench.reports(count, runs[:spread], callers)


def rows_of(grid: ServiceGrid, *, loads: bool) -> int:
    """Return how many rows there will be."""
    each = len(grid.counts) * len(grid.runs) * len(grid.callers) if loads else 0
    return len(grid.pools) * (1 + len(grid.counts) + each) + each


class Bench:
    """Measures one dataset."""

    def __init__(self, port: int, dataset: str, tasks: int, seconds: float) -> None:
        self._port = port
        self._dataset = dataset
        self._tasks = tasks
        self._seconds = seconds
        self._keys = map("bench-{}".format, itertools.count(time.time_ns()))
        self._rng = np.random.default_rng([3, tasks])

    async def steps(self, run: str, count: int, steps: int) -> ShareRow:
        """Be one trainer, for so many steps."""
        select_ms, report_ms = [], []
        async with calling(self._port, 1) as (caller,):
            for _ in range(steps):
                start = time.perf_counter()
                selection = await caller.post(self._select(run, count))
                select_ms.append((time.perf_counter() - start) * 1e3)
                ask = self._answer_to(json.loads(selection))
                start = time.perf_counter()
                await caller.post(ask)
                report_ms.append((time.perf_counter() - start) * 1e3)
        selects, reports = float(np.median(select_ms)), float(np.median(report_ms))
        return ShareRow(self._tasks, count, steps, selects, reports, (selects + reports) / 1e3 / STEP_S)

    async def selects(self, count: int, runs: list[str], callers: int) -> LoadRow:
        """Select, in waves, from some callers on some runs."""
        # Two for each caller: the second waits in the queue that a lasting load would have.
        most = int(IN_FLIGHT * self._tasks / count)
        wave = len(runs) * min(max(8, 2 * callers // len(runs)), most)
        tally = Tally()
        async with calling(self._port, callers) as open_callers:
            while tally.wall_s < self._seconds:
                end = time.perf_counter() + self._seconds - tally.wall_s
                asks = (self._select(run, count) for run in itertools.islice(itertools.cycle(runs), wave))
                await send_wave(open_callers, asks, tally, until=_over(end))
                await self._end_leases(open_callers[0], runs)
        return self._row(f"select {count}", runs, callers, tally)

    async def reports(self, count: int, runs: list[str], callers: int) -> LoadRow:
        """Report tasks picked at random, from some callers on some runs; each report closes a step."""
        bodies = [self._outcomes(count) for _ in range(REPORTS)]
        tally, end = Tally(), time.perf_counter() + self._seconds
        async with calling(self._port, callers) as open_callers:
            asks = (
                self._report(run, outcomes)
                for run, outcomes in zip(itertools.cycle(runs), itertools.cycle(bodies), strict=False)
            )
            await send_wave(open_callers, asks, tally, until=_over(end))
        return self._row(f"report {count}", runs, callers, tally)

    async def _end_leases(self, caller: Caller, runs: list[str]) -> None:
        for run in runs:
            probe = json.loads(await caller.post(self._select(run, 1)))
            path = f"/datasets/{self._dataset}/runs/{run}/rewind"
            await caller.post(Ask(path, json.dumps({"step": probe["step"]}).encode(), next(self._keys)))

    def _select(self, run: str, count: int) -> Ask:
        return Ask("/select", b'{"dataset":"%s","run":"%s","count":%d}' % (*self._place(run), count), next(self._keys))

    def _report(self, run: str, outcomes: bytes) -> Ask:
        return Ask(
            "/report", b'{"dataset":"%s","run":"%s","outcomes":%s}' % (*self._place(run), outcomes), next(self._keys)
        )

    def _place(self, run: str) -> tuple[bytes, bytes]:
        return self._dataset.encode(), run.encode()

    def _outcomes(self, count: int) -> bytes:
        tasks = self._rng.choice(self._tasks, count, replace=False).tolist()
        successes = self._rng.integers(0, 17, count).tolist()
        pairs = zip(tasks, successes, strict=True)
        return json.dumps([{"task": str(task), "successes": solved, "trials": 16} for task, solved in pairs]).encode()

    def _answer_to(self, selection: dict[str, object]) -> Ask:
        tasks = selection["tasks"]
        assert isinstance(tasks, list)
        outcomes = [
            {"task": task["id"], "successes": solved, "trials": 16}
            for task, solved in zip(tasks, self._rng.integers(0, 17, len(tasks)).tolist(), strict=True)
        ]
        places = {name: selection[name] for name in ("dataset", "run", "selection_id")}
        return Ask("/report", json.dumps({**places, "outcomes": outcomes}).encode(), next(self._keys))

    def _row(self, operation: str, runs: list[str], callers: int, tally: Tally) -> LoadRow:
        p50, p99 = np.percentile(tally.times_ms, [50, 99]).tolist()
        done = len(tally.times_ms)
        return LoadRow(
            operation, self._tasks, len(runs), callers, done, p50, p99, done / tally.wall_s, tally.cpu_s / tally.wall_s
        )


def _over(end: float) -> Callable[[], bool]:
    """Return what says whether it is past `end` on the performance counter."""
    return lambda: time.perf_counter() > end
