"""What is read of runs and shown of them: right whichever replica moved a run."""

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import asdict
from sqlalchemy import text
from structlog.testing import capture_logs

from bots_service.access import Caller
from bots_service.core.summary import RUNNING_S, Gain, Sums
from bots_service.core.task_table import SORTS
from bots_service.errors import UnknownRunError
from bots_service.insight import Overview, OverviewPage, OverviewQuery, RunSummary
from bots_service.insight import TaskQuery as Query
from bots_service.records import RunRow
from bots_service.runs import ForkFrom
from bots_service.storage.sql.history import KnownRun, RunHead, SqlHistory
from tests.usecases.world import POOL, TASKS, Clock, World, flaws_of, meanwhile, outcome

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
    assert (rows["odd"].reported, rows["odd"].effective_task_ratio, rows["odd"].success_rate) == (2, 0.5, 0.75)
    assert rows["odd"].earlier_success_rate == 0.5  # steps 2 and 3
    assert rows["even"].success_rate == rows["even"].earlier_success_rate == 1.0


# --- tasks -----------------------------------------------------------------------------------------------------------


async def all_pages(world: World, query: dict, limit: int) -> list[int]:
    tasks: list[int] = []
    after = None
    while True:
        page = await world.use.insight.tasks(POOL, "default", Query(**query, after=after, limit=limit))
        assert len(page.table["tasks"]) <= limit
        tasks += page.table["tasks"].tolist()
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
    for limit, after in ((3, None), (100, None), (3, (float(teens[4]), teens[4]))):
        page = await world.use.insight.tasks(POOL, "default", Query(search="1", limit=limit, after=after))
        assert page.matching == len(teens)
    for wrong, where in (
        (Query(tag="none"), [("query", "tag")]),
        (Query(ids=("t1", "x", "y")), [("query", "ids", 1), ("query", "ids", 2)]),
    ):
        assert await flaws_of(world.use.insight.tasks(POOL, "default", wrong)) == where


EVERYONE = Caller(None, frozenset(), ("*",))


class Watch(SqlHistory):
    """History, with the names of the runs that were read, and how often ends were."""

    def __init__(self, world: World) -> None:
        super().__init__(world.database)
        self.ends_read, self.read_runs = 0, list[str]()

    async def known(self, heads: Sequence[RunHead]) -> dict[int, KnownRun]:
        found = await super().known(heads)
        self.read_runs += [known.row.name for known in found.values()]
        return found

    async def ends(self, run: RunRow, head: int, steps: Sequence[int]) -> dict[int, Sums]:
        self.ends_read += 1
        return await super().ends(run, head, steps)


class Summarizing:
    """A process that summarizes runs. watch: what it read; now: seconds since 1970."""

    def __init__(self, world: World) -> None:
        self.world, self.now, self.watch = world, Clock(1e10), Watch(world)
        self.use = Overview(world.runs, self.watch, self.now)

    async def overview(self, **query: Any) -> OverviewPage:
        return (await self.use.page(EVERYONE, OverviewQuery(**{"sort": "name", **query})))[0]

    async def one(self, run: str = "default") -> RunSummary:
        (found,) = [one for one in (await self.overview(limit=1000)).runs if one.run == run]
        alone = asdict(await self.use.one(POOL, run))
        assert {**alone, "leased": None, "evaluations": None} == asdict(found)
        return found

    async def gain(self, run: str = "default") -> Gain:
        found = (await self.one(run)).gain
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
    assert known == fresh


async def test_only_runs_that_moved_are_read(world: World, summarizing: Summarizing):
    await world.put_run("other")
    await close(world, 5)
    await close(world, 3, "other")
    page = await summarizing.overview()
    assert (page.matching, page.totals.reported) == (2, 2 * 8)
    assert await summarizing.overview() == page
    assert sorted(summarizing.watch.read_runs) == ["default", "other"]
    await close(world, 2)
    assert (await summarizing.one()).step == 7
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
    assert (found.step, found.effective) == (3, 2)
    await close(other, 1)
    assert (await summarizing.one()).step == 4
    await assert_is_as_read_at_first(summarizing)
    await other.runs.delete(POOL, "default", None)
    assert (await summarizing.one()).step == 0


async def test_without_a_baseline_the_gain_is_over_what_the_belief_expected(world: World, summarizing: Summarizing):
    await close(world, 2)
    gain, found = await summarizing.gain(), await world.use.insight.curve(POOL, "default", 10)
    expected = [point.reported * (point.uniform_effective_task_ratio or 0.0) for point in found]
    assert (gain.baseline, len(found)) == (None, 2)
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
    gains = [await summarizing.gain(), await summarizing.gain("child")]
    both = [await world.use.insight.curve(POOL, "default", 10), (await world.use.insight.curve(POOL, "child", 10))[2:]]
    expected = [
        sum(point.reported * (point.uniform_effective_task_ratio or 0.0) for point in points) for points in both
    ]
    assert [2 * gain.steps * (gain.uniform_ratio or 0.0) for gain in gains] == pytest.approx(expected)
    assert [gain.steps for gain in gains] == [4, 2]


