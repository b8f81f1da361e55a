"""Judgements of runs: each is made once for all processes and lists, and the summary of a run says the same."""

import asyncio
from typing import Any

import pytest

from bots_service.engine import judging
from bots_service.errors import DamagedStateError, StorageUnavailableError, UnknownRunError
from bots_service.observing import IDLE_EVERY_S
from bots_service.overview import OverviewQuery, SummedRun
from tests.usecases.ports import Port
from tests.usecases.test_summarizing import EVERYONE, close
from tests.usecases.world import POOL, Later, World, outcome


async def verdict_on(world: World, run: str) -> tuple[str, str]:
    found = await world.use.overview.one(POOL, run)
    assert found.verdict is not None
    return found.verdict.kind, found.verdict.reason


async def listed(world: World) -> dict[str, SummedRun]:
    page = await world.use.overview.page(EVERYONE, OverviewQuery(limit=1000))
    return {one.known.row.name: one for one in page.runs}


async def listed_when_judged(world: World) -> dict[str, SummedRun]:
    while True:
        found = await listed(world)
        if all(run.known.is_judged for run in found.values()):
            return found


async def break_the_verifier(world: World, run: str = "default") -> None:
    """Close steps whose groups differ, and then, at once, fail."""
    await world.put_run(run, strategy="uniform")
    for step in range(20):
        await world.report(*(outcome(f"t{task}", 4 if step < 15 else 0) for task in range(20)), run=run)


class Folding(Port):
    """A journal that counts how often entries are read."""

    def __init__(self, real: Any) -> None:
        super().__init__(real)
        self.reads = 0

    async def after(self, *arguments: Any) -> Any:
        self.reads += 1
        return await self.real.after(*arguments)


async def test_a_list_has_the_verdict_of_each_run_s_summary(world: World):
    await break_the_verifier(world, "broken")
    await world.put_run("early")
    await world.report(outcome("t1"), run="early")
    found = await listed_when_judged(world)
    alone = {name: await world.use.overview.one(POOL, name) for name in ("broken", "early", "default")}
    assert {name: run.verdict for name, run in found.items()} == {name: run.verdict for name, run in alone.items()}
    assert [name for name, run in found.items() if run.urgency] == ["broken"]


async def test_what_a_run_s_summary_found_is_in_the_list_at_once(world: World):
    await break_the_verifier(world)
    found = await verdict_on(world, "default")
    listed_one = (await listed(world))["default"].verdict
    assert listed_one is not None
    assert (listed_one.kind, listed_one.reason) == found
    await world.report(*(outcome(f"t{task}", 4) for task in range(20)))
    assert (await listed_when_judged(world))["default"].verdict != listed_one  # rewards vary again


async def test_a_judgement_outlives_the_process_and_costs_another_one_no_fold(world: World):
    await break_the_verifier(world)
    first = await verdict_on(world, "default")
    other = world.beside(journal=Folding)
    run = (await listed(other))["default"]
    assert run.verdict is not None
    assert (run.verdict.kind, run.verdict.reason) == await verdict_on(other, "default") == first
    assert other.use.store.journal.reads == 0  # type: ignore[attr-defined]  # it is a Folding


async def test_a_judgement_from_before_a_rewind_is_none(world: World):
    await break_the_verifier(world)
    assert (await verdict_on(world, "default"))[0] == "verifier_suspect"
    await world.rewind(15)
    assert (await verdict_on(world, "default"))[0] != "verifier_suspect"


async def test_an_older_judgement_does_not_replace_a_newer_one(world: World):
    await world.report(outcome("t1"))
    older = await world.use.judging.judge(POOL, "default")
    await world.report(outcome("t2"))
    newer = await world.use.judging.judge(POOL, "default")
    row = await world.row()
    await world.use.store.courses.keep_judgement(row, older)
    assert (await world.use.store.courses.notes([row.id]))[row.id].judgement == newer


async def test_a_change_of_the_dataset_has_its_runs_judged_again(world: World):
    await world.report(outcome("t1"))
    before = await world.use.judging.judge(POOL, "default")
    await world.use.datasets.retire(POOL, ["t9"], None)
    (known,) = await world.use.overview.courses.of(POOL)
    assert not known.is_judged
    await listed_when_judged(world)
    (known,) = await world.use.overview.courses.of(POOL)
    assert known.is_judged
    assert known.notes.judgement is not None
    assert known.notes.judgement.dataset_version > before.dataset_version


