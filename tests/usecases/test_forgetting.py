"""Forgetting tasks whose labels were mended: they are believed as if they had never been tried."""

import numpy as np
import pytest

from bots_service.errors import InvalidTasksError
from bots_service.outcomes import Outcome
from tests.usecases.world import POOL, World, outcome


@pytest.mark.parametrize("belief", ["tracker", "bots"])
async def test_a_forgotten_task_is_believed_as_one_that_was_never_tried_and_all_else_stays(world: World, belief: str):
    await world.put_run("run", belief=belief, reward_range=(0.0, 1.0))
    for step in range(6):
        await world.report(*(outcome(f"t{task}", 0.0 if task == 3 else step % 16) for task in range(8)), run="run")
    await world.report(Outcome("t3", status="aborted"), run="run")
    before, opened = await world.state("run"), await world.opened("run")
    told = await world.runs.forget_tasks(POOL, "run", ["t3"], None)
    after, pool = await world.state("run"), opened.dataset.pool
    everyone = np.arange(len(pool), dtype=np.int32)
    now, then = (state.belief.distributions(pool, everyone).mean for state in (after, before))
    profile = after.belief.profile_distributions(pool).mean[pool.profile_of[3]]
    assert now[3] == profile > then[3]
    assert np.delete(now, 3).tolist() == np.delete(then, 3).tolist()
    assert 3 not in after.belief.own_tasks
    assert (len(after.aborts), told.run.totals) == (0, (await world.describe("run")).totals)
    assert after.attempts.of(np.array([3], np.int32)).visits.tolist() == [6]
    await world.report(outcome("t3", 16.0), run="run")
    await world.assert_is_a_replay("run")
    entries = await world.use.insight.entries(POOL, "run", None, 10, ["forget"])
    assert [(entry.kind, entry.tasks) for entry in entries] == [("forget", 1)]


async def test_forgetting_is_undone_by_a_rewind(world: World):
    await world.report(outcome("t3", 0.0))
    belief = (await world.state()).belief
    await world.runs.forget_tasks(POOL, "default", ["t3"], None)
    await world.rewind(1)
    pool = (await world.opened()).dataset.pool
    task = np.array([3], np.int32)
    assert (await world.state()).belief.distributions(pool, task).mean == belief.distributions(pool, task).mean


async def test_only_known_tasks_are_forgotten(world: World):
    with pytest.raises(InvalidTasksError) as refused:
        await world.runs.forget_tasks(POOL, "default", ["t3", "nobody"], None)
    assert refused.value.flaws[0].where == ("body", "tasks", 1)
    assert (await world.state()).seq == 0
