"""Each strategy against a slow obvious version of itself."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bots_service.core import draw as drawing
from bots_service.core.draw import (
    STRATEGIES,
    Eligible,
    easy_to_hard,
    pick_members,
    shuffle,
    thompson,
    uniform,
)
from tests.core.pools import assert_same_shares, belief, beliefs, candidates, context_of, pool, pools, some_tasks, tasks


def offered(beliefs_of, about, barred=()):
    part = about.part()
    return Eligible(about, beliefs_of, part, part.keep(np.unique(tasks(*barred))))


# Profile means 1/3, 1/2, 1/2, 9/10; tasks 2 and 9 have evidence of their own.
POOL = pool([0, 0, 0, 1, 1, 2, 2, 3, 3, 3], retired=[8])
BELIEF = belief([1, 2, 3, 9], [2, 2, 3, 1], own_tasks=[2, 9], alpha=[1, 4], beta=[9, 6])
OFFERED = offered(BELIEF, POOL, barred=[3])


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_every_strategy_gives_exactly_the_count_of_distinct_eligible_tasks(data):
    about = data.draw(pools())
    barred = data.draw(some_tasks(about))
    allowed = candidates(about, barred=barred)
    among = offered(data.draw(beliefs(about)), about, barred)
    assert len(among) == len(allowed)
    if not allowed:
        return
    count = data.draw(st.integers(1, len(allowed)))
    target, position = data.draw(st.sampled_from([0.0, 0.3, 1.0])), data.draw(st.integers(0, 200))
    for strategy in STRATEGIES.values():
        chosen = strategy(among, count, context_of(data.draw(st.integers(0, 99)), position, target=target, seed=3))
        assert len(set(chosen.tasks.tolist())) == len(chosen.draws) == count
        assert set(chosen.tasks.tolist()) <= set(allowed)
        assert np.isnan(chosen.draws).all() == (strategy is not thompson)


def test_uniform_takes_every_pair_equally_often():
    rng = np.random.default_rng(8)
    pairs = {pair: place for place, pair in enumerate(itertools.combinations([0, 1, 2, 4, 5, 6, 7, 9], 2))}
    drawn = [pairs[tuple(sorted(uniform(OFFERED, 2, context_of(rng)).tasks.tolist()))] for _ in range(2800)]
    assert_same_shares(np.array(drawn), np.arange(2800) % 28)


def walked(strategy, among, counts, position=0):
    """Select and report at once, step by step."""
    for count in counts:
        yield strategy(among, count, context_of(position=position, seed=7)).tasks.tolist()
        position += count


@pytest.mark.parametrize("strategy", [shuffle, easy_to_hard])
def test_a_walk_meets_every_task_once_a_pass(strategy):
    among = offered(BELIEF, pool([0, 1, 2] * 4))
    met = list(itertools.chain.from_iterable(walked(strategy, among, [3] * 8)))
    assert sorted(met[:12]) == sorted(met[12:]) == list(range(12))
    assert (met[:12] == met[12:]) == (strategy is easy_to_hard)


@pytest.mark.parametrize("strategy", [shuffle, easy_to_hard])
def test_a_walk_skips_barred_tasks_and_goes_round(strategy):
    about = pool([0, 1, 2] * 4)
    whole = next(walked(strategy, offered(BELIEF, about), [12]))
    rest = next(walked(strategy, offered(BELIEF, about, barred=whole[:2]), [5]))
    assert rest == whole[2:7]
    round_the_end = next(walked(strategy, offered(BELIEF, about, barred=whole[11:]), [11], position=9))
    assert round_the_end[:2] == whole[9:11]
    assert sorted(round_the_end) == sorted(whole[:11])


def test_a_shuffle_is_fixed_by_its_seed():
    among = offered(BELIEF, pool([0, 1, 2] * 4))
    orders = [shuffle(among, 12, context_of(seed=seed)).tasks.tolist() for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


@given(pools())
def test_easy_to_hard_falls_in_pass_rates_with_the_unknown_last(about):
    def ease(task):
        rates = about.references[about.profile_of[task]].tolist()
        return (np.isnan(rates).any(), [-rate for rate in rates if not np.isnan(rate)], task)

    assert about.part().easy_to_hard.tolist() == sorted(candidates(about), key=ease)


@pytest.mark.parametrize("rounds", [0, 1, 16])
def test_members_are_picked_evenly_and_never_twice(rounds, monkeypatch):
    monkeypatch.setattr(drawing, "ROUNDS", rounds)
    rng = np.random.default_rng(2)
    order, starts, taken = tasks(5, 0, 3, 1, 2, 4, 6, 7), np.array([0, 3, 8]), (tasks(2), tasks(0, 7))
    picked = np.array([pick_members(order, starts, np.array([1, 0, 1]), taken, rng) for _ in range(1500)])
    assert (picked[:, 0] != picked[:, 2]).all()
    for place, free in enumerate([[1, 4, 6], [3, 5], [1, 4, 6]]):
        assert_same_shares(picked[:, place], np.resize(free, 1500))
