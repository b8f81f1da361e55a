"""What sharing costs: the same loads on one process with SQLite and on two that share PostgreSQL and Redis.

All of them run side by side and are asked in turn, so that a busy machine disturbs all alike; those not asked are idle.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial

from benchmarks.bench import Bench, LoadRow
from benchmarks.cluster_processes import running_cluster
from benchmarks.pools import make_rates
from benchmarks.running import import_pool, make_run, running_service

EMBEDDED, SERVICES, STAYING = "one process, SQLite", "2 services", "2 services, runs stay"
DATASET = "pool"
COUNT = 32
LEASE_S = 600.0  # longer than a load, as it is in life: replicas ask again for leases that they saw end

Load = Callable[[Bench], Awaitable[LoadRow]]


@dataclass(frozen=True, slots=True)
class ClusterGrid:
    """Which loads are measured, and for how long each.

    steps: reports of each run before anything is timed; a run's state grows with what it learned recently.
    pace: requests a second of the load that does not ask for all it can get.
    """

    tasks: int
    callers: int
    runs: int
    steps: int
    seconds: float
    pace: int
    paced_s: float


FULL = ClusterGrid(10**5, 64, runs=50, steps=60, seconds=3.0, pace=100, paced_s=20.0)
QUICK = ClusterGrid(10**4, 4, runs=3, steps=3, seconds=0.2, pace=50, paced_s=0.2)


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """One load at one place."""

    place: str
    load: LoadRow


async def measure_cluster(grid: ClusterGrid) -> AsyncIterator[ClusterRow]:
    """Yield each load at each place.

    Raises:
        RuntimeError: a server did not start; the message says why.
    """
    runs = [f"run-{number}" for number in range(grid.runs)]
    with running_service() as embedded, running_cluster(services=2) as cluster:
        benches = {EMBEDDED: Bench([embedded.port], DATASET, grid.tasks, grid.seconds)}
        for place, stays in ((SERVICES, False), (STAYING, True)):
            benches[place] = Bench(cluster.ports, DATASET, grid.tasks, grid.seconds, runs_stay=stays)
        for service, place in ((embedded, EMBEDDED), (cluster.services[0], SERVICES)):
            import_pool(service, DATASET, make_rates(grid.tasks, "k/16"))
            for run in runs:
                make_run(service, DATASET, run, lease_seconds=LEASE_S, belief="bots")
            await benches[place].learn(COUNT, runs, grid.callers, steps=grid.steps)
        for load in loads(grid, runs):
            for place, bench in benches.items():
                yield ClusterRow(place, await load(bench))


def loads(grid: ClusterGrid, runs: list[str]) -> Iterator[Load]:
    """Yield the loads: selects, selects at a steady pace, reports, and both in turn."""
    for callers in sorted({1, grid.callers}):
        yield partial(Bench.selects, count=COUNT, runs=runs, callers=callers)
        yield partial(Bench.reports, count=COUNT, runs=runs, callers=callers)
    yield lambda bench: bench.paced_selects(COUNT, runs, grid.callers, per_second=grid.pace, seconds=grid.paced_s)
    yield lambda bench: bench.trainers(COUNT, runs, grid.callers)
