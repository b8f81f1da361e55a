"""What is read of a run: its curve, calibration, tags, tasks, and what each report said of a task."""

import numpy as np
import pytest

from bots_service.core.task_table import SORTS
from bots_service.errors import UnknownTaskError
from bots_service.insight import TaskQuery as Query
from bots_service.records import VisitsPage
from tests.core.pools import beta_parameters
from tests.usecases.test_pruning import pruner
from tests.usecases.world import POOL, TASKS, World, block, flaws_of, never, outcome, reports, stream

SOLVED = (4.0, 16.0, 0.0, 8.0, 16.0)  # of 16 rollouts of t1, in one step after the other


async def train(world: World) -> None:
    """Report t1 and t2 in five steps; t2 is always solved."""
    for solved in SOLVED:
        await world.report(outcome("t1", solved), outcome("t2", 16.0))


async def test_a_curve_has_as_many_points_as_wanted_and_the_last_may_hold_fewer_steps(world: World):
    assert await world.use.insight.curve(POOL, "default", 10) == []
    await train(world)
    points = await world.use.insight.curve(POOL, "default", 3)
    assert [(point.first_step, point.last_step) for point in points] == [(1, 2), (3, 4), (5, 5)]
    assert [(point.reported, point.effective) for point in points] == [(4, 1), (4, 1), (2, 0)]
    assert len(await world.use.insight.curve(POOL, "default", 10)) == len(SOLVED)


async def test_a_calibration_is_the_sum_over_the_last_steps_with_outcomes(world: World):
    assert (await world.use.insight.calibration(POOL, "default", 5))[0] == 0
    await train(world)
    await world.report(close_step=True)
    shown, sums = await world.use.insight.calibration(POOL, "default", 4)
    assert shown == 3  # the newest step has no outcome
    assert sum(sums.rollouts) == 3 * 2 * 16.0
    assert sum(sums.solved) == sum(SOLVED[2:]) + 3 * 16.0
    history = await world.use.insight.steps(POOL, "default", 2, 3)
    assert [one.effective_task_ratio for one in history] == [0.0, 0.5, 0.0]
    kept = [one.calibration for one in history]
    assert sums.predicted == pytest.approx(np.sum([one.predicted for one in kept if one], axis=0))


async def test_tags_are_read_over_the_last_steps_and_compared_with_those_before(world: World):
    empty = await world.use.insight.tags(POOL, "default", 2)
    assert (empty.first_step, empty.last_step) == (0, 0)
    assert {row.tag: row.tasks for row in empty.tags} == {"even": TASKS // 2, "odd": TASKS // 2, "rare": 4}
    await train(world)
    table = await world.use.insight.tags(POOL, "default", 2)
    assert (table.first_step, table.last_step) == (4, 5)
    rows = {row.tag: row for row in table.tags}
    assert (rows["odd"].reported, rows["odd"].effective, rows["odd"].mean_pass_rate) == (2, 1, 0.75)
    assert rows["odd"].earlier_mean_pass_rate == 0.5  # steps 2 and 3
    assert rows["even"].mean_pass_rate == rows["even"].earlier_mean_pass_rate == 1.0


# --- tasks -----------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(("belief", "limit"), [("bots", 3), ("tracker", 41)])
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


async def test_tasks_are_found_by_tag_by_id_and_by_a_part_of_it_and_counted_before_they_are_paged(world: World):
    await world.use.datasets.retire(POOL, ["t11"], None)
    teens = [task for task in range(TASKS) if "1" in str(task) and task != 11]
    for query, found in (
        ({"tag": "rare"}, [1, 21, 31]),
        ({"ids": ("t21", "t2", "t11", "t21")}, [2, 21]),
        ({"ids": ("t21", "t2"), "tag": "rare"}, [21]),
        ({"search": "T1", "sort": "-index"}, [task for task in reversed(teens) if str(task).startswith("1")]),
        ({"search": "1", "tag": "rare"}, [1, 21, 31]),
        ({"search": "1", "ids": ("t21", "t2")}, [21]),
        ({"search": "t1t"}, []),
    ):
        assert await all_pages(world, query, 2) == found
        _, pieces = await world.use.insight.every_task(POOL, "default", Query(**query, limit=1), piece=2)
        assert [task async for piece in pieces for task in piece.tasks.tolist()] == found
    for limit, after in ((3, None), (100, None), (3, (float(teens[4]), teens[4]))):
        page = await world.use.insight.tasks(POOL, "default", Query(search="1", limit=limit, after=after))
        assert page.matching == len(teens)
    for wrong, where in (
        (Query(sort="--mean"), [("query", "sort")]),
        (Query(tag="none"), [("query", "tag")]),
        (Query(ids=("t1", "x", "y")), [("query", "ids", 1), ("query", "ids", 2)]),
    ):
        assert await flaws_of(world.use.insight.tasks(POOL, "default", wrong)) == where


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


# --- the history of a task -------------------------------------------------------------------------------------------


async def history(world: World, task: str, before: int | None = None, limit: int = 100) -> VisitsPage:
    return await world.use.insight.task_history(POOL, "default", task, before, limit)


async def test_each_report_of_a_task_is_told_with_its_step_newest_first(world: World):
    early = await world.select(1)
    await world.report(outcome("t1", 3.0, 8.0), outcome("t2"))
    await world.report(outcome("t2"))
    await world.report(outcome("t1", 0.0, 2.0), close_step=False)
    await world.report(outcome("t1", 2.0, 2.0), selection_id=early.id, close_step=True)
    await world.rewind(1)
    told = (await history(world, "t1")).visits
    assert [(one.seq, one.step, one.successes, one.trials, one.late, one.hidden) for one in told] == [
        (4, 3, 2.0, 2.0, True, True),
        (3, 2, 0.0, 2.0, False, True),
        (1, 1, 3.0, 8.0, False, False),
    ]
    assert (await history(world, "t3")).visits == []


async def test_of_a_pruned_journal_the_kept_reports_are_told_and_where_they_begin(world: World):
    await reports(world, 40)
    await world.report(outcome("t1"))
    assert [one.seq for one in (await history(world, "t1")).visits] == [41, 2]
    pruned = (await pruner(world).remove_old())[0].seq
    page = await history(world, "t1")
    assert ([one.seq for one in page.visits], page.next, page.pruned) == ([41], None, pruned)


async def test_an_unknown_task_is_refused_with_ids_that_contain_what_was_asked(world: World):
    other = world.beside()
    with pytest.raises(UnknownTaskError, match="'t3', 't30', 't31', 't32', 't33'"):
        await history(other, "T3")
    with pytest.raises(UnknownTaskError):
        await history(other, "nothing")
    await world.use.datasets.append(POOL, stream(block(40, 1)), never)
    assert await history(other, "t40") == VisitsPage([], None, 0)
