"""How soon all is well again after everything was killed with -9 under load."""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from benchmarks.asks import Asks
from benchmarks.bench import Bench
from benchmarks.cluster_processes import Cluster, running_cluster
from benchmarks.load import Ask, Caller, RefusedError, calling
from benchmarks.pools import make_rates
from benchmarks.running import import_pool, make_run

DATASET = "pool"
COUNT = 32
LEASE_S = 600.0
PAUSE_S = 0.02
ANSWERS_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class RecoveryGrid:
    """What is lost and must come back. steps: reports of each run before; load_s: time under load before the kill."""

    tasks: int
    runs: int
    steps: int
    callers: int
    load_s: float
    repetitions: int
    services: int = 2


FULL = RecoveryGrid(10**5, runs=50, steps=60, callers=64, load_s=3.0, repetitions=3)
QUICK = RecoveryGrid(1000, runs=2, steps=2, callers=2, load_s=0.1, repetitions=1, services=1)


@dataclass(frozen=True, slots=True)
class RecoveryRow:
    """One kill of everything. The times are counted from the first start of a server.

    reports: acknowledged under load, until the kill. lost: of those, how many a later selection did not see.
    stores_s: until PostgreSQL and Redis answered; ready_s: until all services were ready; answered_s: until a
    selection of every run was answered.
    """

    tasks: int
    runs: int
    steps: int
    reports: int
    lost: int
    stores_s: float
    ready_s: float
    answered_s: float


async def measure_recovery(grid: RecoveryGrid) -> AsyncIterator[RecoveryRow]:
    """Yield one row per kill.

    Raises:
        RuntimeError: a server did not start; the message says why.
    """
    runs = [f"run-{number}" for number in range(grid.runs)]
    asks = Asks(DATASET, grid.tasks)
    with running_cluster(services=grid.services) as cluster:
        import_pool(cluster.services[0], DATASET, make_rates(grid.tasks, "k/16"))
        for run in runs:
            make_run(cluster.services[0], DATASET, run, lease_seconds=LEASE_S, belief="bots")
        bench = Bench(cluster.ports, DATASET, grid.tasks, seconds=0)
        await bench.learn(COUNT, runs, grid.callers, steps=grid.steps)
        for _ in range(grid.repetitions):
            acknowledged = await kill_under_load(cluster, asks, runs, grid)
            yield await recover(cluster, asks, runs, grid, acknowledged)


async def kill_under_load(cluster: Cluster, asks: Asks, runs: list[str], grid: RecoveryGrid) -> dict[str, list[int]]:
    """Kill everything while trainers select and report; return the seqs of the acknowledged reports, by run."""
    acknowledged: dict[str, list[int]] = {run: [] for run in runs}
    next_run, dying = itertools.cycle(runs), asyncio.Event()

    async def train(caller: Caller) -> None:
        try:
            while True:
                run = next(next_run)
                selection = await caller.post(asks.select(run, COUNT))
                receipt = await caller.post(asks.answer_to(selection))
                acknowledged[run].append(json.loads(receipt)["seq"])
        except (OSError, RefusedError):
            if not dying.is_set():
                raise

    async with calling(cluster.ports, grid.callers) as callers, asyncio.TaskGroup() as trainers:
        for caller in callers:
            trainers.create_task(train(caller))
        await asyncio.sleep(grid.load_s)
        dying.set()
        await asyncio.to_thread(cluster.kill)
    return acknowledged


async def recover(
    cluster: Cluster, asks: Asks, runs: list[str], grid: RecoveryGrid, acknowledged: dict[str, list[int]]
) -> RecoveryRow:
    """Start everything again, and select from every run."""
    begin = time.perf_counter()
    await asyncio.to_thread(cluster.start_stores)
    stores_s = time.perf_counter() - begin
    await asyncio.to_thread(cluster.start_services)
    ready_s = time.perf_counter() - begin
    found: dict[str, int] = {}

    async def select(caller: Caller, waiting: list[str]) -> None:
        while waiting:
            run = waiting.pop()
            selection = await answered(caller, asks.select(run, COUNT))
            found[run] = json.loads(selection)["seq"]

    async with calling(cluster.ports, grid.callers) as callers:
        waiting = list(runs)
        await asyncio.gather(*(select(caller, waiting) for caller in callers))
    answered_s = time.perf_counter() - begin
    reports = sum(map(len, acknowledged.values()))
    lost = count_lost(acknowledged, found)
    return RecoveryRow(grid.tasks, len(runs), grid.steps, reports, lost, stores_s, ready_s, answered_s)


def count_lost(acknowledged: dict[str, list[int]], found: dict[str, int]) -> int:
    """Return how many acknowledged reports are missing from the states that were found.

    Seqs have no gap: a report is missing from a state if its seq is greater than the state's.
    """
    return sum(seq > found[run] for run, seqs in acknowledged.items() for seq in seqs)


async def answered(caller: Caller, ask: Ask) -> bytes:
    """Return the answer, asking until one comes.

    Raises:
        TimeoutError: none came.
    """
    async with asyncio.timeout(ANSWERS_WITHIN_S):
        while True:
            try:
                return await caller.post(ask)
            except RefusedError:
                await asyncio.sleep(PAUSE_S)