async def test_a_list_does_not_wait_for_judgements_that_take_long_and_says_that_there_are_none(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(judging, "PATIENCE_S", 0.01)
    go_on = asyncio.Event()

    class Slow(Port):
        async def history(self, *arguments: Any) -> Any:
            await go_on.wait()
            return await self.real.history(*arguments)

    await close(world, 1)
    other = world.beside(journal=Slow)
    async with other.use.judging.in_background():
        for _ in range(2):  # another list waits for the same work
            page = await other.use.overview.page(EVERYONE, OverviewQuery())
            assert (page.runs[0].verdict, page.totals.unjudged, page.totals.attention) == (None, 1, 0)
        go_on.set()
        assert (await listed_when_judged(other))["default"].verdict is not None
        go_on.clear()
        await other.report(outcome("t1"))
        await listed(other)  # and what is under way at the end is stopped


async def test_a_run_that_cannot_be_judged_is_not_tried_again_until_it_moves_and_hides_no_other(world: World):
    tried, refusal = list[str](), [DamagedStateError("damaged"), ValueError("a defect"), DamagedStateError("damaged")]

    class Failing(Port):
        async def history(self, run: Any, *arguments: Any) -> Any:
            tried.append(run.name)
            if run.name == "default":
                raise refusal[tried.count("default") - 1]
            return await self.real.history(run, *arguments)

    await world.put_run("other")
    other = world.beside(journal=Failing)
    for name in ("default", "other"):
        await close(other, 1, name)
    while (found := await listed(other))["other"].verdict is None:
        pass
    await listed(other)
    assert (found["default"].verdict, tried.count("default")) == (None, 1)
    await close(other, 1)
    while tried.count("default") < 2:
        await listed(other)


async def test_a_store_that_is_away_is_asked_again_by_the_next_list(world: World):
    away = [True]

    class Away(Port):
        async def history(self, *arguments: Any) -> Any:
            if away[0]:
                raise StorageUnavailableError("the database did not answer")
            return await self.real.history(*arguments)

    await close(world, 1)
    other = world.beside(journal=Away)
    assert (await listed(other))["default"].verdict is None
    away[0] = False
    assert (await listed_when_judged(other))["default"].verdict is not None


async def test_a_judgement_that_cannot_be_kept_is_still_told(world: World):
    class Full(Port):
        async def keep_judgement(self, *_: Any) -> None:
            raise StorageUnavailableError("the disk is full")

    await break_the_verifier(world)
    assert (await verdict_on(world.beside(courses=Full), "default"))[0] == "verifier_suspect"


async def test_a_large_dataset_that_is_not_open_is_not_opened_for_a_list(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(judging, "MOST_TASKS", 10)
    await close(world, 1)
    other = world.beside()
    assert (await listed(other))["default"].verdict is None
    assert other.use.datasets.known(POOL) is None
    assert (await listed_when_judged(world))["default"].verdict is not None  # it is open there


async def test_a_run_that_stands_still_is_judged_though_nobody_looks(watched: World):
    await watched.report(outcome("t1"))
    later = Later()
    observing = watched.observing(later)
    for later.later_s in (0.0, IDLE_EVERY_S):
        await observing.once()
    row = await watched.row()
    notes = (await watched.use.store.courses.notes([row.id]))[row.id]
    assert notes.judgement is not None
    assert notes.judgement.seq == 1


async def test_a_run_that_goes_from_easy_tasks_to_hard_ones_has_no_suspect_verifier(world: World):
    for run, strategy in (("rising", "easy_to_hard"), ("mixed", "uniform")):
        await world.put_run(run, strategy=strategy)
        for step in range(20):
            easy = step < 12  # then others, which fail
            tasks = range(20) if easy else range(20, 40)
            await world.report(*(outcome(f"t{task}", 16 if easy else 0) for task in tasks), run=run)
    assert (await verdict_on(world, "mixed"))[0] == "verifier_suspect"
    assert (await verdict_on(world, "rising"))[0] != "verifier_suspect"


async def test_a_summary_of_one_run_counts_its_tasks_in_flight_and_there_is_none_of_a_run_that_is_not_there(
    world: World,
):
    await world.select(5)
    found, leased = await world.use.overview.with_leases(POOL, "default")
    assert (found.known.row.name, leased) == ("default", 5)
    with pytest.raises(UnknownRunError):
        await world.use.overview.with_leases(POOL, "nobody")
