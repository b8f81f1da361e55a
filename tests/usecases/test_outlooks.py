"""What is expected of a pool becomes a part of its run's history, and what a run takes is shown."""

from itertools import pairwise

import numpy as np
import pytest
from structlog.testing import capture_logs

from bots_service.core.outlook import outlook, rollouts_of
from bots_service.errors import StorageUnavailableError, UnknownRunError
from bots_service.observing import SPACING, is_due
from bots_service.runs import ForkFrom
from bots_service.usecases import observe_runs as look_at_run
from tests.usecases.world import POOL, World, outcome


async def steps(world: World, points: int = 2000, run: str = "default") -> list[int]:
    return [one.step for one in await world.use.insight.outlooks(POOL, run, points)]


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
    for _ in range(3):
        await watched.report(outcome("t1"), close_step=False)
        await watched.observe.once()
    assert watched.sql("SELECT seq, step FROM outlooks") == [(1, 0)]


async def test_two_replicas_that_look_at_one_state_keep_one(watched: World):
    await watched.report(outcome("t1"))
    for world in (watched, watched.beside()):
        await world.select(1)
        await world.observe.once()
    assert watched.sql("SELECT seq, step FROM outlooks") == [(1, 1)]


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


async def test_a_step_that_is_reached_anew_after_a_rewind_is_kept_anew(watched: World):
    for _ in range(2):
        await watched.report(outcome("t1"))
    await watched.observe.once()
    await watched.rewind(1)
    await watched.report(outcome("t1"))
    await watched.observe.once()
    kept = await watched.use.insight.outlooks(POOL, "default", 2000)
    assert [(one.seq, one.step) for one in kept] == [(4, 2)]


async def test_few_points_are_the_first_the_last_and_some_between(watched: World):
    for _ in range(7):
        await watched.report(outcome("t1"))
        await watched.observe.once()
    assert [await steps(watched, points) for points in (1, 2, 3, 7)] == [[7], [1, 7], [1, 4, 7], list(range(1, 8))]


async def test_a_forked_run_has_none_from_before_it(watched: World):
    for _ in range(2):
        await watched.report(outcome("t1"))
        await watched.observe.once()
    await watched.runs.put(POOL, "child", {}, ForkFrom("default", 2), None)
    assert await steps(watched, run="child") == []
    await watched.select(1, "child")
    await watched.observe.once()
    assert await steps(watched, run="child") == [2]


async def test_what_could_not_be_kept_is_kept_at_the_next_look(watched: World, monkeypatch: pytest.MonkeyPatch):
    async def away(*_):
        raise StorageUnavailableError("gone")

    await watched.report(outcome("t1"))
    with monkeypatch.context() as without_sql:
        without_sql.setattr(watched.use.store.outlooks, "keep", away)
        await watched.observe.once()
    assert watched.shown("step") == 1
    assert await steps(watched) == []
    await watched.observe.once()
    assert await steps(watched) == [1]


async def test_outlooks_of_an_unknown_run_are_refused(watched: World):
    with pytest.raises(UnknownRunError):
        await watched.use.insight.outlooks(POOL, "nobody", 10)


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

    monkeypatch.setattr(look_at_run, "outlook", broken)
    with capture_logs() as logs:
        for _ in range(2):
            await watched.observe.once()
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["run_not_observed"]
    assert await steps(watched) == [1]
