"""What a trainer observes of the tasks that it selected."""

import pytest

from bots_client import Cost, Selector
from tests.client.resilience.worlds import IDS


@pytest.fixture
def selector(connect, service, dataset):
    return Selector(connect(service), dataset, ids=IDS)


def test_rewards_of_one_task_add_up(selector):
    task = selector.next(1).ids[0]
    for reward in (1, 1, 0):
        selector.observe(task, [reward])

    receipt = selector.step()

    totals = selector.client.direct.run(selector.dataset).totals
    assert receipt.effective == 1
    assert (totals.rollouts, totals.successes) == (3, 2)


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


def test_what_rollouts_cost_is_reported_with_them_and_is_a_metric(selector):
    first, second, third = selector.next(3).ids
    selector.observe(first, [1, 0], tokens=300, seconds=2)
    selector.observe(second, [1, 1], successes=2, tokens=100)
    selector.abort(third, tokens=50)

    receipt = selector.step()

    assert (receipt.tokens, receipt.seconds) == (
        Cost(spent=450, rollouts=4, effective=1, per_rollout=112.5, per_effective=450),
        Cost(spent=2, rollouts=2, effective=1, per_rollout=1, per_effective=2),
    )
    found = selector.metrics()
    assert (found["bots/tokens_per_effective_task"], found["bots/seconds_per_effective_task"]) == (450, 2)


def test_an_aborted_task_teaches_nothing_and_may_be_selected_again(selector):
    for task in selector.next(40).ids:
        selector.abort(task)
    selector.step()

    run = selector.client.direct.run(selector.dataset)
    assert (run.step, run.totals.reported, run.leased) == (0, 0, 0)


def test_rewards_that_cannot_be_true_count_as_none_at_all(selector, caplog):
    task = selector.next(1).ids[0]

    selector.observe(task, [1.0, float("nan")])
    selector.step()

    run = selector.client.direct.run(selector.dataset)
    assert (run.totals.rollouts, run.leased) == (0, 0)
    assert "not a finite number" in caplog.text
