"""Selections with a budget of rollouts, and selections that shall give so many effective groups."""

import numpy as np
import pytest

from bots_service.core.draw.selection import SelectRequest
from bots_service.core.pool import Pool
from bots_service.errors import InvalidSelectionError, PoolTooSmallError
from bots_service.ports.records import IdempotencyKey, Selection
from bots_service.usecases import select_tasks as module
from bots_service.usecases.select_tasks import is_quick
from tests.usecases.world import POOL, TASKS, World, outcome


async def wish(world: World, key: str | None = None, **wanted) -> Selection:
    request = SelectRequest(POOL, **wanted)
    once = None if key is None else IdempotencyKey(key, repr(request))
    return (await world.use.select_tasks(request, once))[0]


async def test_rollouts_add_up_to_the_budget_and_tell_how_likely_each_group_is_effective(world: World):
    await world.report(outcome("t1", 8), outcome("t2", 16), outcome("t3", 0))
    chosen = await world.select(6, rollouts_budget=60, min_rollouts=3, max_rollouts=30)
    assert chosen.rollouts is not None
    assert chosen.rollouts.sum() == 60
    assert chosen.rollouts.min() >= 3
    assert chosen.expected_effective is None
    opened, state = await world.opened(), await world.state()
    believed = state.belief.distributions(opened.dataset.pool, chosen.tasks)
    for place, rollouts in enumerate(chosen.rollouts.tolist()):
        assert chosen.effective[place] == pytest.approx(believed.effective(float(rollouts))[place], abs=1e-9)


async def test_a_budget_changes_neither_the_tasks_nor_their_draws(world: World):
    await world.put_run("again")
    with_budget, without = await world.select(5, rollouts_budget=50), await world.select(5, "again")
    assert without.rollouts is None
    assert with_budget.tasks.tolist() == without.tasks.tolist()
    np.testing.assert_array_equal(with_budget.draws, without.draws)


@pytest.mark.parametrize("quotas", [{}, {"odd": 0.5}])
async def test_as_many_tasks_come_as_the_forecast_says_are_enough(world: World, quotas):
    chosen = await wish(world, want_effective=2, quotas=quotas)
    state = await world.state()
    likely = state.forecasts.corrected(chosen.effective)
    assert chosen.expected_effective == pytest.approx(likely.sum())
    assert likely.sum() > 2
    assert len(chosen.tasks) <= 8


async def test_a_wish_takes_the_largest_number_that_it_may_where_nothing_is_enough(world: World):
    chosen = await wish(world, want_effective=3, max_count=3, confidence=0.999)
    assert len(chosen.tasks) == 3
    everything = await wish(world, want_effective=TASKS, tags=("odd",), exclude=("t1",), max_count=TASKS)
    pool = (await world.opened()).dataset.pool
    assert len(everything.tasks) == len(pool.part(("odd",))) - 1


async def test_a_wish_for_tasks_that_are_all_excluded_says_that_there_are_none(world: World):
    pool = (await world.opened()).dataset
    odd = tuple(pool.ids[int(task)] for task in pool.pool.tags["odd"])
    with pytest.raises(PoolTooSmallError):
        await wish(world, want_effective=2, tags=("odd",), exclude=odd)


async def test_the_same_key_gives_the_same_tasks_and_the_same_wish_in_a_thread_too(world: World, monkeypatch):
    await world.put_run("again")
    first, again = await wish(world, key="k", want_effective=2), await wish(world, key="k", want_effective=2)
    assert first is again or (first.id, first.expected_effective) == (again.id, again.expected_effective)
    monkeypatch.setattr(module, "QUICK_NUMBERS", 0)
    slow = await wish(world, want_effective=2, run="again")
    assert slow.tasks.tolist() == first.tasks.tolist()
    assert slow.expected_effective == first.expected_effective


@pytest.mark.parametrize(
    ("wanted", "field", "message"),
    [
        ({}, "count", "give either count or want_effective"),
        ({"count": 4, "rollouts_budget": 7}, "rollouts_budget", "7 rollouts are too few for 4 tasks"),
        ({"want_effective": 2, "quotas": {"odd": 0.75, "even": 0.75}}, "quotas", "more than count 4"),
    ],
)
async def test_an_impossible_wish_is_refused_and_leases_nothing(world: World, wanted, field, message):
    with pytest.raises(InvalidSelectionError) as refused:
        await wish(world, **wanted)
    (flaw,) = refused.value.flaws
    assert flaw.where[:2] == ("body", field)
    assert message in flaw.what
    assert (await world.describe()).leased == 0


async def test_a_wish_or_a_large_budget_may_take_a_thread(world: World):
    state, nothing = await world.state(), np.empty(0, np.int32)
    pool: Pool = (await world.opened()).dataset.pool
    fresh = Pool(pool.references, pool.profile_of, pool.tags)
    fresh.part()
    _ = fresh.members
    assert is_quick(SelectRequest(POOL, 32, rollouts_budget=512), state, fresh, nothing)
    assert not is_quick(SelectRequest(POOL, 512, rollouts_budget=8192), state, fresh, nothing)
    assert is_quick(SelectRequest(POOL, want_effective=16), state, fresh, nothing)
    assert not is_quick(SelectRequest(POOL, want_effective=256), state, fresh, nothing)
