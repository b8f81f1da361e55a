"""The tasks of a run: by page and as a whole, sorted and narrowed."""

from typing import Any

import numpy as np
import pytest

from bots_service.core.task_table import SORTS
from bots_service.errors import (
    InvalidInputError,
    InvalidTasksError,
)
from bots_service.insight import TaskQuery as Query
from tests.core.pools import beta_parameters
from tests.usecases.world import POOL, TASKS, World, outcome


async def all_pages(world: World, query: dict, limit: int) -> list[int]:
    tasks: list[int] = []
    after = None
    while True:
        page = await world.use.insight.tasks(POOL, "default", Query(**query, after=after, limit=limit))
        assert len(page.table.tasks) <= limit
        tasks += page.table.tasks.tolist()
        if page.next is None:
            return tasks
        after = page.next


@pytest.mark.parametrize(
    ("belief", "limit"), [("bots", 1), ("tracker", 7), ("bots", 39), ("tracker", 40), ("bots", 41)]
)
async def test_walking_all_pages_visits_each_task_once_in_order(world: World, belief: str, limit: int):
    await world.put_run("default", belief=belief)
    for step in range(3):  # most tasks stay tied with the others of their profile
        await world.report(*(outcome(f"t{task}", 8) for task in range(step, 12, 3)))
    await world.use.datasets.retire(POOL, ["t2", "t30"], None)
    state, pool = await world.state(), (await world.opened()).dataset.pool
    everyone = np.setdiff1d(np.arange(TASKS, dtype=np.int32), pool.retired)
    believed = state.belief.distributions(pool, everyone)
    last = {task: task % 3 + 1 for task in range(12)}
    values = {
        "index": everyone.tolist(),
        "mean": believed.mean.tolist(),
        "distance": np.abs(believed.mean - 0.5).tolist(),
        "effective": believed.effective(16.0).tolist(),
        "variance": believed.rollout_variance.tolist(),
        "attempts": [16.0 if task in last else 0.0 for task in everyone],
        "successes": [8.0 if task in last else 0.0 for task in everyone],
        "visits": [float(task in last) for task in everyone],
        "last_step": [last.get(task, 0) for task in everyone],
    }
    assert values.keys() == set(SORTS)
    for sort in [sign + name for name in SORTS for sign in ("", "-")]:
        sign, of = (-1 if sort.startswith("-") else 1), values[sort.removeprefix("-")]
        wanted = sorted(range(len(everyone)), key=lambda place: (sign * of[place], everyone[place]))
        assert await all_pages(world, {"sort": sort}, limit) == everyone[wanted].tolist(), sort


async def test_tasks_are_found_by_tag_and_by_id(world: World):
    await world.use.datasets.retire(POOL, ["t11"], None)
    assert await all_pages(world, {"tag": "rare"}, 2) == [1, 21, 31]
    assert await all_pages(world, {"ids": ("t21", "t2", "t11", "t21")}, 10) == [2, 21]
    assert await all_pages(world, {"ids": ("t21", "t2"), "tag": "rare"}, 10) == [21]
    await world.use.datasets.retire(POOL, ["t1", "t21", "t31"], None)
    assert await all_pages(world, {"tag": "rare"}, 2) == []
    for wrong, where in (
        (Query(sort="--mean"), ("query", "sort")),
        (Query(sort=""), ("query", "sort")),
        (Query(tag="none"), ("query", "tag")),
    ):
        with pytest.raises(InvalidInputError) as refused:
            await world.use.insight.tasks(POOL, "default", wrong)
        assert refused.value.flaws[0].where == where
    with pytest.raises(InvalidTasksError) as refused:
        await world.use.insight.tasks(POOL, "default", Query(ids=("t1", "x", "y")))
    assert [flaw.where for flaw in refused.value.flaws] == [("query", "ids", 1), ("query", "ids", 2)]


async def test_tasks_are_found_by_a_part_of_their_id_and_counted_before_they_are_paged(world: World):
    await world.use.datasets.retire(POOL, ["t11"], None)
    teens = [task for task in range(TASKS) if "1" in str(task) and task != 11]
    assert await all_pages(world, {"search": "T1", "sort": "-index"}, 3) == [
        task for task in reversed(teens) if str(task).startswith("1")
    ]
    assert await all_pages(world, {"search": "1", "tag": "rare"}, 2) == [1, 21, 31]
    assert await all_pages(world, {"search": "1", "ids": ("t21", "t2")}, 2) == [21]
    assert await all_pages(world, {"search": "t1t"}, 2) == []
    for limit, after in ((3, None), (100, None), (3, (float(teens[4]), teens[4]))):
        page = await world.use.insight.tasks(POOL, "default", Query(search="1", limit=limit, after=after))
        assert page.matching == len(teens)


async def test_the_whole_pool_comes_in_pieces_of_one_state(world: World):
    await world.put_run("default", belief="bots")
    await world.use.datasets.retire(POOL, [f"t{task}" for task in (3, *range(16, 32))], None)
    await world.report(outcome("t1"))
    state = await world.state()
    dataset, pieces = await world.use.insight.every_task(POOL, "default", Query(), piece=16)
    seen = []
    async for piece in pieces:
        await world.report(outcome("t1"))  # what comes meanwhile is not seen
        alpha, beta = beta_parameters(state.belief.distributions(dataset.pool, piece.tasks))
        np.testing.assert_array_equal([piece.alpha, piece.beta], [alpha, beta])
        seen.append(piece.tasks.tolist())
    left = [task for task in range(40) if task != 3 and task not in range(16, 32)]
    assert seen == [left[:16], left[16:]]


@pytest.mark.parametrize("sort", ["-index", "-mean", "attempts"])
async def test_the_whole_of_a_query_is_all_its_pages(world: World, sort: str):
    for step in range(6):
        await world.report(outcome(f"t{step}", step), outcome(f"t{step + 12}", 16))
    query: dict[str, Any] = {"search": "1", "segment": "untried" if sort == "-index" else None, "sort": sort}
    paged = await all_pages(world, query, 3)
    _, pieces = await world.use.insight.every_task(POOL, "default", Query(**query, limit=3), piece=4)
    assert [task async for piece in pieces for task in piece.tasks.tolist()] == paged
