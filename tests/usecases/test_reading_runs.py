"""What a run did, as the use cases read it: curve, calibration, and its last steps by tag."""

import numpy as np
import pytest

from bots_service.errors import UnknownRunError
from tests.usecases.world import POOL, TASKS, World, outcome

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
    kept = [one.receipt.calibration for one in history]
    assert sums.predicted == pytest.approx(np.sum([one.predicted for one in kept if one], axis=0))


async def test_tags_are_read_over_the_last_steps_and_compared_with_those_before(world: World):
    empty = await world.use.insight.tags(POOL, "default", 2)
    assert (empty.first_step, empty.last_step) == (0, 0)
    assert {row.tag: row.tasks for row in empty.tags} == {"even": TASKS // 2, "odd": TASKS // 2, "rare": 4}
    await train(world)
    table = await world.use.insight.tags(POOL, "default", 2)
    assert (table.first_step, table.last_step) == (4, 5)
    rows = {row.tag: row for row in table.tags}
    assert (rows["odd"].reported, rows["odd"].effective, rows["odd"].mean_pass_rate) == (2, 1, 0.75)
    assert rows["odd"].earlier_mean_pass_rate == 0.5  # steps 2 and 3
    assert rows["even"].mean_pass_rate == rows["even"].earlier_mean_pass_rate == 1.0


@pytest.mark.parametrize("steps", range(1, len(SOLVED) + 2))
async def test_each_of_the_last_steps_has_its_own_outcomes_wherever_they_begin(world: World, steps: int):
    await train(world)
    found = await world.use.insight.step_evidence(await world.opened(), await world.state(), steps)
    solved = {step.step: step.evidence.successes.tolist() for step in found}
    every = {step: [count, 16.0] for step, count in enumerate(SOLVED, 1)}
    assert solved == dict(list(every.items())[-steps:])


async def test_nothing_is_read_of_a_run_that_is_not_there(world: World):
    for read in (world.use.read_curve, world.use.read_calibration, world.use.read_tags):
        with pytest.raises(UnknownRunError):
            await read(POOL, "nobody", 5)
