"""What is shown of runs: read when they moved, judged once for all, right whichever replica moved a run."""

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from bots_service import observing as module
from bots_service.access import Caller
from bots_service.core.outlook import Coverage, coverage, outlook_of
from bots_service.core.run_settings import StrategyName
from bots_service.core.summary.course import Gain, RunCourse, StepEnd
from bots_service.core.summary.verdict import RUNNING_S
from bots_service.errors import DamagedStateError, UnknownRunError
from bots_service.observing import IDLE_EVERY_S, MOST_OF_TIME, MOST_PAUSE_S
from bots_service.overview import Overview, OverviewPage, OverviewQuery, RunCourses, SummedRun
from bots_service.records import RunRow, StoredReceipt
from bots_service.runs import ForkFrom
from bots_service.storage.sql.courses import RunHead, SqlCourses
from tests.usecases.world import POOL, Clock, Later, World, meanwhile, outage, outcome

EVERYONE = Caller(None, frozenset(), ("*",))


class Watch(SqlCourses):
    """Courses, with the names of the runs that were read, and how often heads and ends were."""

    def __init__(self, world: World) -> None:
        super().__init__(world.database)
        self.heads_read, self.ends_read, self.read_runs = 0, 0, list[str]()

    async def heads(self, dataset: str | None = None) -> list[RunHead]:
        self.heads_read += 1
        return await super().heads(dataset)

    async def read(self, run: RunRow, head: int) -> tuple[RunCourse, StrategyName] | None:
        self.read_runs.append(run.name)
        return await super().read(run, head)

    async def ends(self, run: RunRow, head: int, steps: Sequence[int]) -> dict[int, StepEnd]:
        self.ends_read += 1
        return await super().ends(run, head, steps)


class Summarizing:
    """A process that summarizes runs. watch: what it read; now: seconds since 1970."""

    def __init__(self, world: World) -> None:
        self.world, self.now, self.watch = world, Clock(1e10), Watch(world)
        self.use = Overview(world.runs, RunCourses(self.watch), world.use.judging, self.now)

    async def overview(self, **query: Any) -> OverviewPage:
        return await self.use.page(EVERYONE, OverviewQuery(**{"sort": "name", **query}))

    async def listed(self, run: str = "default") -> SummedRun:
        (found,) = [one for one in (await self.overview(limit=1000)).runs if one.known.row.name == run]
        return found

    async def one(self, run: str = "default") -> SummedRun:
        found = await self.listed(run)
        alone = await self.use.one(POOL, run)
        stands, listed = alone.known.head[:5], found.known.head[:5]  # its judgement may have come between the two
        assert (stands, alone.gain, alone.status) == (listed, found.gain, found.status)
        return found

    async def gain(self) -> Gain:
        found = (await self.one()).gain
        assert found is not None
        return found


@pytest.fixture
def summarizing(world: World) -> Summarizing:
    return Summarizing(world)


async def close(world: World, steps: int, run: str = "default", *, effective: bool = True) -> None:
    for _ in range(steps):
        await world.report(outcome("t1", 4 if effective else 16), outcome("t2", 16), run=run)


async def assert_is_as_read_at_first(summarizing: Summarizing) -> None:
    """Check that what is known of each run is what a process that knows nothing reads."""
    known = (await summarizing.overview(limit=1000)).runs
    fresh = (await Summarizing(summarizing.world).overview(limit=1000)).runs
    for one, other in zip(known, fresh, strict=True):
        courses = [each.known.course for each in (one, other)]
        assert courses[0].trend == pytest.approx(courses[1].trend)
        assert (courses[0].sums, one.known.step, one.gain) == (courses[1].sums, other.known.step, other.gain)


async def test_only_runs_that_moved_are_read(world: World, summarizing: Summarizing):
    await world.put_run("other")
    await close(world, 5)
    await close(world, 3, "other")
    await summarizing.overview()
    assert sorted(summarizing.watch.read_runs) == ["default", "other"]
    await close(world, 2)
    assert (await summarizing.one()).known.step == 7
    assert sorted(summarizing.watch.read_runs) == ["default", "default", "other"]
    await assert_is_as_read_at_first(summarizing)


async def test_a_run_that_another_process_rewinds_moves_or_deletes_is_read_again(
    world: World, summarizing: Summarizing
):
    await close(world, 5)
    await summarizing.overview()
    other = world.beside()
    await other.rewind(2)
    await close(other, 1, effective=False)
    found = await summarizing.one()
    assert (found.known.step, found.known.course.sums.effective) == (3, 2)
    await close(other, 1)
    assert (await summarizing.one()).known.step == 4
    await assert_is_as_read_at_first(summarizing)
    await other.runs.delete(POOL, "default", None)
    assert (await summarizing.one()).known.step == 0


