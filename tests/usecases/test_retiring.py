"""Tasks that are retired, and restored."""

import numpy as np
import pytest

from bots_service.errors import InvalidTasksError, PoolTooSmallError
from tests.usecases.world import POOL, World, outcome


async def test_retired_tasks_are_not_selected_but_can_be_reported(world: World):
    row = await world.use.datasets.retire(POOL, ["t3", "t5", "t3"], None)
    assert (row.live, row.retired) == (38, 2)
    row = await world.use.datasets.retire(POOL, ["t5", "t0"], None)
    assert (row.live, row.retired, row.version) == (37, 3, 3)
    for one in (world, world.beside()):
        with pytest.raises(PoolTooSmallError):
            await one.select(38)
        assert not {0, 3, 5} & set((await one.select(37)).tasks.tolist())
    assert (await world.report(outcome("t3"))).tally.reported == 1
    with pytest.raises(InvalidTasksError) as refused:
        await world.use.datasets.retire(POOL, ["t1", "x"], None)
    assert [flaw.where for flaw in refused.value.flaws] == [("ids", 1)]


async def test_restored_tasks_are_selected_again_with_what_is_known_of_them(world: World):
    await world.report(outcome("t3"))
    await world.use.datasets.retire(POOL, ["t3", "t5", "t0"], None)
    row = await world.use.datasets.restore(POOL, ["t5", "t3", "t3", "t1"], None)
    assert (row.live, row.retired, row.version) == (39, 1, 3)
    for one in (world, world.beside()):
        selection = await one.select(39)
        assert set(selection.tasks.tolist()) == set(range(40)) - {0}
        assert (await one.state()).attempts.of(np.array([3], np.int32)).visits.tolist() == [1]
        await one.runs.rewind(POOL, "default", 1, None)  # ends the leases
    with pytest.raises(InvalidTasksError) as refused:
        await world.use.datasets.restore(POOL, ["t0", "x"], None)
    assert [flaw.where for flaw in refused.value.flaws] == [("ids", 1)]
    assert (await world.opened()).dataset.pool.retired.tolist() == [0]


async def test_a_run_that_walks_passes_selects_a_restored_task_again(world: World):
    await world.put_run("passes", belief="tracker", strategy="pass")
    await world.use.datasets.retire(POOL, ["t3"], None)
    before = set((await world.select(20, "passes")).tasks.tolist())
    await world.use.datasets.restore(POOL, ["t3"], None)
    after = (await world.select(20, "passes")).tasks.tolist()
    assert before | set(after) == set(range(40))