async def test_a_measured_gain_compares_the_steps_that_both_closed(world: World, summarizing: Summarizing):
    await world.put_run("even", strategy="uniform")
    await close(world, 60)
    await close(world, 55, "even", effective=False)
    await close(world, 1, "even")
    gain = await summarizing.gain()
    assert (gain.baseline, gain.steps) == ("even", 56)
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
    assert child.baseline is None  # it began behind the last step of the other
    await assert_is_as_read_at_first(summarizing)
    await world.runs.delete(POOL, "even", None)
    assert (await summarizing.gain()).baseline is None


async def test_over_a_baseline_that_is_rewound_while_it_is_read_a_gain_is_estimated(
    world: World, summarizing: Summarizing
):
    await world.put_run("even", strategy="uniform")
    for run in ("default", "even"):
        await close(world, 3, run)
    meanwhile(summarizing.watch, "ends", lambda: world.rewind(1, "even"))
    gain = (await summarizing.overview()).runs[0].gain
    assert gain is not None
    assert gain.baseline is None


async def test_a_run_that_is_deleted_while_it_is_read_is_left_out(world: World):
    await world.put_run("gone")
    await close(world, 1, "gone")
    summarizing = Summarizing(world)
    meanwhile(summarizing.watch, "known", lambda: world.runs.delete(POOL, "gone", None))
    assert [one.run for one in (await summarizing.overview()).runs] == ["default"]


async def test_pages_in_any_order_hold_each_run_once_those_without_a_value_last(world: World, summarizing: Summarizing):
    for name, steps in (("few", 1), ("many", 3), ("none", 0)):
        await world.put_run(name)
        await close(world, steps, name)
    names = ["few", "many", "none"]
    ordered = {
        "attention": ["few", "many", "none"],  # nothing is wrong with any: by their last step
        "-attention": ["many", "few", "none"],
        "name": names,
        "-name": names[::-1],
        "step": ["none", "few", "many"],
        "-step": ["many", "few", "none"],
        "-rollouts": ["many", "few", "none"],
        "last_step": ["few", "many", "none"],
        "-last_step": ["many", "few", "none"],
        "effective_task_ratio": ["few", "many", "none"],
        "-vs_uniform": ["few", "many", "none"],
    }
    for sort, expected in ordered.items():
        first, last = await summarizing.use.page(EVERYONE, OverviewQuery(sort=sort, limit=2))
        rest, end = await summarizing.use.page(EVERYONE, OverviewQuery(sort=sort, limit=2, after=last))
        assert [one.run for one in (*first.runs, *rest.runs)] == expected, sort
        assert (len(first.runs), first.matching, end) == (2, 3, None)


async def test_a_query_finds_runs_by_part_of_their_names_by_dataset_and_by_status(
    world: World, summarizing: Summarizing
):
    await world.put_run("Qwen")
    await world.put_run("new")
    await close(world, 1, "Qwen")
    last = (await summarizing.one("Qwen")).last_step_at
    assert last is not None
    summarizing.now.now = last.timestamp()

    async def found(**query: Any) -> list[str]:
        page = await summarizing.overview(**query)
        assert (page.matching, page.totals.runs, page.totals.datasets) == (len(page.runs), 2, 1)
        return [one.run for one in page.runs]

    assert await found(search="OOL/QWE") == await found(status="running") == ["Qwen"]
    assert await found(status="new", dataset=POOL) == ["new"]
    assert await found(dataset="other") == await found(search="llama") == []


async def test_a_run_whose_next_step_is_overdue_stalls_while_tasks_are_in_flight(
    world: World, summarizing: Summarizing
):
    await close(world, 1)
    last = (await summarizing.one()).last_step_at
    assert last is not None
    summarizing.now.now = last.timestamp() + 2 * RUNNING_S
    assert (await summarizing.one()).status == "idle"
    await world.select(2)
    assert (await summarizing.one()).status == "stalled"
    totals = (await summarizing.overview()).totals
    assert (totals.stalled, totals.idle, totals.reported, totals.effective, totals.rollouts) == (1, 0, 2, 1, 32.0)


# --- verdicts --------------------------------------------------------------------------------------------------------


async def verdict_on(world: World, run: str) -> tuple[str, str]:
    found = (await world.use.overview.one(POOL, run)).verdict
    return found.kind, found.reason