async def test_without_a_baseline_the_gain_is_over_what_the_belief_expected(world: World, summarizing: Summarizing):
    await close(world, 2)
    gain, found = await summarizing.gain(), await world.use.insight.curve(POOL, "default", 10)
    expected = [point.reported * (point.uniform_effective_task_ratio or 0.0) for point in found]
    assert (gain.source, len(found)) == ("estimated", 2)
    assert gain.factor == pytest.approx(2 / sum(expected))
    assert gain.uniform_effective_task_ratio == pytest.approx(sum(expected) / 4)


async def test_a_fork_goes_on_with_its_parent_s_estimate_and_a_rewind_goes_back_to_it(world: World):
    summarizing = Summarizing(world)
    await close(world, 4)
    await world.runs.put(POOL, "child", {}, ForkFrom("default", 2), None)
    for _ in range(2):
        await close(world, 1, "child")
    await world.rewind(2)
    for _ in range(2):
        await close(world, 1)
    child, parent = (await summarizing.listed("child")).known.course, (await summarizing.listed()).known.course
    both = await world.use.insight.curve(POOL, "default", 10), await world.use.insight.curve(POOL, "child", 10)
    expected = [
        sum(point.reported * (point.uniform_effective_task_ratio or 0.0) for point in points) for points in both
    ]
    assert [parent.expected, child.expected] == pytest.approx(expected)
    assert (parent.steps, child.steps) == (4, 2)


async def test_a_measured_gain_compares_the_steps_that_both_closed(world: World, summarizing: Summarizing):
    await world.put_run("even", strategy="uniform")
    await close(world, 60)
    await close(world, 55, "even", effective=False)
    await close(world, 1, "even")
    gain = await summarizing.gain()
    assert (gain.source, gain.baseline, gain.steps) == ("measured", "even", 56)
    assert (gain.factor, gain.uniform_effective_task_ratio) == (56.0, 1 / 100)
    await close(world, 2)
    assert (await summarizing.one()).gain == gain
    summarizing.watch.ends_read = 0
    await summarizing.overview()
    assert summarizing.watch.ends_read == 0  # neither moved
    await close(world, 3, "even")
    later = await summarizing.gain()
    assert later.steps == 59
    assert later.factor == pytest.approx(59 / 4)
    await world.runs.put(POOL, "child", {}, ForkFrom("default", 62), None)
    child = (await summarizing.one("child")).gain
    assert child is not None
    assert child.steps == 0  # it began behind the last step of the other
    await assert_is_as_read_at_first(summarizing)
    await world.runs.delete(POOL, "even", None)
    assert (await summarizing.gain()).source == "estimated"


async def test_a_run_that_is_deleted_while_it_is_read_is_left_out(world: World):
    await world.put_run("gone")
    await close(world, 1, "gone")
    summarizing = Summarizing(world)
    meanwhile(summarizing.watch, "rows", lambda: world.runs.delete(POOL, "gone", None))
    assert [one.known.row.name for one in (await summarizing.overview()).runs] == ["default"]


async def test_runs_that_stand_still_are_not_read_again(world: World, summarizing: Summarizing):
    for number in range(20):
        await world.put_run(f"run-{number}")
        await close(world, 2, f"run-{number}")
    await listed_when_judged(world)
    page = await summarizing.overview(limit=5)
    assert (page.matching, page.totals.reported, page.totals.unjudged) == (21, 80, 0)
    assert len(summarizing.watch.read_runs) == 21
    summarizing.watch.heads_read = 0
    for _ in range(3):
        assert await summarizing.overview(limit=5) == page
    assert (summarizing.watch.heads_read, len(summarizing.watch.read_runs)) == (3, 21)
    await close(world, 1)
    later = await summarizing.overview(limit=5)
    assert later.totals.reported == page.totals.reported + 2
    assert len(summarizing.watch.read_runs) == 22


