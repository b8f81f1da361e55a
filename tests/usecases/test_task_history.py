"""The history of a task: what each report of a run said of it."""

import pytest

from bots_service.errors import UnknownDatasetError, UnknownRunError, UnknownTaskError
from bots_service.records import VisitsPage
from tests.usecases.test_pruning import pruner, reports
from tests.usecases.world import POOL, World, block, never, outcome, stream


async def history(world: World, task: str, before: int | None = None, limit: int = 100) -> VisitsPage:
    return await world.use.insight.task_history(POOL, "default", task, before, limit)


async def test_each_report_of_a_task_is_told_with_its_step_newest_first(world: World):
    await world.report(outcome("t1", 3.0, 8.0), outcome("t2"))
    await world.report(outcome("t2"))
    await world.report(outcome("t1", 0.0, 2.0), close_step=False)
    await world.report(outcome("t1", 2.0, 2.0), close_step=True)
    told = (await history(world, "t1")).visits
    assert [(one.seq, one.step, one.successes, one.trials) for one in told] == [
        (4, 3, 2.0, 2.0),
        (3, 2, 0.0, 2.0),
        (1, 1, 3.0, 8.0),
    ]
    assert [(one.is_late, one.is_hidden) for one in told] == [(False, False)] * 3
    assert (await history(world, "t3")).visits == []


async def test_what_came_after_its_step_had_closed_is_late_and_what_a_rewind_undid_hidden(world: World):
    early = await world.select(1)
    await world.report(outcome("t1"))
    await world.report(outcome("t1", 1.0), selection_id=early.id)
    await world.rewind(1)
    told = (await history(world, "t1")).visits
    assert [(one.seq, one.is_late, one.is_hidden) for one in told] == [(2, True, True), (1, False, False)]


async def test_of_a_pruned_journal_the_kept_reports_are_told_and_where_they_begin(world: World):
    await reports(world, 40)
    await world.report(outcome("t1"))
    assert [one.seq for one in (await history(world, "t1")).visits] == [41, 2]
    pruned = (await pruner(world)())[0].seq
    page = await history(world, "t1")
    assert ([one.seq for one in page.visits], page.next, page.pruned) == ([41], None, pruned)


async def test_an_unknown_task_is_refused_with_ids_that_contain_what_was_asked(world: World):
    with pytest.raises(UnknownTaskError) as refused:
        await history(world, "T3")
    assert "'t3', 't30', 't31', 't32', 't33'" in str(refused.value)
    with pytest.raises(UnknownTaskError):
        await history(world, "nothing")
    with pytest.raises(UnknownRunError):
        await world.use.insight.task_history(POOL, "none", "t1", None, 1)
    with pytest.raises(UnknownDatasetError):
        await world.use.insight.task_history("none", "default", "t1", None, 1)


async def test_a_task_that_another_process_appended_is_known(world: World, watched: World):
    await history(watched, "t1")
    await world.use.datasets.append(POOL, stream(block(40, 1)), never)
    assert await history(watched, "t40") == VisitsPage([], None, 0)
