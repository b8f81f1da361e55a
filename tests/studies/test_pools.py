"""The pools of the studies: recorded ones, their references, made-up learners, and kinds of rewards."""

from math import inf

import numpy as np
import pytest

from bots_service.demo.replay import recorded_run as read_recording
from studies.public_pools import LADDER, MODEL_CASES, POOLS, REFERENCE_CASES, reasoning_gym, recorded_run
from studies.reference_pools import NONE, case_names, reference_case
from studies.references import paid_after, saved_steps
from studies.rewards import FLIPPED, FORMAT_BONUS, REWARDS_OF, WELL_FORMED


@pytest.fixture(scope="module", params=list(POOLS))
def pool(request):
    return POOLS[request.param]()


def test_the_recorded_run_follows_five_visits():
    recording = read_recording().with_both_references()
    problem = int(np.flatnonzero(recording.visits == 50)[0])  # so that the middle of visit j is step 10 j + 5
    shares = np.diff(recording.solved[problem]) / recording.rollouts_per_visit
    success = recorded_run().success[:, problem]
    assert success[205] == pytest.approx(shares[18:23].mean())
    assert success[200] == pytest.approx((shares[17:22].mean() + shares[18:23].mean()) / 2)
    assert success[0] == pytest.approx((3 * shares[0] + shares[1] + shares[2]) / 5)  # before the first: as the first


def test_reasoning_gyms_model_climbs_from_model_to_model():
    success = reasoning_gym().success
    means = success.mean(axis=1)
    assert np.all(np.diff(means) > 0)
    assert (means[0], means[-1]) == pytest.approx((0.268, 0.725), abs=5e-4)  # as published of the first and the last
    assert success[[0, -1]] * 3 == pytest.approx(np.rint(success[[0, -1]] * 3))  # of three attempts
    step = (len(success) - 1) / (len(LADDER) - 1)  # at which the model is as its second rung
    assert means[99] < np.interp(step, np.arange(len(means)), means) < means[100]


@pytest.mark.parametrize("case", list(REFERENCE_CASES | MODEL_CASES))
def test_every_case_has_probabilities_for_each_task(pool, case):
    varied = (REFERENCE_CASES | MODEL_CASES)[case](pool)
    assert varied.references.shape == (len(pool.references), len(varied.reference_models))
    assert varied.success.shape == pool.success.shape
    for rates in (varied.success, varied.references):
        assert rates.min(initial=0) >= 0
        assert rates.max(initial=0) <= 1


STEPS = np.arange(101.0)
TASKS_OF = {"recorded run": 678, "reasoning gym": 4490}


def test_steps_are_saved_where_the_same_groups_come_earlier():
    fast, slow = 30 * STEPS, 20 * STEPS
    assert saved_steps(fast, slow) == pytest.approx(100 - 2000 / 30)
    assert saved_steps(slow, fast) == pytest.approx(2000 / 30 - 100)
    assert saved_steps(slow, slow) == pytest.approx(0)


def test_references_are_paid_once_the_run_is_ahead_by_their_cost():
    fast, slow = 30 * STEPS, 20 * STEPS  # by step t it is t / 2 steps ahead
    assert paid_after(fast, slow, 20) == 40
    assert paid_after(fast, slow, 33) == 66
    assert paid_after(fast, slow, 34) == inf  # the slow one would have to go on
    assert paid_after(slow, fast, 1) == inf
    assert paid_after(slow, fast, 0) == 0


@pytest.mark.parametrize("pool", list(TASKS_OF))
def test_each_case_has_its_references_weakest_first_and_their_cost(pool):
    for name in case_names(pool):
        case = reference_case(pool, name)
        assert case.pool.references.shape == (TASKS_OF[pool], len(case.pool.reference_models))
        means = case.pool.references.mean(axis=0)
        if name != "inverted":
            assert np.all(np.diff(means) >= 0), name
        assert case.rollouts % TASKS_OF[pool] == 0
        assert (case.rollouts == 0) == (name == NONE)


ROLLOUTS = 8
SOLVED = np.repeat([0.0, 3.0, 8.0], 20_000)


def reported(kind: str):
    report, _ = REWARDS_OF[kind]
    return report(SOLVED, ROLLOUTS, np.random.default_rng(0))


def means(values) -> list[float]:
    return np.asarray(values, float).reshape(3, -1).mean(axis=1).tolist()


@pytest.mark.parametrize("kind", REWARDS_OF)
def test_successes_and_failures_add_up_to_the_rollouts(kind):
    successes, failures, effective = reported(kind)
    assert successes + failures == pytest.approx(np.full(len(SOLVED), ROLLOUTS))
    assert successes.min() >= 0
    assert failures.min() >= -1e-12
    assert effective.dtype == bool


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        ("right or wrong", 1, 0),
        ("rare successes", 1, 0),
        ("verdicts flipped", 1 - FLIPPED, FLIPPED),
        ("partial credit", 1, (0 + 1 + 2 + 3) / 4 / 4),
        ("bonus for form", 0.9 + 0.1 * WELL_FORMED, FORMAT_BONUS * WELL_FORMED),
        ("bonus for form, with counts", 1, 0),
    ],
)
def test_a_right_and_a_wrong_answer_are_worth_on_average(kind, right, wrong):
    successes, _, _ = reported(kind)
    expected = [right * solved + wrong * (ROLLOUTS - solved) for solved in (0, 3, 8)]
    assert means(successes) == pytest.approx(expected, abs=0.03)
