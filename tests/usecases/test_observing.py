"""What is shown of runs follows their newest state, and goes when they go."""

import asyncio
import math

import pytest
from structlog.testing import capture_logs

from bots_service.core.coverage import coverage
from bots_service.core.outlook import outlook
from bots_service.errors import StorageUnavailableError
from bots_service.observing import IDLE_EVERY_S, MOST_OF_TIME, MOST_PAUSE_S, ObserveRuns
from bots_service.records import KnownState
from bots_service.usecases import observe_runs as look_at_run
from tests.usecases.world import POOL, Later, World, outcome


async def test_it_shows_where_the_run_stands(watched: World):
    await watched.put_run("default", belief="bots")
    await watched.report(outcome("t1", 3), outcome("t2", 16))
    await watched.report(outcome("t3", 8))
    await watched.select(5)
    assert math.isnan(watched.shown("step") or 0.0)
    await watched.observe.once()
    state, pool = await watched.state(), (await watched.opened()).dataset.pool
    assert watched.shown("step") == state.step == 2
    assert watched.shown("leased_tasks") == 5
    assert watched.shown("unfolded_entries") == 0
    expected = outlook(state.belief, pool, 16.0)
    assert expected is not None
    assert watched.shown("uniform_effective_task_ratio") == expected.effective_task_ratio
    covered = coverage(state, pool)
    assert (watched.shown("reached_share"), watched.shown("narrow")) == (covered.reached_share, covered.narrow)


async def test_the_rollouts_are_those_that_tasks_got_and_before_any_those_of_the_settings(watched: World):
    await watched.select(1)
    for rollouts in (16.0, 4.0):
        await watched.observe.once()
        state, pool = await watched.state(), (await watched.opened()).dataset.pool
        expected = outlook(state.belief, pool, rollouts)
        assert expected is not None
        assert watched.shown("uniform_effective_task_ratio") == expected.effective_task_ratio
        await watched.report(outcome("t1", 1, 4))


async def test_it_looks_at_the_pool_again_only_after_something_happened(
    watched: World, monkeypatch: pytest.MonkeyPatch
):
    looks = 0

    def counted(*arguments):
        nonlocal looks
        looks += 1
        return outlook(*arguments)

    monkeypatch.setattr(look_at_run, "outlook", counted)
    for wanted in (1, 1, 2):
        if wanted > 1 or not looks:
            await watched.report(outcome("t1"))
        await watched.observe.once()
        assert looks == wanted


async def test_a_run_that_is_idle_here_is_looked_at_once_a_minute(watched: World):
    """Another replica may be at work on it."""
    clock, other = Later(), watched.beside()
    observing = watched.observing(clock)
    await watched.report(outcome("t1"))
    await observing.once()
    await watched.select(1)
    for later_s, lacking in ((0.0, 1), (IDLE_EVERY_S / 2, 1), (IDLE_EVERY_S + 1, 3)):
        clock.later_s = later_s
        await other.report(outcome("t2"))
        await observing.once()
        assert watched.shown("unfolded_entries") == lacking


async def test_entries_that_the_newest_state_lacks_are_counted(watched: World, monkeypatch: pytest.MonkeyPatch):
    await watched.report(outcome("t1"))
    other = watched.beside()
    await other.report(outcome("t2"))
    await watched.observe.once()
    assert watched.shown("unfolded_entries") == 1


@pytest.mark.parametrize("what", ["run", "dataset"])
async def test_a_run_that_another_replica_deleted_is_shown_no_longer(watched: World, what: str):
    clock = Later()
    observing = watched.observing(clock)
    await watched.report(outcome("t1"))
    await observing.once()
    assert watched.shown("reports_total") == 1
    clock.later_s = IDLE_EVERY_S
    other = watched.beside().use
    await (other.delete_run(POOL, "default", None) if what == "run" else other.delete_dataset(POOL, None))
    await observing.once()
    assert watched.shown("reports_total") is None


