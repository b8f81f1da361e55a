"""Counts of runs, once however many processes fold."""

import asyncio

from tests.usecases.replicas import Replica
from tests.usecases.world import POOL, TASKS, World, outcome


def reported(*worlds: World) -> float:
    """Return how many reported tasks were counted, in all processes together."""
    found = [world.parts.metrics.runs.series(POOL, "default") for world in worlds]
    return sum(sample.value for series in found if series for sample in samples_of(series.reported_tasks))


def samples_of(counter):
    """Return the samples of one child of a counter."""
    return counter.collect()[0].samples


async def test_tasks_count_when_their_step_closes(world: World):
    await world.report(outcome("t0"), outcome("t1"), close_step=False)
    assert reported(world) == 0
    for _ in range(2):
        await world.report(outcome("t2"), key="once")
    assert reported(world) == 3


async def test_what_replicas_report_at_once_counts_once(replicas: tuple[Replica, Replica]):
    await replicas[0].runs.change_settings(POOL, "default", {"tasks_per_step": 4}, None)
    pairs = [(f"t{number}", f"t{number + 1}") for number in range(0, TASKS, 2)]
    await asyncio.gather(
        *(replicas[place % 2].report(*map(outcome, pair)) for place, pair in enumerate(pairs)),
    )
    assert (await replicas[0].state()).totals.reported == TASKS
    assert reported(*replicas) == TASKS
