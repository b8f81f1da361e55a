"""Outcomes: what is refused, what is joined, and what stays apart."""

import pytest

from bots_client import InvalidRequestError
from bots_client._inputs import MAX_REWARDS, Outcome, joined


def test_counts_with_rewards_are_joined_by_task_in_their_order():
    parts = [
        Outcome.counts("a", 1, 2, rewards=[1.2, 0]),
        Outcome.counts("b", 0, 1, rewards=[0.2]),
        Outcome.counts("a", 1, 1, rewards=[1]),
    ]
    assert joined(parts) == [Outcome.counts("a", 2, 3, rewards=[1.2, 0, 1]), parts[1]]


def test_what_says_the_same_in_parts_stays_as_it_is():
    parts = [
        Outcome.counts("a", 1, 2),
        Outcome.rewards("a", [0, 1]),
        Outcome.aborted("a"),
        Outcome.counts("a", 1, 2, rewards=[1, 0], effective=True),
        Outcome.counts("a", 1, 2, rewards=[1, 0]),
    ]
    assert joined([*parts, *parts[:4]]) == [*parts, *parts[:4]]


def test_no_outcome_holds_more_rewards_than_the_service_takes():
    full, one = Outcome.counts("a", 0, MAX_REWARDS, rewards=[0] * MAX_REWARDS), Outcome.counts("a", 0, 1, rewards=[0])
    assert joined([full, one, one]) == [full, one, one]


@pytest.mark.parametrize("reward", ["high", [1, 0], object()])
def test_a_reward_that_is_no_number_is_refused_by_its_task(reward):
    with pytest.raises(InvalidRequestError):
        Outcome.rewards("math-17", [1, reward])


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), None])
def test_a_rollout_without_a_reward_is_left_out(reward):
    shown = Outcome.rewards("a", [1, reward, 0])
    counted = Outcome.counts("a", 1, 3, rewards=[1, reward, 0])
    assert (shown.as_wire(), shown.left_out) == ({"task": "a", "rewards": (1, 0)}, 1)
    assert counted.as_wire() == {"task": "a", "successes": 1, "trials": 2, "rewards": (1, 0)}
    assert Outcome.rewards("a", [reward]).as_wire() == Outcome.aborted("a").as_wire()
    assert Outcome.counts("a", 0, 1, rewards=[reward]).is_aborted


@pytest.mark.parametrize("effective", ["false", 0.5, [True], float("nan")])
def test_an_effective_that_is_neither_true_nor_false_is_refused_by_its_task(effective):
    with pytest.raises(InvalidRequestError):
        Outcome.counts("math-17", 1, 2, effective=effective)


def test_a_cost_goes_onto_the_wire_and_is_joined_with_its_group():
    parts = [
        Outcome.counts("a", 1, 2, rewards=[1, 0], tokens=300, seconds=1.5),
        Outcome.counts("a", 1, 1, rewards=[1], tokens=100, seconds=0.25),
        Outcome.counts("a", 0, 1, rewards=[0]),  # nobody says what it cost
        Outcome.rewards("b", [1], tokens=7),
        Outcome.aborted("c", seconds=2),
    ]
    whole, apart, *others = joined(parts)
    assert whole.as_wire() == {
        "task": "a",
        "successes": 2,
        "trials": 3,
        "rewards": (1, 0, 1),
        "tokens": 400,
        "seconds": 1.75,
    }
    assert (apart, others) == (parts[2], parts[3:])
    assert others[0].as_wire() == {"task": "b", "rewards": (1,), "tokens": 7}
    assert others[1].as_wire() == {"task": "c", "status": "aborted", "seconds": 2}
    assert others[1].is_aborted
