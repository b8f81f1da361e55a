"""Sharing out a budget of rollouts: exact, within its bounds, the same each time."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.draw.budget import chances_of, shared_out
from bots_service.core.draw.group_sizes import budget_flaws, gains_looked_at, most_rollouts, sized_groups
from bots_service.core.run_settings import RunSettings
from tests.core.journals import pool_of, replay, report_of
from tests.core.pools import a_request, betas, normals

BELIEFS = {
    "betas": betas([1, 4, 0.5, 300, 1.5], [1, 1.5, 2.5, 200, 60]),
    "normals": normals([0, -3, 2, 7, -1], [4, 0.3, 1e-3, 9, 1]),
}


def one_after_the_other(gains: np.ndarray, budget: int, least: int) -> list[int]:
    """Each next rollout goes to the task that gains most by it; of equal ones to that with fewest, then the first."""
    rollouts = [least] * len(gains)
    for _ in range(budget - sum(rollouts)):
        open_tasks = [task for task in range(len(gains)) if rollouts[task] <= gains.shape[1]]
        task = min(open_tasks, key=lambda task: (-gains[task, rollouts[task] - 1], rollouts[task], task))
        rollouts[task] += 1
    return rollouts


@st.composite
def shared(draw):
    """Gains that never rise, a budget, and the least number of rollouts."""
    tasks, most = draw(st.integers(1, 6)), draw(st.integers(2, 9))
    gain = st.sampled_from([0.0, 1e-300, 0.1, 0.1, 0.2, 0.5]) | st.floats(0, 1)
    rows = draw(st.lists(st.lists(gain, min_size=most - 1, max_size=most - 1), min_size=tasks, max_size=tasks))
    least = draw(st.integers(1, most))
    budget = draw(st.integers(tasks * least, tasks * most))
    return -np.sort(-np.array(rows), axis=1), budget, least


@given(shared())
def test_it_is_what_one_rollout_after_the_other_gives(given_):
    gains, budget, least = given_
    assert shared_out(gains, budget, least=least).tolist() == one_after_the_other(gains, budget, least)


@given(shared())
def test_the_sum_is_the_budget_and_every_number_lies_within_its_bounds(given_):
    gains, budget, least = given_
    rollouts = shared_out(gains, budget, least=least)
    assert rollouts.sum() == budget
    assert rollouts.min() >= least
    assert rollouts.max() <= gains.shape[1] + 1
    assert shared_out(gains.copy(), budget, least=least).tolist() == rollouts.tolist()


@pytest.mark.parametrize("kind", list(BELIEFS))
@pytest.mark.parametrize(("budget", "least"), [(15, 2), (12, 1), (20, 3), (30, 6)])
def test_no_other_numbers_make_more_groups_effective(kind, budget, least):
    believed, most = BELIEFS[kind], 8
    gains = believed.gains(most)
    ours = chances_of(gains, shared_out(gains, budget, least=least)).sum()
    chances = np.array([believed.effective(float(number)) for number in range(most + 1)])
    fitting = [
        numbers for numbers in itertools.product(range(least, most + 1), repeat=len(believed)) if sum(numbers) == budget
    ]
    best = chances[np.array(fitting), np.arange(len(believed))].sum(axis=1).max()
    assert ours == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize(("budget", "least"), [(3, 2), (11, 2), (6, 4)])
def test_a_budget_outside_of_the_bounds_is_refused(budget, least):
    with pytest.raises(ValueError, match=f"{budget} rollouts for 2 tasks of {least} to 5 each"):
        shared_out(np.zeros((2, 4)), budget, least=least)


@given(
    st.lists(st.tuples(st.floats(1e-3, 1e6), st.floats(1e-3, 1e6)), min_size=1, max_size=4),
    st.lists(st.tuples(st.floats(-40, 40), st.floats(1e-6, 100)), min_size=1, max_size=4),
    st.integers(2, 40),
)
def test_gains_add_up_to_the_chance_and_never_rise(counts, logits, most):
    for believed in (betas(*zip(*counts, strict=True)), normals(*zip(*logits, strict=True))):
        gains = believed.gains(most)
        assert gains.shape == (len(believed), most - 1)
        assert (np.diff(gains, axis=1) <= 0).all()
        assert (gains >= 0).all()
        for rollouts in {2, most // 2 + 1, most}:
            sums = gains[:, : rollouts - 1].sum(axis=1)
            np.testing.assert_allclose(sums, believed.effective(float(rollouts)), atol=1e-8)


def test_a_task_that_is_surely_effective_or_hopeless_gets_fewer_rollouts_than_one_that_is_hard():
    half, hard, hopeless = normals([0.0, -2.5, -9.0], [0.01, 0.01, 0.01]).gains(64)
    rollouts = shared_out(np.array([half, hard, hopeless]), 48, least=2).tolist()
    assert rollouts[1] > rollouts[0] > 2
    assert rollouts[2] == 2


def test_without_a_budget_groups_are_as_large_as_usual():
    rollouts, effective = sized_groups(a_request(5), BELIEFS["normals"], 7.5)
    assert rollouts is None
    assert effective.tolist() == BELIEFS["normals"].effective(7.5).tolist()


def test_with_a_budget_a_task_is_as_likely_effective_as_its_own_rollouts_say():
    believed = BELIEFS["normals"]
    rollouts, effective = sized_groups(a_request(5, rollouts_budget=40, max_rollouts=12), believed, 99.0)
    assert rollouts is not None
    assert rollouts.sum() == 40
    for task, number in enumerate(rollouts.tolist()):
        assert effective[task] == pytest.approx(believed.effective(float(number))[task], abs=1e-9)


BUDGETS: list[tuple[dict[str, Any], int]] = [
    ({"rollouts_budget": 40}, 32),  # four times the mean
    ({"rollouts_budget": 41}, 33),  # what the others leave, of 36
    ({"rollouts_budget": 40, "max_rollouts": 10}, 10),
    ({"rollouts_budget": 40, "min_rollouts": 7}, 12),  # 40 - 4 * 7
    ({"rollouts_budget": 5, "min_rollouts": 1}, 1),
]


@pytest.mark.parametrize(("wanted", "most"), BUDGETS)
def test_no_task_gets_more_than_its_bound_or_than_the_others_leave(wanted, most):
    request = a_request(5, **wanted)
    assert budget_flaws(request) == []
    assert most_rollouts(request) == most
    assert gains_looked_at(request) == 5 * (most - 1)
    rollouts, _ = sized_groups(request, BELIEFS["betas"], 16.0)
    assert rollouts is not None
    assert rollouts.sum() == wanted["rollouts_budget"]


IMPOSSIBLE: list[tuple[int, dict[str, Any], str, str]] = [
    (
        5,
        {"rollouts_budget": 9},
        "rollouts_budget",
        "9 rollouts are too few for 5 tasks with at least 2 each; budget 10",
    ),
    (
        5,
        {"rollouts_budget": 51, "max_rollouts": 10},
        "rollouts_budget",
        "51 rollouts are too many for 5 tasks with at most 10 each; budget 50",
    ),
    (
        5,
        {"rollouts_budget": 40, "min_rollouts": 9, "max_rollouts": 8},
        "min_rollouts",
        "9 is larger than max_rollouts, 8; swap them",
    ),
    (
        100_000,
        {"rollouts_budget": 10_000_000},
        "max_rollouts",
        "100000 tasks of up to 400 rollouts are more than 8388608 choices; lower max_rollouts",
    ),
]


@pytest.mark.parametrize(("count", "wanted", "where", "what"), IMPOSSIBLE)
def test_what_can_not_be_is_refused_with_the_numbers(count, wanted, where, what):
    (flaw,) = budget_flaws(a_request(count, **wanted))
    assert (flaw.where, flaw.what) == (("body", where), what)


def test_bounds_without_a_budget_are_no_matter():
    assert budget_flaws(a_request(5, min_rollouts=9, max_rollouts=3)) == []
    assert gains_looked_at(a_request(5)) == 0


def test_a_request_that_leaves_its_count_open_has_none():
    with pytest.raises(ValueError, match="without a count"):
        _ = a_request(None).task_count


def test_a_run_with_different_numbers_of_rollouts_expects_their_mean():
    about = pool_of((0.25,), (0.5,), (0.75,))
    state = replay(about, [report_of((0, 1.0, 1.0), (1, 4.0, 16.0), (2, 3.0, 5.0))], RunSettings(belief="tracker"))
    assert state.group_size == pytest.approx((2 + 20 + 8) / 3)