@pytest.mark.parametrize("moment", ["before the look at the run", "while the pool is looked at"])
async def test_a_run_that_is_deleted_during_a_look_leaves_nothing(
    watched: World, monkeypatch: pytest.MonkeyPatch, moment: str
):
    await watched.report(outcome("t1"))
    leases = watched.use.live
    leased, loop = leases.leased, asyncio.get_running_loop()

    async def deleted_before(run):
        await watched.runs.delete(POOL, "default", None)
        return await leased(run)

    def deleted_during(*arguments):
        asyncio.run_coroutine_threadsafe(watched.runs.delete(POOL, "default", None), loop).result(30)
        return outlook(*arguments)

    if moment.startswith("before"):
        monkeypatch.setattr(leases, "leased", deleted_before)
    else:
        monkeypatch.setattr(look_at_run, "outlook", deleted_during)
    await watched.observe.once()
    samples = [sample for family in watched.registry.collect() for sample in family.samples]
    assert [sample for sample in samples if sample.labels.get("run")] == []


async def test_what_can_not_be_seen_stays_as_it_was(watched: World, monkeypatch: pytest.MonkeyPatch):
    await watched.report(outcome("t1"))
    await watched.observe.once()

    async def away(_):
        raise StorageUnavailableError("gone")

    await watched.report(outcome("t1"))
    with monkeypatch.context() as without_sql:
        without_sql.setattr(watched.use.store.journal, "head", away)
        await watched.observe.once()
    assert watched.shown("step") == 1
    await watched.observe.once()  # it tries again at once
    assert watched.shown("step") == 2


async def test_a_pool_whose_tasks_are_all_retired_has_no_outlook(watched: World):
    await watched.report(outcome("t1"))
    ids = (await watched.opened()).dataset.ids
    await watched.use.datasets.retire(POOL, [ids[number] for number in range(len(ids))], None)
    await watched.observe.once()
    assert math.isnan(watched.shown("uniform_effective_task_ratio") or 0.0)


async def test_it_tells_how_a_run_chooses_and_no_longer_how_it_did(watched: World):
    await watched.report(outcome("t1"))
    for strategy, before in (("thompson", "uniform"), ("uniform", "thompson")):
        await watched.runs.change_settings(POOL, "default", {"strategy": strategy}, None)
        await watched.report(outcome("t1"))
        await watched.observe.once()
        assert watched.shown("run_info", strategy=strategy) == 1
        assert watched.shown("run_info", strategy=before) is None


async def test_a_run_that_comes_back_is_shown_whole_again(watched: World):
    await watched.report(outcome("t1"))
    at_work = watched.use.at_work
    for _ in range(2):
        await watched.observe.once()
        for name in ("step", "uniform_effective_task_ratio"):
            assert (watched.shown(name) or 0.0) > 0, name
        at_work.forget(POOL, "default")
        await watched.select(1)


async def test_a_run_that_goes_while_another_is_looked_at_is_left_out(watched: World, monkeypatch: pytest.MonkeyPatch):
    await watched.put_run("other")
    for run in ("default", "other"):
        await watched.report(outcome("t1"), run=run)
    leases = watched.use.live
    leased, looks = leases.leased, []

    async def deleting(run):
        looks.append(run.name)
        await watched.runs.delete(POOL, "other", None)
        return await leased(run)

    monkeypatch.setattr(leases, "leased", deleting)
    await watched.observe.once()
    assert looks == ["default"]
    assert watched.registry.get_sample_value("bots_reports_total", {"dataset": POOL, "run": "other"}) is None


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("took_s", [0.0, 0.5, 30.0])
async def test_looking_takes_no_more_than_a_twentieth_of_the_time(watched: World, took_s: float):
    clock, rounds = Clock(), []
    at_work = watched.use.at_work
    observing = ObserveRuns(watched.use.look_at_run, at_work, clock=clock)

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


async def test_it_goes_on_whatever_happens(watched: World, monkeypatch: pytest.MonkeyPatch):
    parts = watched.parts
    known = parts.catch_up.newest_or_known
    observing = ObserveRuns(watched.use.look_at_run, parts.at_work, every_s=0.001)
    wrong = [RuntimeError("a bug")]

    async def faulty(self, run) -> KnownState:
        if wrong:
            raise wrong.pop()
        return await known(run)

    monkeypatch.setattr(type(parts.catch_up), "newest_or_known", faulty)
    await watched.report(outcome("t1"))
    # Drawing a traceback for people takes a second, and the observer pauses for twenty times as long as it took.
    with capture_logs():
        async with asyncio.timeout(30), observing.in_background():
            while wrong:  # noqa: ASYNC110 - nothing tells when it has looked
                await asyncio.sleep(0.001)
            await watched.report(outcome("t1"))
            while watched.shown("step") != 2:  # noqa: ASYNC110 - the same
                await asyncio.sleep(0.001)
