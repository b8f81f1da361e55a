"""What is shown of runs follows their newest state, and goes when they go."""

import asyncio
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from structlog.testing import capture_logs

from bots_service import observing as module
from bots_service.core.coverage import coverage
from bots_service.core.outlook import outlook, rollouts_of
from bots_service.observing import IDLE_EVERY_S, MOST_OF_TIME, MOST_PAUSE_S, SPACING, is_due
from tests.usecases.world import POOL, TASKS, Clock, Later, World, meanwhile, outage, outcome


async def test_it_shows_where_the_run_stands_and_how_it_chooses(watched: World):
    await watched.put_run("default", belief="bots")
    await watched.select(5)
    assert math.isnan(watched.shown("step") or 0.0)
    for step, rollouts in ((0, 16.0), (1, 4.0)):  # before any, those of the settings
        await watched.observe.once()
        state, pool = await watched.state(), (await watched.opened()).dataset.pool
        expected, covered = outlook(state.belief, pool, rollouts), coverage(state, pool)
        assert expected is not None
        assert watched.shown("uniform_effective_task_ratio") == expected.effective_task_ratio
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

    def looked(*arguments: Any) -> object:
        looks.append(arguments)
        return outlook(*arguments)

    monkeypatch.setattr(module, "outlook", looked)
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
        return outlook(*arguments)

    if moment.startswith("before"):
        meanwhile(watched.use.live, "leases", lambda: watched.runs.delete(POOL, "default", None))
    else:
        monkeypatch.setattr(module, "outlook", deleted_during)
    await watched.observe.once()
    samples = [sample for family in watched.registry.collect() for sample in family.samples]
    assert [sample for sample in samples if sample.labels.get("run")] == []


async def test_a_pool_whose_tasks_are_all_retired_has_no_outlook(watched: World):
    await watched.report(outcome("t1"))
    await watched.use.datasets.retire(POOL, [f"t{number}" for number in range(TASKS)], None)
    await watched.observe.once()
    assert math.isnan(watched.shown("uniform_effective_task_ratio") or 0.0)


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


# --- outlooks, which become a part of the run's history --------------------------------------------------------------


async def steps(world: World) -> list[int]:
    return [one.step for one in await world.use.insight.outlooks(POOL, "default", 2000)]


async def test_an_outlook_is_kept_for_each_step_that_is_seen(watched: World):
    expected = []
    await watched.select(1)
    for step in range(4):
        await watched.observe.once()
        state, pool = await watched.state(), (await watched.opened()).dataset.pool
        assert state.step == step
        expected.append(outlook(state.belief, pool, rollouts_of(state)))
        await watched.report(outcome("t1", step), outcome("t2", 16 - step))
    kept = await watched.use.insight.outlooks(POOL, "default", 2000)
    assert [(one.seq, one.step) for one in kept] == [(step, step) for step in range(4)]
    for one, then in zip(kept, expected, strict=True):
        assert then is not None
        assert one.uniform_effective_task_ratio == then.effective_task_ratio
        np.testing.assert_array_equal(np.array(one.distribution), np.array(then.distribution, np.float32))


async def test_a_step_is_kept_once_however_often_it_is_looked_at(watched: World):
    await watched.report(outcome("t1"), close_step=False)
    with outage(watched.use.store.outlooks, "keep"):
        await watched.observe.once()
    assert await steps(watched) == []
    for _ in range(2):
        await watched.report(outcome("t1"), close_step=False)
        await watched.observe.once()
    assert await steps(watched) == [0]


async def test_a_rewind_hides_what_came_after_its_step_and_nothing_is_removed(watched: World):
    for _ in range(3):
        await watched.report(outcome("t1"))
        await watched.observe.once()
    assert await steps(watched) == [1, 2, 3]
    await watched.rewind(1)
    await watched.report(outcome("t1"))
    await watched.observe.once()
    kept = await watched.use.insight.outlooks(POOL, "default", 2000)
    assert [(one.seq, one.step) for one in kept] == [(1, 1), (5, 2)]
    assert watched.sql("SELECT seq FROM outlooks ORDER BY seq") == [(1,), (2,), (3,), (5,)]


def test_a_long_run_keeps_fewer_and_a_young_one_or_a_rewound_one_each():
    kept: tuple[str, int, int] | None = None
    steps: list[int] = []
    for step in range(20 * SPACING):
        if is_due(("a", 0, step), kept):
            kept = ("a", 0, step)
            steps.append(step)
    assert steps[: 2 * SPACING] == list(range(2 * SPACING))
    assert all(later - earlier == earlier // SPACING for earlier, later in pairwise(steps[2 * SPACING :]))
    assert is_due(("a", 1, steps[-1]), kept)
    assert is_due(("b", 0, steps[-1]), kept)


async def test_a_run_that_can_not_be_looked_at_hides_no_other(watched: World, monkeypatch: pytest.MonkeyPatch):
    await watched.put_run("other")
    await watched.report(outcome("t1"))
    await watched.select(1, run="other")

    def broken(belief, *arguments):
        if belief.capability is None and not belief.own_tasks.size:
            raise ValueError("a defect")
        return outlook(belief, *arguments)

    monkeypatch.setattr(module, "outlook", broken)
    with capture_logs() as logs:
        for _ in range(2):
            await watched.observe.once()
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["run_not_observed"]
    assert await steps(watched) == [1]
