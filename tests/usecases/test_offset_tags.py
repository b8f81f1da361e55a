"""Offset tags: chosen once, from the tasks that a dataset is made of, and kept through all that follows."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import numpy as np
import pytest

from bots_service.core.belief.tracker import TrackerBelief
from bots_service.errors import DatasetExistsError
from bots_service.records import DatasetFacts
from tests.usecases.moving import exported, imported
from tests.usecases.world import POOL, World, block, never, outcome, stream

TASKS = 90  # 45 of them are even, 45 odd; of 400 tasks, 40 are rare


@pytest.fixture
async def other(folder: Callable[[str], Path]) -> AsyncIterator[World]:
    """Another service without datasets."""
    world = World.open(folder("other"))
    yield world
    await world.close()


async def facts_of(world: World, name: str = POOL) -> DatasetFacts:
    return (await world.opened(dataset=name)).dataset.row.facts


async def offset_tags(world: World, name: str = POOL) -> tuple[str, ...]:
    return (await facts_of(world, name)).offset_tags


async def test_a_new_dataset_chooses_its_offset_tags_and_an_append_keeps_them(empty: World):
    await empty.import_pool(POOL, block(0, TASKS))
    assert await offset_tags(empty) == ("even", "odd")
    row, _ = await empty.use.datasets.append(POOL, stream(block(TASKS, 400 - TASKS)), never)
    assert row.facts.tags["rare"] == 40  # enough by now, and too late
    assert row.facts.offset_tags == ("even", "odd")
    await empty.import_pool("whole", block(0, 400))
    assert await offset_tags(empty, "whole") == ("even", "odd", "rare")


async def test_every_process_numbers_the_profiles_alike(empty: World):
    await empty.import_pool(POOL, block(0, TASKS))
    await empty.use.datasets.append(POOL, stream(block(TASKS, 50)), never)
    mine, theirs = [(await world.opened()).dataset for world in (empty, empty.beside())]
    assert theirs.row.facts == mine.row.facts
    assert theirs.pool.offset_tags == mine.pool.offset_tags == ("even", "odd")
    np.testing.assert_array_equal(theirs.pool.profile_of, mine.pool.profile_of)
    np.testing.assert_array_equal(theirs.pool.carried, mine.pool.carried)
    carried = mine.pool.carried[mine.pool.profile_of]
    assert carried.tolist() == [1 if task % 2 == 0 else 2 for task in range(TASKS + 50)]


async def test_retiring_a_task_leaves_the_offset_tags(empty: World):
    await empty.import_pool(POOL, block(0, TASKS))
    await empty.use.datasets.retire(POOL, [f"t{task}" for task in range(0, TASKS, 2)], None)
    pool = (await empty.opened()).dataset.pool
    assert pool.offset_tags == ("even", "odd")
    assert len(pool.retired) == TASKS / 2


async def test_what_is_solved_under_one_tag_lifts_untried_tasks_of_that_tag(empty: World):
    await empty.import_pool(POOL, block(0, TASKS))
    await empty.put_run("tracked", belief="tracker")
    for step in range(6):
        solved = [outcome(f"t{task}", 16.0) for task in range(4 * step, 4 * step + 4, 2)]
        failed = [outcome(f"t{task}", 0.0) for task in range(4 * step + 1, 4 * step + 4, 2)]
        await empty.report(*solved, *failed, run="tracked")
    state, pool = await empty.assert_is_a_replay("tracked"), (await empty.opened("tracked")).dataset.pool
    assert isinstance(state.belief, TrackerBelief)
    even, odd = state.belief.effects.mean[-3:-1]
    assert even > 0.5 > -0.5 > odd
    appended = block(0, 2)  # the same pass rates under either tag
    appended.references[:] = 0.5
    appended.ids[:] = ["new-even", "new-odd"]
    await empty.use.datasets.append(POOL, stream(appended), never)
    pool = (await empty.opened("tracked")).dataset.pool
    beliefs = state.belief.distributions(pool, np.array([TASKS, TASKS + 1], np.int32))
    assert beliefs.location[0] - beliefs.location[1] == pytest.approx(even - odd, abs=1e-12)


async def test_a_run_of_the_same_tasks_with_other_offset_tags_is_refused(empty: World, other: World):
    await empty.import_pool(POOL, block(0, TASKS))
    await empty.report(outcome("t1"))
    await other.import_pool(POOL, block(0, 10))  # too few tasks for any offset tag
    await other.use.datasets.append(POOL, stream(block(10, TASKS - 10)), never)
    mine, theirs = [await facts_of(world) for world in (empty, other)]
    assert (mine.digest, theirs.offset_tags) == (theirs.digest, ())
    with pytest.raises(DatasetExistsError, match="offset_tags is"):
        await imported(other, await exported(empty))
