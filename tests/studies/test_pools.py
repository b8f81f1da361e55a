"""The pools of the studies: recorded ones, their references, made-up learners, and kinds of rewards."""

from math import inf
from pathlib import Path

import numpy as np
import pytest

from bots_service.demo.replay import recorded_run as read_recording
from studies.environment import batch_of, binomial
from studies.learners import LEARNERS, Learner, SharedAbility
from studies.public_pools import (
    LADDER,
    MODEL_CASES,
    POOLS,
    REFERENCE_CASES,
    reasoning_gym,
    recorded_run,
    with_both_references,
)
from studies.reference_pools import NONE, case_names, reference_case
from studies.references import paid_after, saved_steps
from studies.rewards import FLIPPED, FORMAT_BONUS, REWARDS_OF, WELL_FORMED


@pytest.fixture(scope="module", params=list(POOLS))
def pool(request):
    return POOLS[request.param]()


def test_the_recorded_run_follows_five_visits():
    recording = with_both_references(read_recording())
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


ROOT = Path(__file__).parents[2]
SEED = 100  # of no study


def learner(name: str) -> Learner:
    return LEARNERS[name](SEED)


def batch(tasks: np.ndarray, rate: float, rollouts: float = 16.0):
    solved = np.full(len(tasks), rate * rollouts)
    return batch_of(tasks.astype(np.int32), solved, rollouts - solved, (solved > 0) & (solved < rollouts))


def trained(environment: Learner, *, steps: int, choose) -> Learner:
    """Train on what `choose(success, rng)` takes of the pool."""
    rng = np.random.default_rng(0)
    for _ in range(steps):
        success = environment.success()
        tasks = np.sort(choose(success, rng)).astype(np.int32)
        environment.train(batch_of(tasks, *binomial(success[tasks], 16, rng)))
    return environment


@pytest.mark.parametrize("name", LEARNERS)
def test_pools_of_one_seed_are_equal_and_of_two_seeds_differ(name: str):
    kind = LEARNERS[name]
    first, again, other = kind(SEED), kind(SEED), kind(SEED + 1)
    assert first.success().tolist() == again.success().tolist()
    assert first.references.tolist() == again.references.tolist()
    assert first.references.tolist() != other.references.tolist()
    assert ((first.references >= 0) & (first.references <= 1)).all()
    assert len(first.references) == len(first.success())


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_nothing_is_learned_from_groups_without_a_signal(name: str, rate: float):
    environment = learner(name)
    before = environment.success().copy(), environment.accuracy()
    environment.train(batch(np.arange(32), rate))
    assert environment.success().tolist() == before[0].tolist()
    assert environment.accuracy() == before[1]


@pytest.mark.parametrize("name", LEARNERS)
def test_a_shuffle_learns(name: str):
    environment = learner(name)
    before = environment.accuracy()
    trained(environment, steps=200, choose=lambda p, rng: rng.choice(len(p), 32, replace=False))
    assert environment.accuracy() > before + 0.03


def test_shared_ability_lifts_each_task_by_its_sensitivity():
    environment = SharedAbility(SEED)
    before = environment.logits()
    environment.train(batch(np.arange(32), 0.5))
    lifted = environment.logits() - before
    assert lifted[32:] == pytest.approx(environment.sensitivity[32:] * 0.006, rel=1e-9)
    assert lifted[:32] == pytest.approx(environment.sensitivity[:32] * 0.006 + 0.05, rel=1e-9)