async def test_pages_in_any_order_hold_each_run_once_those_without_a_value_last(world: World, summarizing: Summarizing):
    for name, steps in (("few", 1), ("many", 3), ("none", 0)):
        await world.put_run(name)
        await close(world, steps, name)
    names = ["default", "few", "many", "none"]
    ordered = {
        "attention": ["few", "many", "default", "none"],  # nothing is wrong with any: by their last step
        "-attention": ["many", "few", "default", "none"],
        "name": names,
        "-name": names[::-1],
        "step": ["default", "none", "few", "many"],
        "-step": ["many", "few", "default", "none"],
        "-rollouts": ["many", "few", "default", "none"],
        "created": ["default", "few", "many", "none"],
        "last_step": ["few", "many", "default", "none"],
        "-last_step": ["many", "few", "default", "none"],
        "effective_task_ratio": ["few", "many", "default", "none"],
        "-vs_uniform": ["few", "many", "default", "none"],
    }
    for sort, expected in ordered.items():
        first = await summarizing.overview(sort=sort, limit=3)
        rest = await summarizing.overview(sort=sort, limit=3, after=first.next)
        assert [one.known.row.name for one in (*first.runs, *rest.runs)] == expected, sort
        assert (len(first.runs), first.matching, rest.next) == (3, 4, None)


async def test_a_query_finds_runs_by_part_of_their_names_by_dataset_and_by_status(
    world: World, summarizing: Summarizing
):
    await world.put_run("Qwen")
    await close(world, 1, "Qwen")
    summarizing.now.now = (await summarizing.one("Qwen")).known.course.last_step_at or 0.0

    async def found(**query: Any) -> list[str]:
        page = await summarizing.overview(**query)
        assert (page.matching, page.totals.runs, page.totals.datasets) == (len(page.runs), 2, 1)
        return [one.known.row.name for one in page.runs]

    assert await found(search="OOL/QWE") == await found(status="running") == ["Qwen"]
    assert await found(status="new", dataset=POOL) == ["default"]
    assert await found(dataset="other") == await found(search="llama") == []


async def test_a_run_whose_next_step_is_overdue_stalls_while_tasks_are_in_flight(
    world: World, summarizing: Summarizing
):
    await close(world, 1)
    last = (await summarizing.one()).known.course.last_step_at
    assert last is not None
    summarizing.now.now = last + 2 * RUNNING_S
    assert (await summarizing.one()).status == "idle"
    await world.select(2)
    assert (await summarizing.one()).status == "stalled"
    totals = (await summarizing.overview()).totals
    assert (totals.stalled, totals.idle, totals.reported, totals.effective, totals.rollouts) == (1, 0, 2, 1, 32.0)


# --- judgements -------------------------------------------------------------------------------------------------------


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


async def test_what_a_run_s_summary_found_is_in_every_list_until_the_run_moves(world: World):
    await break_the_verifier(world)
    with outage(world.use.store.courses, "keep_judgement"):
        found = await verdict_on(world, "default")
    assert found == await verdict_on(world, "default")
    for process in (world, world.beside()):
        with outage(process.use.store.history, "steps"):  # it is judged once for all
            verdict = (await listed(process))["default"].verdict
        assert verdict is not None
        assert (verdict.kind, verdict.reason) == found
    assert found[0] == "verifier_suspect"
    await world.report(*(outcome(f"t{task}", 4) for task in range(20)))
    verdict = (await listed_when_judged(world))["default"].verdict
    assert verdict is not None
    assert verdict.reason != found[1]  # rewards vary again
    await world.rewind(20)
    assert await verdict_on(world, "default") == found
    await world.rewind(15)
    assert (await verdict_on(world, "default"))[0] != "verifier_suspect"


async def test_a_change_of_the_dataset_has_its_runs_judged_again(world: World):
    await world.report(outcome("t1"))
    before = await world.use.judging.judge(POOL, "default")
    await world.use.datasets.retire(POOL, ["t9"], None)
    (known,) = await world.use.overview.courses.of(POOL)
    assert not known.is_judged
    judgement = (await listed_when_judged(world))["default"].known.notes.judgement
    assert judgement is not None
    assert judgement.dataset_version > before.dataset_version


