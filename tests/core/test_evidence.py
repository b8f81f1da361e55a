"""Evidence that can be true, and evidence that can't."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.evidence import (
    MAX_TRIALS,
    counts_of_rewards,
    counts_of_trials,
    rewards_differ,
    sum_by_task,
)
from tests.core.journals import evidence_of


def test_rewards_add_to_successes_and_what_they_lack_to_failures():
    assert counts_of_rewards([0, 1, 0.5], (0.0, 1.0)) == (1.5, 1.5)
    assert counts_of_rewards([-1.0, 1.0, 0.5], (-1.0, 1.0)) == (1.75, 1.25)


@given(st.floats(-1e9, 1e9), st.floats(1e-300, 1e9), st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_each_reward_adds_one_rollout_whatever_the_range(low, width, shares):
    high = low + width
    if high <= low:
        return
    rewards = [min(max(low + share * (high - low), low), high) for share in shares]
    successes, failures = counts_of_rewards(rewards, (low, high))
    assert successes >= 0
    assert failures >= 0
    assert successes + failures == pytest.approx(len(rewards), rel=1e-9)


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf, -0.001, 1.001])
def test_a_reward_outside_the_range_is_refused_by_its_place(reward):
    with pytest.raises(ValueError, match=r"at 1 is outside \[0, 1\]"):
        counts_of_rewards([0.5, reward], (0.0, 1.0))


def test_no_rewards_are_refused():
    with pytest.raises(ValueError, match="no rewards"):
        counts_of_rewards([], (0.0, 1.0))


def test_trials_split_into_successes_and_failures():
    assert counts_of_trials(7, 16) == (7.0, 9.0)
    assert counts_of_trials(2.5, 4) == (2.5, 1.5)
    assert counts_of_trials(MAX_TRIALS, MAX_TRIALS) == (MAX_TRIALS, 0.0)


@pytest.mark.parametrize(
    ("successes", "trials"),
    [(0, 0), (0, -1), (0, math.nan), (0, math.inf), (0, 4097), (-1, 4), (5, 4), (math.nan, 4), (math.inf, 4)],
)
def test_counts_that_cannot_be_true_are_refused(successes, trials):
    with pytest.raises(ValueError, match=f"{trials} trials"):
        counts_of_trials(successes, trials)


def test_a_group_has_a_gradient_if_its_rewards_differ_by_more_than_rounding():
    assert not rewards_differ([0.5] * 4, (0.0, 1.0))
    assert not rewards_differ([0.1 + 0.2, 0.3], (0.0, 1.0))
    assert not rewards_differ([1.0], (0.0, 1.0))
    assert rewards_differ([0.2, 0.2, 0.2 + 1e-8], (0.0, 1.0))
    assert not rewards_differ([0.2, 0.2, 0.2 + 1e-8], (0.0, 100.0))
    assert rewards_differ([-7.0, 1.2], (0.0, 1.0))  # shaped rewards may leave the range


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=9),
    st.randoms(),
    st.integers(-64, 64),
    st.sampled_from([1e-6, 0.25, 3.0, 1e9]),
)
def test_order_a_constant_and_the_scale_leave_the_gradient_as_it_is(quarters, random, shift, scale):
    wanted = len(set(quarters)) > 1
    assert rewards_differ([quarter / 4 for quarter in quarters], (0.0, 1.0)) == wanted
    random.shuffle(quarters)
    changed = [scale * (quarter / 4 + shift) for quarter in quarters]
    assert rewards_differ(changed, (scale * shift, scale * (shift + 1))) == wanted


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_not_finite_has_no_spread(reward):
    with pytest.raises(ValueError, match=r"at 1 is not a finite number"):
        rewards_differ([0.5, reward], (0.0, 1.0))


PIECES = st.tuples(st.integers(0, 5), st.floats(0, 1e6), st.floats(0, 1e6)).filter(
    lambda piece: piece[1] + piece[2] > 0
)


@given(st.lists(PIECES, max_size=20), st.randoms())
def test_counts_are_summed_by_task_exactly_in_any_order(pieces, random):
    wanted = {
        task: (math.fsum(s for t, s, _ in pieces if t == task), math.fsum(f for t, _, f in pieces if t == task))
        for task in sorted({task for task, *_ in pieces})
    }
    random.shuffle(pieces)
    summed = sum_by_task(evidence_of(*pieces))
    assert summed.tasks.tolist() == list(wanted)
    assert list(zip(summed.successes.tolist(), summed.failures.tolist(), strict=True)) == list(wanted.values())
    assert summed.tasks.dtype == np.int32


eighths = st.integers(0, 8).map(lambda count: count / 8)
parts = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([1.0, 2.0, 7.0]), eighths, st.booleans()), max_size=12)


@given(parts, st.randoms())
def test_a_task_in_parts_is_effective_if_a_part_is_or_their_success_rates_differ(parts, random):
    wanted = {
        task: any(flag for t, _, _, flag in parts if t == task) or len({r for t, _, r, _ in parts if t == task}) > 1
        for task in sorted({task for task, *_ in parts})
    }
    random.shuffle(parts)
    pieces = [(task, trials * rate, trials * (1 - rate)) for task, trials, rate, _ in parts]
    summed = sum_by_task(evidence_of(*pieces, effective=[flag for *_, flag in parts]))
    assert dict(zip(summed.tasks.tolist(), summed.effective.tolist(), strict=True)) == wanted
