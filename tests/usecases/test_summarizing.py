"""Summaries of many runs: read once, continued, and right whichever replica moved a run."""

from collections import Counter
from typing import Any

import pytest
from sqlalchemy import insert

from bots_service.access import Caller
from bots_service.core.run_settings import RunSettings
from bots_service.core.summary.verdict import RUNNING_S
from bots_service.errors import StorageUnavailableError
from bots_service.overview import (
    ENTRIES_AT_ONCE,
    SETTLES_S,
    CompareWithUniform,
    OverviewPage,
    OverviewQuery,
    RunCourses,
    SummarizeRuns,
    SummedRun,
)
from bots_service.records import WantedCourse
from bots_service.runs import ForkFrom
from bots_service.storage.sql.runs import settings_text
from bots_service.storage.sql.tables import journal, judgements, receipts, runs
from tests.sizes import size
from tests.usecases.ports import Outage, Port
from tests.usecases.world import POOL, World, outcome

EVERYONE = Caller(None, frozenset(), ("*",))


class Watch(Port):
    """Courses, with a count of what was read."""

    def __init__(self, real: Any) -> None:
        super().__init__(real)
        self.calls: Counter[str] = Counter()
        self.entries = 0

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return super().__getattr__(name)

    async def read(self, wanted: list[WantedCourse]) -> Any:
        self.calls["read"] += 1
        self.entries += sum(part.last - part.after for one in wanted for part in one.entries)
        return await self.real.read(wanted)


