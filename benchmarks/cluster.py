"""What sharing costs: the same loads on the embedded default and on replicas that share PostgreSQL and Redis.

All of them run side by side and are asked in turn, so that a busy machine disturbs all alike; those not
asked are idle.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from functools import partial

from benchmarks.bench import SERVICE, Bench, LoadRow
from benchmarks.cluster_processes import running_cluster
from benchmarks.pools import make_rates
from benchmarks.running import Service, import_pool, make_run, running_service

EMBEDDED, SERVICES, STAYING, WORKERS = "embedded", "2 services", "2 services, runs stay", "2 workers"
APART = "2 embedded, apart"  # what the machine does at most with two services: they share nothing
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
    callers: tuple[int, ...]
    runs: int
    steps: int
    seconds: float
    pace: int
    paced_s: float


FULL = ClusterGrid(10**5, (1, 16, 64), runs=50, steps=60, seconds=3.0, pace=100, paced_s=20.0)
QUICK = ClusterGrid(10**4, (4,), runs=3, steps=3, seconds=0.2, pace=50, paced_s=0.2)


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """One load at one place, and the same load at the embedded default just before. steps: of each run before both."""

    place: str
    steps: int
    load: LoadRow
    embedded: LoadRow

    @property
    def p50_ratio(self) -> float:
        """The load's median time over the embedded default's."""
        return self.load.p50_ms / self.embedded.p50_ms

    @property
    def per_second_ratio(self) -> float:
        """The load's requests a second over the embedded default's."""
        return self.load.per_second / self.embedded.per_second


@dataclass(frozen=True, slots=True)
class Places:
    """Where to measure: by the name of each place its services, and the ids of their processes and their stores'.

    stores: what those that share lean on.
    """

    services: dict[str, list[Service]]
    processes: dict[str, dict[str, list[int]]]
    stores: str

    def bench(self, place: str, grid: ClusterGrid) -> Bench:
        """Return what asks the services of a place."""
        ports, stays = [service.port for service in self.services[_shared(place)]], place in (APART, STAYING)
        processes = self.processes[_shared(place)]
        return Bench(ports, DATASET, grid.tasks, grid.seconds, processes=processes, runs_stay=stays)

    def services_of(self, place: str) -> list[int]:
        """Return the ids of the processes of a place's services."""
        return self.processes[_shared(place)][SERVICE]


def _shared(place: str) -> str:
    """Return the place whose services it asks: runs that stay are another way to ask the same."""
    return SERVICES if place == STAYING else place


@contextmanager
def running_places() -> Iterator[Places]:
    """Start all places; end them at the end.

    Raises:
        RuntimeError: one did not start; the message says why.
    """
    with (
        running_service() as embedded,
        running_service() as one,
        running_service() as other,
        running_cluster(services=2) as services,
        running_cluster(services=1, workers=2) as workers,
    ):
        apart = [one, other]
        found = {EMBEDDED: [embedded], APART: apart, SERVICES: services.services, WORKERS: workers.services}
        processes = {
            EMBEDDED: {SERVICE: [embedded.process.pid]},
            APART: {SERVICE: [service.process.pid for service in apart]},
            SERVICES: services.processes,
            WORKERS: workers.processes,
        }
        yield Places(found, processes, services.versions())


async def measure_cluster(places: Places, grid: ClusterGrid) -> AsyncIterator[list[ClusterRow]]:
    """Yield the rows of each load, one a place; there are `loads_of(grid)`."""
    runs = runs_of(grid.runs)
    benches = {}
    for place, services in places.services.items():
        for service in services if place == APART else services[:1]:
            import_pool(service, DATASET, make_rates(grid.tasks, "k/16"))
            for run in runs:
                make_run(service, DATASET, run, lease_seconds=LEASE_S, belief="bots")
        benches[place] = places.bench(place, grid)
        await benches[place].learn(COUNT, runs, max(grid.callers), steps=grid.steps)
        if place == SERVICES:
            benches[STAYING] = places.bench(STAYING, grid)
    for load in loads(grid, runs):
        measured = {place: await load(bench) for place, bench in benches.items()}
        yield [ClusterRow(place, grid.steps, row, measured[EMBEDDED]) for place, row in measured.items()]


def runs_of(count: int) -> list[str]:
    """Return the names of so many runs."""
    return [f"run-{number}" for number in range(count)]


async def repeat(
    places: Places, row: ClusterRow, grid: ClusterGrid, watching: AbstractAsyncContextManager[object]
) -> None:
    """Put a load on a place once more, for as long as the grid says, and watch it."""
    await places.bench(row.place, grid).again(row.load, runs_of(row.load.runs), watching)


def loads(grid: ClusterGrid, runs: list[str]) -> Iterator[Load]:
    """Yield the loads."""
    for spread in (runs[:1], runs):
        for callers in grid.callers:
            yield partial(Bench.selects, count=COUNT, runs=spread, callers=callers)
    most = max(grid.callers)
    yield partial(Bench.paced_selects, count=COUNT, runs=runs, callers=most, per_second=grid.pace, seconds=grid.paced_s)
    for callers in grid.callers:
        yield partial(Bench.reports, count=COUNT, runs=runs, callers=callers)
    for callers in grid.callers:
        yield partial(Bench.trainers, count=COUNT, runs=runs, callers=callers)


def loads_of(grid: ClusterGrid) -> int:
    """Return how many loads there will be."""
    return 4 * len(grid.callers) + 1
