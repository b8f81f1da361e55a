"""Is the load model right? Jobs of one size run for a while, and what they took is compared with what it says."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace

import httpx

from benchmarks.jobs import Jobs
from benchmarks.load import Caller, Tally, calling
from benchmarks.meters import SETTLES_S, Meters, less, metered_cluster
from benchmarks.pools import make_rates
from benchmarks.running import import_pool
from bots_service.scaling.costs import Measured, ServerCost
from bots_service.scaling.model import (
    SCRAPED_EVERY_S,
    WATCHED_EVERY_S,
    Workload,
    per_second,
    redis_bytes,
    redraws_per_second,
)

REPLICAS, CALLERS, PAGES, POOL, DATASET = 2, 16, 2, 100_000, "pool"
MEMORY = "redis_memory_bytes"


@dataclass(frozen=True, slots=True)
class CheckRow:
    """What jobs of one size took in a second, and what the model says of them, by name of a cost.

    redis_memory_bytes in both: of all runs. late: steps that began more than a second too late.
    overview: what one page of the list of all runs cost.
    """

    runs: int
    steps_per_hour: float
    tasks: int
    steps: int
    late: int
    measured: dict[str, float]
    predicted: dict[str, float]
    overview: ServerCost


async def check_size(size: tuple[int, float, int], seconds: float, unit: Measured, *, waits_s: float) -> CheckRow:
    """Run jobs of a size, (runs, steps an hour, tasks a step), for so long; return what they took and should take."""
    runs, steps_per_hour, tasks = size
    with metered_cluster(REPLICAS, waits_s=waits_s) as meters:
        import_pool(meters.cluster.services[0], DATASET, make_rates(POOL, "k/16"))
        empty = meters.redis_memory()
        jobs = Jobs(meters, DATASET, [f"run-{at}" for at in range(runs)], POOL, pace=runs * steps_per_hour / 3600)
        jobs.make()
        await jobs.learn(count=tasks, reports=1)
        fsyncs, before, began = meters.fsyncs(), meters.read(), time.perf_counter()
        load = Workload(runs, steps_per_hour, tasks, pool_tasks=POOL, pages=PAGES)
        async with looked_at(jobs, load):
            steps, late = await train(meters, jobs, tasks, steps=round(seconds * load.steps_per_second))
        await asyncio.sleep(SETTLES_S)
        lasted = time.perf_counter() - began
        taken, memory = less(meters.read(), before) * (1 / lasted), meters.redis_memory() - empty
        waited = time.perf_counter()
        fsyncs = meters.fsyncs() - fsyncs
        fsyncs -= unit.costs.replica_second.fsyncs * REPLICAS * (time.perf_counter() - waited)
        jobs.without(unit.costs.replica_second * REPLICAS)
        overview = (await jobs.reads("overview", 20)).cost
    measured = {**asdict(replace(taken, fsyncs=fsyncs / lasted)), MEMORY: float(memory)}
    done = replace(load, steps_per_hour=3600 * steps / lasted / runs)
    return CheckRow(runs, steps_per_hour, tasks, steps, late, measured, predict(done, steps, unit), overview)


def predict(load: Workload, steps: int, unit: Measured) -> dict[str, float]:
    """Return what the model says. steps: of all runs; each made one before, and their selections are all kept still."""
    sizes = unit.sizes
    state_bytes = [
        sizes.state + sizes.state_task * replace(load, run_steps=1 + round(each)).tried
        for each in (steps / load.runs / 2, steps / load.runs)
    ]
    memory = redis_bytes(
        sizes, runs=load.runs, state_bytes=state_bytes[1], leased=0, selections=steps, tasks=load.tasks_per_step
    )
    return {**asdict(per_second(load, state_bytes[0], REPLICAS, unit)), MEMORY: memory}


async def train(meters: Meters, jobs: Jobs, tasks: int, *, steps: int) -> tuple[int, int]:
    """Let jobs select and report at their pace; return how many steps, and how many began more than a second late."""
    idle: asyncio.Queue[Caller] = asyncio.Queue()
    late = 0

    async def step(run: str, due: float) -> None:
        nonlocal late
        caller = await idle.get()
        late += time.perf_counter() > due + 1
        selection = await Tally().post(caller, jobs.asks.select(run, tasks))
        await Tally().post(caller, jobs.asks.answer_to(selection))
        idle.put_nowait(caller)

    async with calling(meters.cluster.ports, CALLERS, runs_stay=True) as callers, asyncio.TaskGroup() as group:
        for caller in callers:
            idle.put_nowait(caller)
        began = time.perf_counter()
        for number, run in zip(range(steps), itertools.cycle(jobs.runs), strict=False):
            due = began + number / jobs.pace
            await asyncio.sleep(due - time.perf_counter())
            group.create_task(step(run, due))
    return steps, late


@asynccontextmanager
async def looked_at(jobs: Jobs, load: Workload) -> AsyncIterator[None]:
    """Let Prometheus and open pages look at the runs."""
    every_s = [(addresses, SCRAPED_EVERY_S) for addresses in jobs.addresses("scrape")]
    every_s += [(addresses, WATCHED_EVERY_S) for addresses in jobs.addresses("watch")[:PAGES]]
    every_s += [(addresses, 1 / redraws_per_second(load)) for addresses in jobs.addresses("redraw")[:PAGES]]

    async def look(client: httpx.AsyncClient, addresses: list[str], every: float) -> None:
        while True:
            for address in addresses:
                (await client.get(address)).raise_for_status()
            await asyncio.sleep(every)

    async with httpx.AsyncClient(timeout=30) as client:
        looking = [asyncio.create_task(look(client, *each)) for each in every_s]
        try:
            yield
        finally:
            for task in looking:
                task.cancel()
            await asyncio.gather(*looking, return_exceptions=True)