async def test_a_list_does_not_wait_for_judgements_that_take_long_and_says_that_there_are_none(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("bots_service.overview.PATIENCE_S", 0.01)
    go_on = asyncio.Event()
    await close(world, 1)
    other = world.beside()
    steps = other.use.store.history.steps

    async def slow(*arguments: Any) -> list[StoredReceipt]:
        await go_on.wait()
        return await steps(*arguments)

    monkeypatch.setattr(other.use.store.history, "steps", slow)
    async with other.use.judging.in_background():
        for _ in range(2):  # another list waits for the same work
            page = await other.use.overview.page(EVERYONE, OverviewQuery())
            assert (page.runs[0].verdict, page.totals.unjudged, page.totals.attention) == (None, 1, 0)
        go_on.set()
        assert (await listed_when_judged(other))["default"].verdict is not None
        go_on.clear()
        await other.report(outcome("t1"))
        await listed(other)  # and what is under way at the end is stopped


async def test_a_run_that_cannot_be_judged_is_not_tried_again_until_it_moves_and_hides_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    tried, refusal = list[str](), [DamagedStateError("damaged"), ValueError("a defect"), DamagedStateError("damaged")]
    other = world.beside()
    steps = other.use.store.history.steps

    async def failing(run: RunRow, *arguments: Any) -> list[StoredReceipt]:
        tried.append(run.name)
        if run.name == "default":
            raise refusal[tried.count("default") - 1]
        return await steps(run, *arguments)

    monkeypatch.setattr(other.use.store.history, "steps", failing)
    await world.put_run("other")
    for name in ("default", "other"):
        await close(other, 1, name)
    while (found := await listed(other))["other"].verdict is None or "default" not in tried:
        pass
    await listed(other)
    assert (found["default"].verdict, tried.count("default")) == (None, 1)
    await close(other, 1)
    while tried.count("default") < 2:
        await listed(other)


async def test_a_store_that_is_away_is_asked_again_by_the_next_list(world: World):
    await close(world, 1)
    with outage(world.use.store.history, "steps"):
        assert (await listed(world))["default"].verdict is None
    assert (await listed_when_judged(world))["default"].verdict is not None


async def test_a_large_dataset_that_is_not_open_is_not_opened_for_a_list(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("bots_service.overview.MOST_TASKS", 10)
    await close(world, 1)
    other = world.beside()
    assert (await listed(other))["default"].verdict is None
    assert other.use.datasets.known(POOL) is None
    assert (await listed_when_judged(world))["default"].verdict is not None  # it is open there


async def test_a_run_that_stands_still_is_judged_though_nobody_looks(watched: World):
    await watched.report(outcome("t1"))
    later = Later()
    observing = watched.observing(later)
    for later.later_s in (0.0, IDLE_EVERY_S, 2 * IDLE_EVERY_S):
        await observing.once()
    (known,) = await watched.use.overview.courses.of(POOL)
    assert known.is_judged


async def test_a_summary_counts_the_tasks_in_flight_and_there_is_none_of_an_unknown_run(world: World):
    await world.select(5)
    found, leased = await world.use.overview.with_leases(POOL, "default")
    assert (found.known.row.name, leased) == ("default", 5)
    with pytest.raises(UnknownRunError):
        await world.use.overview.with_leases(POOL, "nobody")


# --- metrics ---------------------------------------------------------------------------------------------------------


async def test_it_shows_where_the_run_stands_and_how_it_chooses(watched: World):
    await watched.put_run("default", belief="bots")
    await watched.select(5)
    assert math.isnan(watched.shown("step") or 0.0)
    expected = math.nan
    for step in range(2):
        await watched.observe.once()
        state, pool = await watched.state(), (await watched.opened()).dataset.pool
        covered, looked = coverage(state, pool), outlook_of(state, pool)
        assert watched.shown("uniform_effective_task_ratio") == pytest.approx(expected, nan_ok=True)
        assert looked is not None
        expected = looked.effective_task_ratio
        assert (watched.shown("step"), watched.shown("leased_tasks")) == (step, 5)
        assert watched.shown("narrow") == covered.narrow
        await watched.report(outcome("t1", 1, 4))
    await watched.runs.change_settings(POOL, "default", {"strategy": "uniform"}, None)
    await watched.observe.once()
    assert (watched.shown("run_info", strategy="uniform"), watched.shown("run_info", strategy="thompson")) == (1, None)


async def test_it_looks_at_the_pool_again_only_after_something_happened(
    watched: World, monkeypatch: pytest.MonkeyPatch
):
    looks: list[object] = []

    def counted(*arguments: Any) -> Coverage:
        looks.append(arguments)
        return coverage(*arguments)

    monkeypatch.setattr(module, "coverage", counted)
    for wanted in (1, 2):
        await watched.report(outcome("t1"))
        for _ in range(2):
            await watched.observe.once()
            assert len(looks) == wanted


async def test_a_run_that_is_idle_here_is_looked_at_once_a_minute(watched: World):
    """Another replica may be at work on it."""
    clock, other = Later(), watched.beside()
    observing = watched.observing(clock)
    await watched.report(outcome("t1"))
    await observing.once()
    await watched.select(1)
    for later_s, step in ((0.0, 2), (IDLE_EVERY_S / 2, 2), (IDLE_EVERY_S + 1, 4)):
        clock.later_s = later_s
        await other.report(outcome("t2"))
        await observing.once()
        assert watched.shown("step") == step


@pytest.mark.parametrize("what", ["run", "dataset"])
async def test_a_run_that_another_replica_deleted_is_shown_no_longer(watched: World, what: str):
    clock = Later()
    observing = watched.observing(clock)
    await watched.report(outcome("t1"))
    await observing.once()
    assert watched.shown("reports_total") == 1
    clock.later_s = IDLE_EVERY_S
    other = watched.beside().use
    await (other.runs.delete(POOL, "default", None) if what == "run" else other.datasets.delete(POOL, None))
    await observing.once()
    assert watched.shown("reports_total") is None


@pytest.mark.parametrize("moment", ["before the look at the run", "while the pool is looked at"])
async def test_a_run_that_is_deleted_during_a_look_leaves_nothing(
    watched: World, monkeypatch: pytest.MonkeyPatch, moment: str
):
    await watched.report(outcome("t1"))
    loop = asyncio.get_running_loop()

    def deleted_during(*arguments):
        asyncio.run_coroutine_threadsafe(watched.runs.delete(POOL, "default", None), loop).result(30)
        return coverage(*arguments)

    if moment.startswith("before"):
        meanwhile(watched.use.live, "leases", lambda: watched.runs.delete(POOL, "default", None))
    else:
        monkeypatch.setattr(module, "coverage", deleted_during)
    await watched.observe.once()
    samples = [sample for family in watched.registry.collect() for sample in family.samples]
    assert [sample for sample in samples if sample.labels.get("run")] == []


async def test_a_run_that_comes_back_is_shown_whole_again(watched: World):
    await watched.report(outcome("t1"))
    for _ in range(2):
        await watched.observe.once()
        for name in ("step", "uniform_effective_task_ratio"):
            assert (watched.shown(name) or 0.0) > 0, name
        watched.use.at_work.forget(POOL, "default")
        await watched.select(1)


async def test_a_run_that_goes_while_another_is_looked_at_is_left_out(watched: World):
    await watched.put_run("other")
    for run in ("default", "other"):
        await watched.report(outcome("t1"), run=run)
    meanwhile(watched.use.live, "leases", lambda: watched.runs.delete(POOL, "other", None))
    await watched.observe.once()
    assert watched.shown("step") == 1
    assert watched.registry.get_sample_value("bots_reports_total", {"dataset": POOL, "run": "other"}) is None


@pytest.mark.parametrize("took_s", [0.0, 0.5, 30.0])
async def test_looking_takes_no_more_than_a_twentieth_of_the_time(watched: World, took_s: float):
    clock, rounds = Clock(), []
    at_work = watched.use.at_work
    observing = watched.observing(clock)

    def last_used() -> dict[tuple[str, str], float]:
        rounds.append(clock.now)
        clock.now += took_s
        return {}

    with pytest.MonkeyPatch.context() as slow:
        slow.setattr(at_work, "last_used", last_used)
        await observing.when_due()
        pause_s = min(took_s / MOST_OF_TIME, MOST_PAUSE_S)
        for part in (0.99, 1.0):
            clock.now = max(clock.now, rounds[0] + pause_s * part)
            await observing.when_due()
    assert rounds[1:2] == [max(rounds[0] + took_s, rounds[0] + pause_s)]


async def test_it_goes_on_whatever_happens(watched: World):
    observing, wrong = watched.observing(every_s=0.001), ["a bug"]

    async def faulty() -> None:
        raise RuntimeError(wrong.pop())

    meanwhile(watched.runs, "newest_or_known", faulty)
    await watched.report(outcome("t1"))
    # Drawing a traceback for people takes a second, and the observer pauses for twenty times as long as it took.
    with capture_logs():
        async with asyncio.timeout(30), observing.in_background():
            while wrong:  # noqa: ASYNC110 - nothing tells when it has looked
                await asyncio.sleep(0.001)
            await watched.report(outcome("t1"))
            while watched.shown("step") != 2:  # noqa: ASYNC110 - the same
                await asyncio.sleep(0.001)


async def test_a_run_that_can_not_be_looked_at_hides_no_other(watched: World, monkeypatch: pytest.MonkeyPatch):
    await watched.put_run("other")
    await watched.report(outcome("t1"))
    await watched.select(1, run="other")

    def broken(state, pool):
        if not state.step:
            raise ValueError("a defect")
        return coverage(state, pool)

    monkeypatch.setattr(module, "coverage", broken)
    with capture_logs() as logs:
        for _ in range(2):
            await watched.observe.once()
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["run_not_observed"]
    assert watched.shown("step") == 1
