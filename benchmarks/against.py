"""This checkout against another revision: the same loads, in turn, on services of both that run side by side.

So whatever else the machine does disturbs both alike. Each figure is this checkout's share of the other's in the same
round: the median over the rounds, with its quartiles.
"""

import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.bench import Bench, LoadRow
from benchmarks.cluster_processes import running_cluster
from benchmarks.machine import ROOT
from benchmarks.pools import make_rates
from benchmarks.processor import processor_of
from benchmarks.running import import_pool, make_run, running_service
from bots_service.core.arrays import Floats

DATASET = "pool"
COUNT = 32
BELIEFS = ("bots", "tracker")
LEASE_S = 1.0  # short, so that selects alone never lease half the pool
PLACES = {1: "one process, SQLite", 2: "2 services, PostgreSQL and Redis"}

Load = Callable[[Bench], Awaitable[LoadRow]]


@dataclass(frozen=True, slots=True)
class AgainstGrid:
    """What is measured. runs: of the loads on many; steps: reports of each run before; seconds: of a load."""

    tasks: int
    runs: int
    callers: int
    steps: int
    seconds: float
    rounds: int


FULL = AgainstGrid(10**5, runs=8, callers=32, steps=30, seconds=2.0, rounds=7)
QUICK = AgainstGrid(4_000, runs=2, callers=2, steps=2, seconds=0.1, rounds=1)


@dataclass(frozen=True, slots=True)
class AgainstRow:
    """One load at one place. per_second, processor: quartiles of the shares, of requests and of what each takes."""

    place: str
    belief: str
    load: LoadRow
    per_second: Floats
    processor: Floats


@dataclass(frozen=True, slots=True)
class _Side:
    """Services of one tree. processor: reads the seconds that they took so far."""

    bench: Bench
    processor: Callable[[], float]

    async def measure(self, load: Load) -> tuple[LoadRow, float, float]:
        """Return a load's row, its requests a second, and the processor time of a request."""
        before = self.processor()
        row = await load(self.bench)
        return row, row.per_second, (self.processor() - before) / row.requests


async def measure_against(revision: str, grid: AgainstGrid) -> AsyncIterator[AgainstRow]:
    """Yield each load at each place.

    Raises:
        RuntimeError: there is no such revision, or a server did not start; the message says why.
    """
    with checkout(revision) as other:
        for services, place in PLACES.items():
            with ExitStack() as stack:
                own, others = [await _side(stack, tree, services, grid) for tree in (ROOT, other)]
                for belief, load in loads(grid):
                    rows, shares = list[LoadRow](), []
                    for number in range(grid.rounds):  # each is first in every other round
                        first, second = (own, others) if number % 2 else (others, own)
                        found = {id(side): await side.measure(load) for side in (first, second)}
                        rows.append(found[id(own)][0])
                        shares.append(np.array(found[id(own)][1:]) / found[id(others)][1:])
                    per_second, processor = np.percentile(shares, [25, 50, 75], axis=0).T
                    yield AgainstRow(place, belief, rows[-1], per_second, processor)


@contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """Check a revision out into a temporary folder, and remove it at the end."""
    with tempfile.TemporaryDirectory(prefix="bots-bench-") as folder:
        tree = Path(folder) / "tree"
        add = ["git", "worktree", "add", "--detach", str(tree), revision]
        made = subprocess.run(add, cwd=ROOT, capture_output=True, text=True, check=False)
        if made.returncode:
            raise RuntimeError(f"{revision} can't be checked out: {made.stderr.strip()}")
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)


def loads(grid: AgainstGrid) -> Iterator[tuple[str, Load]]:
    """Yield the loads, each with its belief: of one caller and of many, on one run and on many others.

    The faster side reports more to the one run, so its state grows larger; the many have equal histories.
    """
    for belief in BELIEFS:
        one, *many = _runs(belief, grid)
        for callers, some in ((1, [one]), (grid.callers, [one]), (grid.callers, many)):
            yield belief, partial(Bench.steady_selects, count=COUNT, runs=some, callers=callers)
            yield belief, partial(Bench.reports, count=COUNT, runs=some, callers=callers)


def _runs(belief: str, grid: AgainstGrid) -> list[str]:
    return [f"{belief}-{number}" for number in range(1 + grid.runs)]


async def _side(stack: ExitStack, tree: Path, services: int, grid: AgainstGrid) -> _Side:
    if services == 1:
        running = [stack.enter_context(running_service(tree))]
    else:
        running = stack.enter_context(running_cluster(services=services, tree=tree)).services
    import_pool(running[0], DATASET, make_rates(grid.tasks, "k/16"))
    bench = Bench([each.port for each in running], DATASET, grid.tasks, grid.seconds, runs_stay=True)
    for belief in BELIEFS:
        for run in _runs(belief, grid):
            make_run(running[0], DATASET, run, lease_seconds=LEASE_S, belief=belief)
        await bench.learn(COUNT, _runs(belief, grid), grid.callers, steps=grid.steps)
    return _Side(bench, processor_of([each.process.pid for each in running]))
