"""Predictions: who sees which, from an upload and from a run, and on every replica."""

from collections.abc import AsyncIterator

import numpy as np
import pytest

from bots_service.core.predictions import MOST_COLUMNS
from bots_service.errors import (
    InvalidTasksError,
    LimitReachedError,
    UnknownPredictionsError,
    UnknownRunError,
)
from bots_service.records import PredictionBlock
from bots_service.runs import ForkFrom
from tests.usecases.world import POOL, TASKS, World, block, never, outcome, stream

RATES = {f"t{number}": number % 5 / 4 for number in range(30)}  # the last ten tasks have none


async def blocks(*parts: dict[str, float]) -> AsyncIterator[PredictionBlock]:
    for part in parts:
        yield PredictionBlock(list(part), np.array(list(part.values()), np.float64))


async def predict(world: World, name: str = "probe", *parts: dict[str, float]) -> None:
    await world.use.datasets.put_predictions(POOL, name, blocks(*(parts or (RATES,))), never)


async def names(world: World, run: str = "default") -> list[str]:
    return [key.name for key in (await world.row(run)).predictions]


async def test_a_run_without_a_journal_sees_predictions_that_come_and_one_with_a_journal_does_not(world: World):
    await world.put_run("live")
    await world.report(outcome("t0"), run="live")
    before = (await world.row()).uid
    await predict(world)
    assert (await names(world), await names(world, "live")) == (["probe"], [])
    assert (await world.row()).uid != before
    seen = (await world.opened()).dataset.pool
    expected = [RATES.get(f"t{number}", np.nan) for number in range(TASKS)]
    np.testing.assert_array_equal(seen.predictions[seen.profile_of, 0], expected)
    assert (await world.opened("live")).dataset.pool.prediction_names == ()
    await world.put_run("late")
    assert await names(world, "late") == ["probe"]
    await world.report(outcome("t3"), run="live")
    await world.report(outcome("t3"), run="late")
    for run in ("live", "late"):
        await world.assert_is_a_replay(run)


async def test_replaced_predictions_stay_with_the_runs_that_know_them(world: World):
    await predict(world)
    await world.report(outcome("t1"))
    await predict(world, "probe", {"t1": 0.5})
    old = (await world.opened()).dataset.pool
    assert old.predictions[old.profile_of[0], 0] == RATES["t0"]
    await world.put_run("next")
    new = (await world.opened("next")).dataset.pool
    assert np.isnan(new.predictions[new.profile_of[0], 0])
    await world.assert_is_a_replay()
    cold = world.beside()
    assert (await cold.opened()).dataset.pool.predictions.tolist() == pytest.approx(old.predictions, nan_ok=True)


async def test_predictions_that_nobody_knows_any_more_are_dropped(world: World):
    await predict(world)
    await predict(world, "probe", {"t1": 0.5})
    assert len(world.sql("SELECT digest FROM predictions")) == 1
    row = await world.use.datasets.drop_predictions(POOL, "probe", None)
    assert row.facts.predictions == ()
    assert (world.sql("SELECT digest FROM predictions"), await names(world)) == ([], [])
    with pytest.raises(UnknownPredictionsError, match="no predictions 'probe'"):
        await world.use.datasets.drop_predictions(POOL, "probe", None)


async def test_a_replica_that_knew_an_empty_run_sees_its_new_predictions(world: World):
    await predict(world)
    there = world.beside()
    stale = await there.opened()
    await predict(world, "probe", {"t1": 0.5})
    there.use.datasets.invalidate(POOL)
    await there.select(2)
    assert (await there.opened()).row.predictions != stale.row.predictions
    with pytest.raises(UnknownRunError):
        await there.use.store.datasets.predictions(stale.row.dataset_id, stale.row.predictions)


async def test_a_fork_keeps_what_its_run_knows(world: World):
    await world.report(outcome("t0"), outcome("t1", 16.0))
    await world.report(outcome("t2", 0.0))
    await predict(world)
    await world.runs.put(POOL, "fork", {}, ForkFrom("default"), None)
    assert await names(world, "fork") == []
    await world.report(outcome("t5"), run="fork")
    await world.assert_is_a_replay("fork")


async def test_what_a_run_believes_of_tried_tasks_becomes_predictions(world: World):
    await world.report(outcome("t0", 16.0), outcome("t1", 0.0))
    await world.runs.put_predictions(POOL, "default", "first", None, never)
    await world.put_run("next")
    pool, state = (await world.opened("next")).dataset.pool, await world.state()
    rates = pool.predictions[pool.profile_of, 0]
    assert np.flatnonzero(~np.isnan(rates)).tolist() == [0, 1]
    own = (await world.opened()).dataset.pool
    means = state.belief.distributions(own, np.array([0, 1], np.int32)).mean
    np.testing.assert_array_equal(rates[:2], np.rint(means * 16) / 16)
    await world.put_run("untried")
    with pytest.raises(InvalidTasksError):
        await world.runs.put_predictions(POOL, "untried", "nothing", None, never)


async def test_appended_and_retired_tasks_change_nothing_of_what_is_known(world: World):
    await predict(world)
    await world.report(outcome("t0"))
    await world.use.datasets.append(POOL, stream(block(TASKS, 3)), never)
    await world.use.datasets.retire(POOL, ["t3"], None)
    pool = (await world.opened()).dataset.pool
    assert (len(pool), pool.retired.tolist()) == (TASKS + 3, [3])
    assert np.isnan(pool.predictions[pool.profile_of[TASKS:], 0]).all()
    await world.select(5)
    await world.report(outcome(f"t{TASKS}"))
    await world.assert_is_a_replay()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("t0", 0.5), ("gone", 0.1)], "no task 'gone'"),
        ([("t0", 0.5), ("t0", 0.5)], "'t0' has a prediction already"),
        ([("t0", 1.5)], "not in"),
        ([("t0", np.nan)], "no task has a predicted pass rate"),
        ([], "no task has a predicted pass rate"),
    ],
)
@pytest.mark.parametrize("at_once", [1, 2])
async def test_predictions_that_cannot_be_are_refused(world: World, rows, message: str, at_once: int):
    async def some() -> AsyncIterator[PredictionBlock]:
        for first in range(0, len(rows), at_once):
            ids, rates = zip(*rows[first : first + at_once], strict=True)
            yield PredictionBlock(list(ids), np.array(rates, np.float64))

    with pytest.raises(InvalidTasksError) as refused:
        await world.use.datasets.put_predictions(POOL, "probe", some(), never)
    assert message in str(refused.value) + "".join(str(flaw) for flaw in refused.value.flaws)


async def test_a_dataset_has_few_predictions(world: World):
    for number in range(MOST_COLUMNS):
        await predict(world, f"p{number}")
    with pytest.raises(LimitReachedError, match="remove one"):
        await predict(world, "more")
    await predict(world, "p0", {"t1": 0.25})
    assert await names(world) == [f"p{number}" for number in range(MOST_COLUMNS)]


async def test_views_of_a_dataset_are_few_and_counted(world: World):
    for number in range(9):
        await predict(world, "probe", {"t1": 0.5, "t2": number / 16})
        await world.put_run(f"r{number}")
        await world.report(outcome("t1"), run=f"r{number}")
    for number in range(9):
        await world.opened(f"r{number}")
    dataset = await world.use.datasets.open(POOL)
    assert len(dataset.views) == 8
    assert dataset.nbytes > max(view.nbytes for view in dataset.views.values())
