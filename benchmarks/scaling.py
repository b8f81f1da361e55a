"""What requests cost each server, what is stored, and whether the load model that is made of it is right.

    python -m benchmarks.scaling [--quick] [--out DIR]

Two services share a PostgreSQL and a Redis, which stand behind relays that count bytes and round trips. Requests come
at a steady pace, few enough that none waits for another; processor time per request does not depend on what else the
machine does, as far as its caches and turbo allow. Then jobs of three sizes run, and the model says beforehand what
they will take. Writes scaling.json into DIR (benchmarks/results), and the unit costs into the service.
"""

import argparse
import asyncio
import json
import os
import time
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from rich.console import Console

from benchmarks.jobs import CostRow, Jobs
from benchmarks.machine import ROOT, commit, describe_machine
from benchmarks.meters import STATISTICS_S, Meters, metered_cluster
from benchmarks.pools import make_rates
from benchmarks.running import import_pool
from benchmarks.scaling_check import CheckRow, check_size
from benchmarks.scaling_fit import RedisKeyRow, fitted_costs, fitted_sizes, key_sizes
from bots_service.metrics.run_series import MOST_RUNS
from bots_service.scaling.costs import ServerCost, read_measured
from bots_service.storage.redis.cache import KNOWN_RUNS

POOL = 100_000
DATASET = "pool"
FSYNCS, TRIES = 200, 10  # the best try: others use the disk, too


@dataclass(frozen=True, slots=True)
class ScalingGrid:
    """What is measured.

    runs: of each cell, each of which makes so many rounds; counts: tasks of a step.
    learned: reports of 1,000 tasks that make a run's state large. relearning: runs of one service in all.
    pools: tasks of the pools that one service opens. checks: runs, steps an hour and tasks a step of the checks.
    waits_s: for PostgreSQL's statistics.
    """

    runs: int = 100
    rounds: int = 2
    counts: tuple[int, ...] = (1, 32, 256)
    pace: float = 25.0
    idle_s: float = 20.0
    busy_s: float = 6.0
    learned: int = 60
    relearning: int = KNOWN_RUNS + 300
    pools: tuple[int, ...] = (10**5, 10**6, 10**7)
    checks: tuple[tuple[int, float, int], ...] = ((10, 3600.0, 64), (100, 360.0, 32), (1000, 60.0, 32))
    check_s: float = 40.0
    waits_s: float = STATISTICS_S


FULL = ScalingGrid()
QUICK = ScalingGrid(
    *(3, 1, (1, 32), 50.0, 0.5, 0.3, 2, 5, (10**4, 2 * 10**4)), checks=((2, 3600.0, 4),), check_s=1.0, waits_s=0.0
)


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A pool that one service opened. tasks: 0 before the first; process_bytes: its memory; rows_bytes: in SQL."""

    tasks: int
    process_bytes: int
    rows_bytes: float
    select_ms: float


async def measure_costs(grid: ScalingGrid) -> tuple[ServerCost, list[CostRow], list[RedisKeyRow]]:
    """Return what a replica costs in a second without requests, what requests cost, and the sizes of Redis's keys."""
    with metered_cluster(2, waits_s=grid.waits_s) as meters:
        import_pool(meters.cluster.services[0], DATASET, make_rates(POOL, "k/16"))
        groups = {name: jobs_of(meters, name, grid) for name in ("observed", "filler", "small", "large")}
        observed, filler, small, large = groups.values()
        for jobs in groups.values():
            jobs.make()
        for jobs in (observed, filler, small):  # those that come first have metrics of their own, small ones have none
            await jobs.learn(count=1, reports=1)
        idle = await observed.idle(grid.idle_s)
        for jobs in groups.values():
            jobs.without(idle * 2)
        rows = [
            replace(row, request=f"{row.request}, observed") for row in await observed.steps(32, rounds=grid.rounds)
        ]
        keys = list[RedisKeyRow]()
        for count in grid.counts:
            rows += await small.steps(count, rounds=grid.rounds)
            await small.selects(count)
            keys.append(key_sizes(meters, DATASET, small.runs, count))
        await large.learn(count=1000, reports=grid.learned)
        rows += await large.steps(32, rounds=2 * grid.rounds)
        keys.append(key_sizes(meters, DATASET, large.runs, 32))
        rows += named(await small.steps(32, rounds=grid.rounds, runs_stay=False), "any replica")
        rows += named(await small.busy(32, seconds=grid.busy_s), "32 callers")
        for kind in ("scrape", "watch", "redraw"):
            rows.append(await observed.reads(kind, 2 * grid.runs))
        return idle, rows, keys


def named(rows: list[CostRow], how: str) -> list[CostRow]:
    """Return rows whose requests say how they were sent."""
    return [replace(row, request=f"{row.request}, {how}") for row in rows]