async def break_the_verifier(world: World, run: str = "default") -> None:
    """Close steps whose groups differ, and then, at once, fail."""
    await world.put_run(run, strategy="uniform")
    for step in range(20):
        await world.report(*(outcome(f"t{task}", 4 if step < 15 else 0) for task in range(20)), run=run)


async def test_what_is_found_at_a_step_stands_until_the_run_shows_otherwise_and_every_process_tells_it(world: World):
    await break_the_verifier(world)
    found = await verdict_on(world, "default")
    assert found[0] == "verifier_suspect"
    for process in (world, world.beside()):
        (listed,) = (await process.use.overview.page(EVERYONE, OverviewQuery()))[0].runs
        assert (listed.verdict.kind, listed.verdict.reason) == found
    await world.report(*(outcome(f"t{task}", 4) for task in range(20)))
    assert (await verdict_on(world, "default"))[0] != "verifier_suspect"  # rewards vary again
    await world.rewind(20)
    assert await verdict_on(world, "default") == found
    await world.rewind(15)
    assert (await verdict_on(world, "default"))[0] != "verifier_suspect"


async def test_a_defect_in_what_is_found_costs_no_report(world: World, monkeypatch: pytest.MonkeyPatch):
    def broken(*_: Any) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr("bots_service.runs.facts_of", broken)
    with capture_logs() as logs:
        assert (await world.report(outcome("t1"))).step == 1
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["run_not_looked_at"]
    assert (await world.assert_is_a_replay()).step == 1


async def test_damaged_predictions_of_earlier_steps_cost_no_report(world: World):
    for _ in range(8):
        await world.report(outcome("t1"))
    broken = text("UPDATE journal SET calibration = :bytes").bindparams(bytes=b"damaged")
    await world.use.store.database.write(lambda connection: connection.execute(broken).close())
    with capture_logs() as logs:
        assert (await world.report(outcome("t1"))).step == 9  # after 8 steps the service looks at the run
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["run_not_looked_at"]


async def test_a_summary_counts_the_tasks_in_flight_and_there_is_none_of_an_unknown_run(world: World):
    await world.select(5)
    found = await world.use.overview.one(POOL, "default")
    assert (found.run, found.leased) == ("default", 5)
    with pytest.raises(UnknownRunError):
        await world.use.overview.one(POOL, "nobody")


# --- metrics ---------------------------------------------------------------------------------------------------------


async def test_it_shows_where_the_run_stands_and_how_it_chooses(world: World):
    await world.put_run("default", belief="bots")
    selected = await world.select(5)
    other = next(task for task in range(10, 16) if task not in selected.tasks)  # whose report ends no lease
    assert math.isnan(world.shown("step") or 0.0)
    assert world.shown("leased_tasks") == 5
    for step in range(1, 4):
        await world.report(outcome(f"t{other}", 1, 4), outcome(f"t{20 + step}", 4, 4))
        reported = (selected.tasks > 20) & (selected.tasks <= 20 + step)
        assert world.shown("leased_tasks") == 5 - np.count_nonzero(reported)
        head = await world.use.store.journal.head((await world.opened()).row)
        assert (world.shown("step"), world.shown("verifier_alarms")) == (step, 0)
        assert world.shown("uniform_effective_task_ratio") == pytest.approx(head.uniform.ratio)
    await world.rewind(1)
    assert world.shown("step") == 1
    await world.runs.change_settings(POOL, "default", {"strategy": "uniform"}, None)
    assert (world.shown("run_info", strategy="uniform"), world.shown("run_info", strategy="thompson")) == (1, None)


async def test_what_the_service_finds_against_a_run_is_shown(watched: World):
    assert watched.shown("narrow") is None
    await break_the_verifier(watched)
    assert watched.shown("verifier_alarms") == len((await watched.state()).guard.alarms) > 0
    for step in range(60):
        await watched.report(*(outcome(f"t{task}", 4) for task in range(20 if step == 0 else 1)))
    assert (watched.shown("verifier_alarms"), watched.shown("narrow")) == (0, 1)


async def test_what_is_found_is_shown_though_reports_come_together(watched: World):
    for turn in range(60):
        await asyncio.gather(*(watched.report(outcome("t1", 1, 4), key=f"{turn}-{place}") for place in range(2)))
    assert watched.shown("narrow") == 1


async def test_a_deleted_run_is_shown_no_longer_and_a_new_one_of_that_name_whole(watched: World):
    await watched.report(outcome("t1"))
    await watched.runs.delete(POOL, "default", None)
    assert (watched.shown("step"), watched.shown("run_info", strategy="pass")) == (None, None)
    await watched.report(outcome("t1"))
    assert (watched.shown("step"), watched.shown("run_info", strategy="pass")) == (1, 1)
