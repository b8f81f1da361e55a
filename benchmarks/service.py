"""The service over loopback, driven from this process: latency and throughput of select and report, and their share."""

import itertools
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

from benchmarks.bench import SERVICE, Bench, LoadRow, ShareRow
from benchmarks.pools import make_rates
from benchmarks.running import Service, import_pool, make_run


@dataclass(frozen=True, slots=True)
class ServiceGrid:
    """Which loads are measured, and for how long each."""

    pools: tuple[int, ...]
    counts: tuple[int, ...]
    callers: tuple[int, ...]
    runs: tuple[int, ...]
    steps: int
    seconds: float

    @property
    def selects(self) -> list[tuple[int, int, int]]:
        """Tasks, runs and callers of each load of selects: first those of one task, of the fewest and the most callers.

        Trainers that are asynchronous ask for a task at a time, each of their workers on its own.
        """
        of_one = itertools.product((1,), self.runs, sorted({min(self.callers), max(self.callers)}))
        return [*of_one, *self.reports]

    @property
    def reports(self) -> list[tuple[int, int, int]]:
        """Tasks, runs and callers of each load of reports."""
        return list(itertools.product(self.counts, self.runs, self.callers))


LEASE_S = 1.0  # short, so that one load leaves no leases to the next

FULL = ServiceGrid((10**6, 10**5), (32, 512), (1, 4, 16, 64), (1, 50), steps=100, seconds=2.0)
QUICK = ServiceGrid((10**4,), (32,), (4,), (1, 3), steps=5, seconds=0.2)


@dataclass(frozen=True, slots=True)
class ImportRow:
    """Importing a pool from Parquet. peak_mib: the most memory the service had until then."""

    tasks: int
    seconds: float
    peak_mib: float | None


Row = ImportRow | ShareRow | LoadRow


async def measure_service(service: Service, grid: ServiceGrid, *, loads: bool) -> AsyncIterator[Row]:
    """Yield what was measured, pool by pool: import, steps, and the loads if wanted."""
    for tasks in grid.pools:
        dataset = dataset_of(tasks)
        seconds = import_pool(service, dataset, make_rates(tasks, "k/16"))
        yield ImportRow(tasks, seconds, service.peak_memory_mib())
        runs = runs_of("bots", max(grid.runs) if loads else len(grid.counts))
        for run in runs:
            make_run(service, dataset, run, lease_seconds=LEASE_S, belief="bots")
        bench = bench_of(service, tasks, grid.seconds)
        for run, count in zip(runs, grid.counts, strict=False):
            yield await bench.steps(run, count, grid.steps)
        if not loads:
            continue
        for count, spread, callers in grid.selects:
            yield await bench.selects(count, runs[:spread], callers)
        if tasks == min(grid.pools):
            for count, spread, callers in grid.reports:
                yield await bench.reports(count, runs[:spread], callers)
            tracked = runs_of("tracker", max(grid.runs))
            for run in tracked:
                make_run(service, dataset, run, lease_seconds=LEASE_S, belief="tracker", strategy="thompson")
            row = await bench.reports(min(grid.counts), tracked, max(grid.callers))
            yield replace(row, operation=f"{row.operation}, tracker")


def bench_of(service: Service, tasks: int, seconds: float) -> Bench:
    """Return what asks the service for the pool of so many tasks."""
    processes = {SERVICE: [service.process.pid]}
    return Bench([service.port], dataset_of(tasks), tasks, seconds, processes=processes)


def dataset_of(tasks: int) -> str:
    """Return the name of the dataset with so many tasks."""
    return f"pool-{tasks}"


def runs_of(belief: str, count: int) -> list[str]:
    """Return the names of so many runs with a belief, in each dataset."""
    return [f"{belief}-{number}" for number in range(count)]


async def repeat(service: Service, row: LoadRow, seconds: float, watching: AbstractAsyncContextManager[object]) -> None:
    """Put a load on the service once more, for so many seconds, and watch it."""
    runs = runs_of("tracker" if row.operation.endswith("tracker") else "bots", row.runs)
    await bench_of(service, row.tasks, seconds).again(row, runs, watching)


def rows_of(grid: ServiceGrid, *, loads: bool) -> int:
    """Return how many rows there will be."""
    each = len(grid.pools) * (1 + len(grid.counts))
    return each + (len(grid.pools) * len(grid.selects) + len(grid.reports) + 1 if loads else 0)