def jobs_of(meters: Meters, name: str, grid: ScalingGrid) -> Jobs:
    """Return jobs on runs that begin with a name."""
    runs = {"observed": min(MOST_RUNS, grid.runs), "filler": 3 * MOST_RUNS, "large": max(2, grid.runs // 4)}
    return Jobs(meters, DATASET, [f"{name}-{at}" for at in range(runs.get(name, grid.runs))], POOL, pace=grid.pace)


async def measure_relearning(grid: ScalingGrid) -> list[CostRow]:
    """Return what a select costs where one service forgot its run's leases, and where it remembers them."""
    with metered_cluster(1, waits_s=grid.waits_s) as meters:
        import_pool(meters.cluster.services[0], DATASET, make_rates(POOL, "k/16"))
        runs = [f"run-{at}" for at in range(grid.relearning)]
        everyone = Jobs(meters, DATASET, runs, POOL, pace=2 * grid.pace)
        everyone.make()
        await everyone.learn(count=32, reports=1)
        first = Jobs(meters, DATASET, runs[: max(grid.relearning - KNOWN_RUNS, 1)], POOL, pace=grid.pace)
        first.without(await first.idle(grid.idle_s / 2))
        await everyone.selects(32)
        return [replace(await first.selects(32), request=f"select, {what}") for what in ("forgotten", "remembered")]


async def measure_pools(grid: ScalingGrid) -> list[PoolRow]:
    """Return what pools take in a service and in SQL."""
    with metered_cluster(1, waits_s=grid.waits_s) as meters:
        service = meters.cluster.services[0]
        process = psutil.Process(service.process.pid)
        rows, before = [PoolRow(0, process.memory_info().rss, 0.0, 0.0)], meters.read().table_bytes
        for tasks in grid.pools:
            import_pool(service, f"pool-{tasks}", make_rates(tasks, "k/16"))
            jobs = Jobs(meters, f"pool-{tasks}", [f"run-{at}" for at in range(grid.runs)], tasks, pace=grid.pace)
            jobs.make()
            await jobs.selects(32)
            select = await jobs.selects(32)
            after = meters.read().table_bytes
            rows.append(PoolRow(tasks, process.memory_info().rss, after - before, select.cost.service_ms))
            before = after
        return rows


def fsyncs_per_second() -> float:
    """Return how many writes of 8 KiB, each to stable storage, the disk of temporary files does in a second."""
    with TemporaryDirectory(prefix="bots-bench-") as folder, (Path(folder) / "log").open("wb", buffering=0) as log:

        def rate() -> float:
            began = time.perf_counter()
            for _ in range(FSYNCS):
                log.write(bytes(8192))
                os.fdatasync(log.fileno())
            return FSYNCS / (time.perf_counter() - began)

        return max(rate() for _ in range(TRIES))


async def measure(grid: ScalingGrid) -> dict[str, Any]:
    """Return all figures as a JSON document."""
    words = Console(stderr=True)
    words.print("Measuring requests, on two services")
    idle, rows, keys = await measure_costs(grid)
    words.print("Measuring a service with more runs than it remembers")
    rows += await measure_relearning(grid)
    words.print("Measuring pools")
    pools = await measure_pools(grid)
    with metered_cluster(1, waits_s=0) as meters:
        stores = meters.cluster.versions()
    name, dirty = commit()
    figures: dict[str, Any] = {
        "commit": name,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {**describe_machine(), "dirty": dirty},
        "stores": stores,
        "fsyncs_per_second": fsyncs_per_second(),
        "costs": fitted_costs(idle, rows),
        "sizes": fitted_sizes(keys, pools),
    }
    unit = read_measured(figures)
    checks = list[CheckRow]()
    for size in grid.checks:
        words.print(f"Checking the model with {size[0]} runs")
        checks.append(await check_size(size, grid.check_s, unit, waits_s=grid.waits_s))
    return {**figures, "rows": plain(rows), "keys": plain(keys), "pools": plain(pools), "checks": plain(checks)}


def plain(rows: "list[CostRow] | list[RedisKeyRow] | list[PoolRow] | list[CheckRow]") -> list[dict[str, Any]]:
    """Return rows as JSON objects."""
    return [asdict(row) for row in rows]


UNIT = ("commit", "at", "machine", "stores", "fsyncs_per_second", "costs", "sizes")


def main() -> None:
    """Measure, and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few requests: does it run, not what it costs")
    parser.add_argument("--out", type=Path, help="folder for the figures; without it also the service gets them")
    options = parser.parse_args()
    figures = asyncio.run(measure(QUICK if options.quick else FULL))
    folder = options.out or ROOT / "benchmarks/results"
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "scaling.json", figures)
    if options.out is None and not options.quick:
        write(ROOT / "service/bots_service/scaling/measured.json", {name: figures[name] for name in UNIT})


def write(path: Path, figures: dict[str, Any]) -> None:
    """Write figures as a JSON document of four digits each."""
    path.write_text(json.dumps(rounded(figures), indent=1) + "\n", encoding="utf-8")


def rounded(value: Any) -> Any:
    """Return a JSON value with four digits of each number; more would be noise."""
    if isinstance(value, float):
        return float(f"{value:.4g}") if abs(value) > 1e-9 else 0.0
    if isinstance(value, dict):
        return {name: rounded(one) for name, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main()
