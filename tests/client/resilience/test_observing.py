"""What a trainer observes of the tasks that it selected."""

import math

import numpy as np
import pytest

from bots_client import InvalidRequestError, Outcome, Selector
from bots_client._inputs import joined
from tests.client.resilience.worlds import IDS


def test_shaped_rewards_say_whether_a_task_is_effective_and_successes_what_is_believed(selector):
    first, second, third = selector.next(3).ids
    selector.observe(first, [1.2, 1.0], successes=2)
    selector.observe(second, [1.2, 1.2], successes=2)
    selector.observe(third, [0.5, 0.5], effective=True)

    receipt = selector.step()

    totals = selector.client.direct.run(selector.dataset).totals
    assert (receipt.reported, receipt.effective, totals.all_solved) == (3, 2, 1)
    assert (totals.rollouts, totals.successes) == (6, 5)


def test_shaped_rewards_that_come_one_by_one_are_compared_with_each_other(selector):
    first, second = selector.next(2).ids
    for format_reward in (0.2, 0.0, 0.2):
        selector.observe(first, [1 + format_reward], successes=1)
        selector.observe(second, [1.2], successes=1)

    assert selector.step().effective == 1
    assert selector.client.direct.run(selector.dataset).totals.rollouts == 6


def test_an_abort_is_reported_at_once(selector):
    first, second = selector.next(2).ids
    selector.observe(second, [1, 0])
    selector.observe(first, [None])  # one of its rollouts broke before
    selector.abort(first)

    run = selector.client.direct.run(selector.dataset)
    assert (run.seq, run.leased, run.pending) == (1, 1, 0)
    assert selector.step().reported == 1
    assert selector.client.direct.run(selector.dataset).seq == 2


def test_a_group_whose_rollouts_come_in_several_steps_counts_once(selector):
    early, late = selector.next(2).ids
    selector.observe(late, [1, None], group_size=4)
    selector.observe(early, [1, 0])
    assert selector.step().reported == 1

    run = selector.client.direct.run(selector.dataset)
    assert (run.unfinished_groups, run.leased) == (1, 1)
    selector.observe(late, [0, 0], group_size=4)
    receipt = selector.step()

    run = selector.client.direct.run(selector.dataset)
    assert (receipt.reported, receipt.effective, run.totals.rollouts) == (1, 1, 5)
    assert (run.unfinished_groups, run.leased, run.coverage.most_visits) == (0, 0, 1)


@pytest.mark.parametrize("successes", [None, 2])
def test_a_rollout_without_a_reward_is_left_out_and_counted_and_the_others_count(selector, successes):
    task = selector.next(1).ids[0]

    selector.observe(task, [1, None, float("nan"), 1, float("-inf"), 0], successes=successes)
    receipt = selector.step()

    totals = selector.client.direct.run(selector.dataset).totals
    assert (receipt.effective, totals.rollouts, totals.successes) == (1, 3, 2)
    assert selector.client.health.left_out_rollouts == selector.metrics()["bots/left_out_rollouts"] == 3


@pytest.mark.parametrize("rewards", [None, math.nan, [None, math.inf]])
def test_a_group_without_any_reward_gives_its_task_back(selector, rewards):
    task = selector.next(1).ids[0]

    selector.observe(task, rewards)
    selector.step()

    run = selector.client.direct.run(selector.dataset)
    assert (run.totals.rollouts, run.leased) == (0, 0)
    assert selector.client.health.left_out_rollouts == np.size(rewards)


def test_rollouts_that_broke_do_not_abort_the_others_of_their_group(selector):
    broken, sound = selector.next(2).ids
    for reward in (math.nan, 1, 0, None):
        selector.observe(sound, reward)
    selector.observe(broken, None)

    merged = joined(Outcome.rewards(task, reward) for task, reward in [("a", None), ("a", 1), ("b", None)])
    selector.step()

    assert [(outcome.task, outcome.is_aborted, outcome.left_out) for outcome in merged] == [
        ("a", False, 1),
        ("b", True, 1),
    ]
    assert selector.client.direct.run(selector.dataset).totals.rollouts == 2
    assert selector.client.health.left_out_rollouts == 3


@pytest.mark.parametrize(
    ("rewards", "successes"),
    [
        (1, 1),
        (np.float32(0.5), 0.5),
        (np.array(1), 1),
        (np.array([1, 0, 1], dtype=np.float16), 2),
        ((reward for reward in (True, False)), 1),
        ([np.array([1.0]), np.int8(0)], 1),
    ],
)
def test_rewards_may_come_in_any_shape(selector, rewards, successes):
    selector.observe(selector.next(1).ids[0], rewards)
    selector.step()
    assert selector.client.direct.run(selector.dataset).totals.successes == successes


@pytest.mark.parametrize("rewards", ["1", {"correct": 1.0}, [[1, 0]], ["good"], [{"correct": 1}], object()])
def test_what_are_no_rewards_is_a_mistake_that_gives_the_task_back(connect, service, dataset, rewards):
    strict = Selector(connect(service), dataset, ids=IDS)
    lenient = Selector(connect(service, on_mistake="warn"), dataset, ids=IDS)

    with pytest.raises((InvalidRequestError, TypeError), match="number"):
        strict.observe(strict.next(1).ids[0], rewards)
    lenient.observe(lenient.next(1).ids[0], rewards)
    strict.step()
    lenient.step()

    assert strict.client.direct.run(dataset).leased == 0
