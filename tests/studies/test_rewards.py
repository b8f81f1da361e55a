"""Kinds of rewards have the means and the spreads that their descriptions say."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit

from studies.public_pools import varied
from studies.rewards import (
    FLIPPED,
    FORMAT_BONUS,
    REWARDS_OF,
    SHIFT,
    WELL_FORMED,
    Seen,
    as_sums,
    moved,
    partial_credit,
    shaped,
    shaped_with_counts,
)

ROLLOUTS = 8
SOLVED = np.repeat([0.0, 3.0, 8.0], 20_000)


def reported(kind: str):
    report, _ = REWARDS_OF[kind]
    return report(SOLVED, ROLLOUTS, np.random.default_rng(0))


def means(values) -> list[float]:
    """Return the mean for each number of right answers."""
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


@pytest.mark.parametrize(
    ("kind", "when_none", "when_all"),
    [
        ("right or wrong", 0, 0),
        ("verdicts flipped", 1 - 0.9**8 - 0.1**8, 1 - 0.9**8 - 0.1**8),
        ("partial credit", 1 - 4 * 0.25**8, 0),
        ("bonus for form", 1 - 0.8**8 - 0.2**8, 1 - 0.8**8 - 0.2**8),
        ("bonus for form, with counts", 1 - 0.8**8 - 0.2**8, 1 - 0.8**8 - 0.2**8),
    ],
)
def test_groups_of_equal_answers_whose_rewards_differ(kind, when_none, when_all):
    _, _, effective = reported(kind)
    share = means(effective)
    assert (share[0], share[2]) == pytest.approx((when_none, when_all), abs=0.015)
    assert share[1] > 0.9


def test_rewards_are_summed_as_the_service_does():
    successes, failures, effective = as_sums(np.array([[1.0, 0.5, 0.0, 0.25], [0.5, 0.5, 0.5, 0.5]]))
    assert successes.tolist() == [1.75, 2]
    assert failures.tolist() == [2.25, 2]
    assert effective.tolist() == [True, False]


def test_counts_say_what_the_bonus_hides():
    rng = np.random.default_rng(0)
    solved = np.zeros(100)
    assert (shaped(solved, 8, rng)[0] > 0).any()
    assert (shaped_with_counts(solved, 8, rng)[0] == 0).all()


def test_what_is_right_and_wrong_is_seen_before_the_reward():
    seen = Seen(partial_credit)
    _, _, effective = seen(np.array([0.0, 1.0, 0.5, 0.5]), 64, np.random.default_rng(0))
    assert effective.tolist() == [True, False, True, True]
    assert seen.shares == [0.5]


def test_a_moved_pool_is_better_by_so_many_logits():
    pool = varied("reasoning gym", None)
    pool = replace(pool, success=pool.success[:3])
    better = moved(pool, SHIFT)
    inside = (pool.success > 0.01) & (pool.success < 0.99)
    assert better.success[inside] == pytest.approx(expit(logit(pool.success[inside]) + SHIFT))
    for edge in (0, 1):
        assert (better.success[pool.success == edge] == edge).all()
        assert (better.references[pool.references == edge] == edge).all()
