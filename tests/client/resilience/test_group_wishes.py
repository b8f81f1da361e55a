"""Budgets of rollouts and wishes for effective groups, with the service and without it."""

import pytest

from bots_client import AsyncSelector, EffectiveGroups, RolloutsBudget, Selector
from tests.client.resilience.worlds import IDS
from tests.serving import NOWHERE


@pytest.fixture
def selector(connect, service, dataset):
    return Selector(connect(service), dataset, ids=IDS)


@pytest.fixture
def alone(connect):
    """A selector whose service is away."""
    return Selector(connect(NOWHERE), "guru", ids=IDS)


def rollouts_of(selection):
    return [task.rollouts for task in selection.tasks]


def test_the_service_shares_a_budget_out(selector):
    for task in selector.next(8).ids:
        selector.observe(task, [1, 1, 1, 1])
    selector.step()
    selection = selector.next(8, rollouts_budget=RolloutsBudget(96, least=3, most=40))
    rollouts = rollouts_of(selection)
    assert sum(rollouts) == 96
    assert min(rollouts) >= 3
    assert max(rollouts) <= 40
    assert selection.expected_effective is None


def test_the_service_selects_enough_tasks(selector):
    selection = selector.next(want_effective=5)
    assert 5 <= len(selection.tasks) <= len(IDS)
    assert selection.expected_effective > 5
    assert selection.tasks[0].rollouts is None
    bounded = selector.next(want_effective=EffectiveGroups(5, confidence=0.99, max_count=6))
    assert len(bounded.tasks) == 6


async def test_the_asynchronous_selector_does_too(selector):
    async with AsyncSelector(selector) as asynchronous:
        selection = await asynchronous.next(4, rollouts_budget=30)
        assert sum(rollouts_of(selection)) == 30
        assert len((await asynchronous.next(want_effective=3)).tasks) >= 3


def test_without_the_service_all_tasks_have_the_same_number_of_rollouts(alone):
    selection = alone.next(5, rollouts_budget=RolloutsBudget(52, least=9))
    assert selection.is_local
    assert rollouts_of(selection) == [11, 11, 10, 10, 10]
    assert alone.next(5).tasks[0].rollouts is None


def test_without_the_service_twice_as_many_tasks_come_as_groups_are_wanted(alone):
    assert len(alone.next(want_effective=6).tasks) == 12
    assert len(alone.next(want_effective=EffectiveGroups(6, max_count=7)).tasks) == 7
    assert sorted(alone.next(want_effective=len(IDS)).ids) == sorted(IDS)


def test_tasks_that_the_trainer_does_not_have_leave_their_rollouts_to_others(connect, service, dataset):
    selector = Selector(connect(service), dataset, ids=IDS[:10])
    selection = selector.next(10, rollouts_budget=100)
    assert sum(rollouts_of(selection)) == 100
    assert set(selection.ids) <= set(IDS[:10])


def test_a_selector_is_asked_in_one_of_both_ways(alone):
    with pytest.raises(TypeError, match="got neither"):
        alone.next()
    with pytest.raises(TypeError, match="got both"):
        alone.next(3, want_effective=3)
