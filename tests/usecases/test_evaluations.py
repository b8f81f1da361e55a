"""What a trainer measures of its model stands next to its run's steps and a baseline; and a run that ended says so."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from bots_service.errors import InvalidJournalError, LimitReachedError, UnknownRunError
from bots_service.insight import OverviewQuery, RunSummary
from bots_service.records import IdempotencyKey
from bots_service.runs import ForkFrom
from bots_service.storage.sql.runs import MOST_EVALUATIONS
from tests.usecases.test_insight import EVERYONE
from tests.usecases.world import POOL, World, exported, imported, outage, outcome, reports, rows

HELD_OUT = "heldout/accuracy"


async def evaluate(world: World, value: float, step: int | None = None, run: str = "default", name: str = HELD_OUT):
    await world.runs.evaluate(POOL, run, step, {name: value}, None)


async def summary(world: World, run: str = "default") -> RunSummary:
    return await world.use.overview.one(POOL, run)


async def measured(world: World, run: str = "default") -> list[tuple[int, float]]:
    return list(((await summary(world, run)).evaluations or {}).get(HELD_OUT, ()))


async def listed(world: World, sort: str = "name") -> list[RunSummary]:
    return (await world.use.overview.page(EVERYONE, OverviewQuery(sort=sort)))[0].runs


async def test_an_evaluation_counts_at_the_last_closed_step_and_once_however_often_it_comes(world: World):
    await evaluate(world, 0.2)
    await reports(world, 3)
    await world.report(outcome("t9"), close_step=False)
    await evaluate(world, 0.5)
    await evaluate(world, 0.6)
    await evaluate(world, 0.4, 1)
    assert await measured(world) == [(0, 0.2), (1, 0.4), (3, 0.6)]
    assert (await world.assert_is_a_replay()).step == 3


async def test_a_retry_of_an_evaluation_does_not_count_at_a_later_step(world: World):
    key = IdempotencyKey("key", "fingerprint")
    await world.runs.evaluate(POOL, "default", None, {HELD_OUT: 0.5}, key)
    await reports(world, 1)
    assert await world.use.store.answers.find("", "key", type(None)) is not None  # all that the retry asks
    assert await measured(world) == [(0, 0.5)]


async def test_evaluations_that_come_at_once_all_stand(world: World):
    await asyncio.gather(*(evaluate(world, step / 10, step) for step in range(10)))
    assert await measured(world) == [(step, step / 10) for step in range(10)]


async def test_a_rewind_takes_back_what_was_measured_later_and_a_fork_begins_without_any(world: World):
    await reports(world, 4)
    for step in (2, 4):
        await evaluate(world, step / 10, step)
    await evaluate(world, 1.0, 4, name="later")
    await world.runs.put(POOL, "fork", {}, ForkFrom("default"), None)
    await world.rewind(2)
    assert (await summary(world)).evaluations == {HELD_OUT: ((2, 0.2),)}
    assert await measured(world, "fork") == []


async def test_a_run_that_is_deleted_takes_its_evaluations_along_and_so_does_one_that_is_set_up_anew(world: World):
    await evaluate(world, 0.5)
    await world.put_run("default", seed=3)
    assert await measured(world) == []
    await evaluate(world, 0.5)
    await world.runs.delete(POOL, "default", None)
    assert await measured(world) == []
    await world.put_run("gone")
    await world.runs.delete(POOL, "gone", None)
    with pytest.raises(UnknownRunError):
        await evaluate(world, 0.5, run="gone")


async def test_a_run_keeps_no_more_evaluations_than_it_may(world: World):
    full = {HELD_OUT: tuple((step, 0.5) for step in range(MOST_EVALUATIONS))}
    world.sql("UPDATE runs SET evaluations = ?", msgspec.json.encode(full).decode())
    await evaluate(world, 0.7, 5)
    with pytest.raises(LimitReachedError):
        await evaluate(world, 0.7, MOST_EVALUATIONS)
    assert (await measured(world))[5:] == [(5, 0.7), *full[HELD_OUT][6:]]


async def test_the_overview_compares_with_the_nearest_run_without_selection_and_sorts_by_that(world: World):
    for name, strategy in (("even", "uniform"), ("good", "pass"), ("poor", "pass"), ("shuffled", "shuffle")):
        await world.put_run(name, strategy=strategy)
    for step, value in ((0, 0.2), (10, 0.4), (20, 0.5)):
        await evaluate(world, value, step, "even")
    await evaluate(world, 0.9, 15, "even", name="zzz")  # of several names, the first by name counts
    await evaluate(world, 0.5, 5, "good")
    await evaluate(world, 0.6, 30, "good")  # beyond what the baseline has
    await evaluate(world, 0.3, 10, "poor")
    await evaluate(world, 0.1, 10, "shuffled")
    await world.put_run("new")
    found = {run.run: run.evaluation for run in await listed(world)}
    assert found["new"] is None
    for name, last, compared, difference in (("good", (30, 0.6), 5, 0.5 - 0.3), ("poor", (10, 0.3), 10, 0.3 - 0.4)):
        one = found[name]
        assert one is not None
        assert (one.name, one.step, one.value, one.baseline, one.compared_step) == (HELD_OUT, *last, "even", compared)
        assert one.difference == pytest.approx(difference)
    assert [one.baseline for name in ("even", "shuffled") if (one := found[name])] == [None, None]
    assert [run.run for run in await listed(world, "-evaluation")][:2] == ["good", "poor"]
    assert [run.run for run in await listed(world, "evaluation")][:2] == ["poor", "good"]
    await world.runs.delete(POOL, "even", None)
    assert [one.baseline for run in await listed(world) if (one := run.evaluation)] == ["shuffled", "shuffled", None]


async def test_every_process_tells_what_another_was_told(world: World, watched: World):
    assert [run.evaluation for run in await listed(watched)] == [None]
    await evaluate(world, 0.5)
    await world.runs.finish(POOL, "default", None)
    (run,) = await listed(watched)
    assert run.evaluation is not None
    assert (run.evaluation.value, run.status) == (0.5, "finished")
    await evaluate(world, 0.6)  # after training, too
    (run,) = await listed(watched)
    assert run.evaluation is not None
    assert (run.evaluation.value, run.status) == (0.6, "finished")


async def test_evaluations_and_the_end_of_a_run_move_with_it(world: World, folder: Callable[[str], Path]):
    await reports(world, 2)
    await evaluate(world, 0.5, 1)
    await world.rewind(1)
    await evaluate(world, 0.7, 9)  # later than the step of a rewind before it
    await world.runs.finish(POOL, "default", None)
    other = World.open(folder("other"), snapshot_every=5)
    await other.import_pool()
    await imported(other, await exported(world))
    assert (await summary(other)).evaluations == (await summary(world)).evaluations == {HELD_OUT: ((1, 0.5), (9, 0.7))}
    assert (await summary(other)).status == "finished"
    await other.close()


@pytest.mark.parametrize("forged", [{"": [[0, 0.5]]}, {HELD_OUT: [[-1, 0.5]]}, {HELD_OUT: [[0, None]]}, [HELD_OUT]])
async def test_a_journal_with_evaluations_that_no_run_can_have_is_refused(world: World, forged: object):
    header, *lines = (await exported(world)).splitlines()
    changed = msgspec.json.decode(header) | {"evaluations": forged}
    with pytest.raises(InvalidJournalError):
        await imported(world, b"\n".join([msgspec.json.encode(changed), *lines]), "forged")
    assert [row.name for row in await rows(world)] == ["default"]


async def test_what_an_import_says_of_evaluations_is_put_in_order_and_bounded(world: World):
    header, *lines = (await exported(world)).splitlines()

    async def take(run: str, **evaluations: list[list[float]]) -> None:
        changed = msgspec.json.decode(header) | {"evaluations": evaluations}
        await imported(world, b"\n".join([msgspec.json.encode(changed), *lines]), run)

    await take("mixed", b=[[3, 0.3], [1, 0.1], [3, 0.4]], a=[])
    assert (await summary(world, "mixed")).evaluations == {"b": ((1, 0.1), (3, 0.4))}
    with pytest.raises(LimitReachedError):
        await take("many", b=[[step, 0.5] for step in range(MOST_EVALUATIONS + 1)])


async def test_a_finished_run_is_live_again_with_its_next_selection_or_report(world: World, watched: World):
    async def status() -> set[str]:
        totals = (await watched.use.overview.page(EVERYONE, OverviewQuery()))[0].totals
        assert totals.finished + totals.new + totals.running == 1
        return {(await summary(process)).status for process in (world, watched)}

    await world.runs.finish(POOL, "default", None)
    assert await status() == {"finished"}
    await world.select(1)
    assert await status() == {"new"}
    await world.runs.finish(POOL, "default", None)
    await reports(world, 1)
    assert await status() == {"running"}
    await world.runs.finish(POOL, "default", None)
    await world.rewind(0)
    assert await status() == {"new"}


async def test_a_selection_of_a_finished_run_does_not_wait_for_sql(world: World):
    await world.select(1)
    await world.runs.finish(POOL, "default", None)
    with outage(world.use.store.runs, "resume"):
        assert len((await world.select(2)).tasks) == 2
    assert (await summary(world)).status == "finished"
    await world.select(2)
    assert (await summary(world)).status == "new"
