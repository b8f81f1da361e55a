"""One process on SQLite over loopback, driven from this process: import, select and report."""

import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from benchmarks.bench import Bench, LoadRow, ShareRow
from benchmarks.pools import make_rates
from benchmarks.running import Service, import_pool, make_run

COUNT = 32  # of the reports to the tracker
LEASE_S = 1.0  # short, so that one load leaves no leases to the next


@dataclass(frozen=True, slots=True)
class ServiceGrid:
    """Which loads are measured, and for how long each. steps: of the one trainer."""

    pools: tuple[int, ...]
    counts: tuple[int, ...]
    callers: tuple[int, ...]
    runs: tuple[int, ...]
    steps: int
    seconds: float


FULL = ServiceGrid((10**6, 10**5), (1, 32, 512), (1, 64), (1, 50), steps=100, seconds=2.0)
QUICK = ServiceGrid((10**4,), (32,), (4,), (1, 3), steps=5, seconds=0.2)


@dataclass(frozen=True, slots=True)
class ImportRow:
    """Importing a pool from NDJSON. peak_mib: the most memory the service had until then."""

    tasks: int
    seconds: float
    peak_mib: float | None


Row = ImportRow | ShareRow | LoadRow


async def measure_service(service: Service, grid: ServiceGrid) -> AsyncIterator[Row]:
    """Yield what was measured, pool by pool: import, the steps of one trainer, loads of selects and of reports."""
    for tasks in grid.pools:
        dataset = f"pool-{tasks}"
        yield ImportRow(tasks, import_pool(service, dataset, make_rates(tasks, "k/16")), service.peak_memory_mib())
        runs = [f"run-{number}" for number in range(max(grid.runs))]
        for run in runs:
            make_run(service, dataset, run, lease_seconds=LEASE_S, belief="bots")
        bench = Bench([service.port], dataset, tasks, grid.seconds)
        for run, count in zip(runs, grid.counts, strict=False):
            yield await bench.steps(run, count, grid.steps)
        for count, spread, callers in itertools.product(grid.counts, grid.runs, grid.callers):
            yield await bench.selects(count, runs[:spread], callers)
            yield await bench.reports(count, runs[:spread], callers)
        tracked = [f"tracker-{number}" for number in range(max(grid.runs))]
        for run in tracked:
            make_run(service, dataset, run, lease_seconds=LEASE_S)
        row = await bench.reports(COUNT, tracked, max(grid.callers))
        yield replace(row, operation=f"{row.operation}, tracker")