class Clock:
    """Seconds that a test puts forward."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


class Summarizing:
    """A process that summarizes runs. watch: what it read; clock: seconds that only grow; now: since 1970."""

    def __init__(self, world: World) -> None:
        self.world, self.clock, self.now, self.repaired = world, Clock(), Clock(), list[tuple[str, str]]()
        stores = world.use.store.courses
        self.watch = Watch(stores)
        self.courses = RunCourses(
            self.watch,
            world.use.live,
            self.repair,
            CompareWithUniform(self.watch),
            clock=self.clock,
            now=self.now,
        )
        self.use = SummarizeRuns(world.use.store.datasets, self.courses, world.use.live, world.use.judging, self.now)
        self.now.time, self.cannot_repair = 1e10, False

    async def repair(self, dataset: str, run: str) -> None:
        self.repaired.append((dataset, run))
        if self.cannot_repair:
            raise StorageUnavailableError("the database did not answer")
        await self.world.parts.repair_receipts(dataset, run)

    async def overview(self, **query: Any) -> OverviewPage:
        return await self.use(EVERYONE, OverviewQuery(**{"sort": "name", **query}))

    async def listed(self, run: str = "default") -> SummedRun:
        (found,) = [one for one in (await self.overview(limit=1000)).runs if one.known.row.name == run]
        return found

    async def one(self, run: str = "default") -> SummedRun:
        found = await self.listed(run)
        alone = await self.use.one(POOL, run)
        stands, listed = alone.known.head[:5], found.known.head[:5]  # its judgement may have come between the two
        assert (stands, alone.gain, alone.status) == (listed, found.gain, found.status)
        return found


@pytest.fixture
def summarizing(world: World) -> Summarizing:
    return Summarizing(world)


async def close(world: World, steps: int, run: str = "default", *, effective: bool = True) -> None:
    for _ in range(steps):
        await world.report(outcome("t1", 4 if effective else 16), outcome("t2", 16), run=run)
    await world.use.live.settled([(await world.row(run)).id])


async def assert_is_as_read_at_first(summarizing: Summarizing) -> None:
    """Check that what is known of each run is what a process that knows nothing reads."""
    known = (await summarizing.overview(limit=1000)).runs
    fresh = (await Summarizing(summarizing.world).overview(limit=1000)).runs
    for one, other in zip(known, fresh, strict=True):
        assert one.known.newest.course.trend == pytest.approx(other.known.newest.course.trend)
        assert one.known.newest.course.sums == other.known.newest.course.sums
        assert (one.known.step, one.known.newest.strategy, one.gain) == (
            other.known.step,
            other.known.newest.strategy,
            other.gain,
        )


async def test_only_what_came_since_is_read(world: World, summarizing: Summarizing):
    await world.put_run("other")
    await close(world, 5)
    await close(world, 3, "other")
    await summarizing.overview()
    assert summarizing.watch.entries == 8
    await close(world, 2)
    assert (await summarizing.one()).known.step == 7
    assert summarizing.watch.entries == 10
    await assert_is_as_read_at_first(summarizing)


async def test_a_rewound_run_is_read_again_and_hides_its_steps(world: World, summarizing: Summarizing):
    await close(world, 5)
    await summarizing.overview()
    await world.rewind(2)
    await close(world, 1, effective=False)
    found = await summarizing.one()
    assert (found.known.step, found.known.newest.course.sums.effective) == (3, 2)
    await close(world, 1)
    assert (await summarizing.one()).known.step == 4
    await assert_is_as_read_at_first(summarizing)


async def test_what_another_replica_did_is_seen(world: World, summarizing: Summarizing):
    await close(world, 2)
    await summarizing.overview()
    other = world.beside()
    await close(other, 2)
    assert (await summarizing.one()).known.step == 4
    await other.runs.delete(POOL, "default", None)
    assert (await summarizing.one()).known.step == 0
    await assert_is_as_read_at_first(summarizing)


async def test_an_outlook_that_comes_after_its_step_is_found_for_a_while(watched: World):
    summarizing = Summarizing(watched)
    await close(watched, 2)
    summarizing.now.time = (await summarizing.one()).known.newest.course.last_step_at or 0.0
    found = (await summarizing.one()).gain
    assert found is not None
    assert (found.source, found.factor) == ("estimated", None)
    await watched.observe.once()
    (look,) = await watched.use.insight.outlooks(POOL, "default", 10)
    later = (await summarizing.one()).gain
    assert later is not None
    assert later.uniform_effective_task_ratio == look.uniform_effective_task_ratio
    assert later.factor == pytest.approx(2 / (4 * look.uniform_effective_task_ratio))
    reads = summarizing.watch.calls["read"]
    summarizing.clock.time += SETTLES_S
    await summarizing.overview()
    assert summarizing.watch.calls["read"] == reads


async def test_a_receipt_that_a_crash_left_out_is_shown_once_it_is_repaired(world: World, summarizing: Summarizing):
    await close(world, 4)
    world.sql("DELETE FROM receipts WHERE seq = 3")
    found = await summarizing.listed()
    assert (found.known.newest.course.steps, summarizing.repaired) == (3, [])
    summarizing.clock.time += SETTLES_S
    await summarizing.overview()
    assert summarizing.repaired == [(POOL, "default")]
    found = await summarizing.one()
    assert (found.known.newest.course.steps, found.known.newest.course.sums.effective) == (4, 4)
    await close(world, 1)
    await assert_is_as_read_at_first(summarizing)
    assert len(summarizing.repaired) == 1


async def test_a_run_that_cannot_be_repaired_is_tried_again_later(world: World, summarizing: Summarizing):
    await close(world, 3)
    world.sql("DELETE FROM receipts WHERE seq = 2")
    summarizing.cannot_repair = True
    await summarizing.overview()
    for tries in (1, 2):
        summarizing.clock.time += SETTLES_S
        await summarizing.overview()
        await summarizing.overview()  # not at once
        assert len(summarizing.repaired) == tries
    summarizing.cannot_repair = False
    summarizing.clock.time += SETTLES_S
    await summarizing.overview()
    assert (await summarizing.one()).known.step == 3


async def test_a_long_run_is_read_in_parts(world: World, summarizing: Summarizing):
    row = await world.row()
    steps = ENTRIES_AT_ONCE * 2 + 5
    kept = {"run_id": row.id, "epoch": 0, "closed": True, "late": 0, "expired": 0, "new_tasks": 0, "distinct_tasks": 1}
    tally = {"reported": 2, "effective": 1, "all_solved": 1, "none_solved": 0, "rollouts": 8.0, "successes": 1.0}

    def fill(connection: Any) -> None:
        seqs = range(1, steps + 1)
        rows = [{**kept, **tally, "seq": seq, "step": seq, "created_at": float(seq)} for seq in seqs]
        connection.execute(insert(receipts), rows)
        connection.execute(runs.update().values(head=steps))

    await world.database.write(fill)
    found = await summarizing.listed()
    assert (found.known.step, found.known.newest.course.sums.effective) == (steps, steps)
    assert summarizing.watch.calls["read"] == 3
    assert set(found.known.newest.course.trend) == {0.5}


async def test_a_measured_gain_reads_the_sums_that_no_course_has_once(world: World, summarizing: Summarizing):
    await world.put_run("even", strategy="uniform")
    await close(world, 60)
    await close(world, 55, "even", effective=False)
    await close(world, 1, "even")
    gain = (await summarizing.one()).gain
    assert gain is not None
    assert (gain.source, gain.baseline, gain.steps) == ("measured", "even", 56)
    assert (gain.factor, gain.uniform_effective_task_ratio) == (56.0, 1 / 100)
    asked = summarizing.watch.calls["sums"]
    await close(world, 2)
    wanted = Recorded(summarizing)
    assert (await summarizing.one()).gain == gain
    assert wanted.sums == []  # the steps that both closed are the same
    assert summarizing.watch.calls["sums"] > asked
    await close(world, 3, "even")
    later = (await summarizing.one()).gain
    assert later is not None
    assert later.steps == 59
    assert later.factor == pytest.approx(59 / 4)
    await assert_is_as_read_at_first(summarizing)


class Recorded:
    """The sums that are asked for from now on."""

    def __init__(self, summarizing: Summarizing) -> None:
        self.sums: list[Any] = []
        real = summarizing.watch.real

        class Recording(Port):
            async def sums(_, wanted: list[Any]) -> Any:  # noqa: N805 - the outer self is meant below
                self.sums += wanted
                return await real.sums(wanted)

        summarizing.watch.real = Recording(real)


async def test_a_deleted_baseline_leaves_an_estimate_and_another_takes_its_place(
    world: World, summarizing: Summarizing
):
    await world.put_run("even", strategy="uniform")
    await close(world, 2)
    await close(world, 2, "even")
    gain = (await summarizing.one()).gain
    assert gain is not None
    assert gain.baseline == "even"
    await world.runs.delete(POOL, "even", None)
    gain = (await summarizing.one()).gain
    assert gain is not None
    assert (gain.source, gain.baseline) == ("estimated", None)


async def test_a_fork_of_a_run_has_its_own_steps_only(world: World, summarizing: Summarizing):
    await close(world, 4)
    await world.runs.put(POOL, "child", {}, ForkFrom("default", 3), None)
    await close(world, 2, "child")
    found = await summarizing.one("child")
    assert (found.known.step, found.known.newest.course.steps) == (5, 2)


async def test_a_run_that_is_deleted_while_it_is_read_is_left_out(world: World):
    await world.put_run("gone")
    await close(world, 1, "gone")

    class Deleting(Port):
        async def rows(self, ids: list[int]) -> Any:
            await world.runs.delete(POOL, "gone", None)
            return await self.real.rows(ids)

    summarizing = Summarizing(world)
    summarizing.watch.real = Deleting(summarizing.watch.real)
    assert [one.known.row.name for one in (await summarizing.overview()).runs] == ["default"]


async def test_a_database_that_is_away_is_said_and_what_was_read_stays(world: World, summarizing: Summarizing):
    await close(world, 2)
    await summarizing.overview()
    outage = Outage("read")
    summarizing.watch.real, real = outage(summarizing.watch.real), summarizing.watch.real
    await close(world, 1)
    with pytest.raises(StorageUnavailableError):
        await summarizing.overview()
    summarizing.watch.real = real
    summarizing.watch.entries = 0
    assert (await summarizing.one()).known.step == 3
    assert summarizing.watch.entries == 1


@pytest.mark.no_cover
async def test_runs_that_stand_still_are_not_read_again_however_many(world: World, summarizing: Summarizing):
    count, steps = size(2_000, 10_000), 3
    dataset = (await world.row()).dataset_id

    def fill(connection: Any) -> None:
        own = {"settings": settings_text(RunSettings()), "head": steps, "epoch": 0, "created_at": 0.0}
        made = [{"uid": f"u{run}", "dataset_id": dataset, "name": f"run-{run:05}", **own} for run in range(count)]
        connection.execute(insert(runs), made)
        ids = connection.scalars(runs.select().with_only_columns(runs.c.id).where(runs.c.head > 0)).all()
        seqs = range(1, steps + 1)
        entry = {"epoch": 0, "kind": "report", "profiles": 1, "body": "{}", "created_at": 0.0}
        connection.execute(insert(journal), [{"run_id": run, "seq": seq, **entry} for run in ids for seq in seqs])
        kept = {"epoch": 0, "closed": True, "late": 0, "expired": 0, "new_tasks": 0, "distinct_tasks": 1}
        tally = {"reported": 2, "effective": 1, "all_solved": 1, "none_solved": 0, "rollouts": 8.0, "successes": 1.0}
        rows = [{"run_id": run, "seq": seq, "step": seq, **kept, **tally} for run in ids for seq in seqs]
        connection.execute(insert(receipts), rows)
        judged = {"epoch": 0, "seq": steps, "dataset_version": 1, "findings": "{}", "made_at": 0.0}
        connection.execute(insert(judgements), [{"run_id": run, **judged} for run in ids])

    await world.database.write(fill)
    page = await summarizing.overview(limit=50)
    assert (page.matching, page.totals.reported, page.totals.unjudged) == (count + 1, 2 * steps * count, 0)
    assert summarizing.watch.entries == steps * count
    summarizing.watch.calls.clear()
    for _ in range(3):
        assert await summarizing.overview(limit=50) == page
    assert summarizing.watch.calls == {"heads": 3}
    await close(world, 1)
    later = await summarizing.overview(limit=50)
    assert later.totals.reported == page.totals.reported + 2
    assert summarizing.watch.entries == steps * count + 1


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
        "vs_uniform": names,  # no outlook was stored, so none has a factor
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
    summarizing.now.time = (await summarizing.one("Qwen")).known.newest.course.last_step_at or 0.0

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
    last = (await summarizing.one()).known.newest.course.last_step_at
    assert last is not None
    summarizing.now.time = last + 2 * RUNNING_S
    assert (await summarizing.one()).status == "idle"
    await world.select(2)
    assert (await summarizing.one()).status == "stalled"
    totals = (await summarizing.overview()).totals
    assert (totals.stalled, totals.idle, totals.reported, totals.effective, totals.rollouts) == (1, 0, 2, 1, 32.0)
