"""Tasks that were reported lately stay out of selections for as long as the run's `cooldown` says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bots_service.core.draw.selection import NamedTasks, select_tasks
from tests.core.pools import (
    a_request,
    assert_same_shares,
    belief,
    beliefs,
    candidates,
    context_of,
    pool,
    pools,
    reported_steps,
    some_attempts,
    some_tasks,
    tasks,
)

AVOIDING = ("thompson", "mean", "softmax")
NONE = tasks()
POOL = pool([0] * 6 + [1] * 4)
BELIEF = belief([3, 1], [3, 9], own_tasks=[1, 7], alpha=[40, 2], beta=[44, 1])


def selected(request, context, leased=NONE, of=BELIEF, about=POOL, exclude=NONE):
    named = NamedTasks(np.unique(exclude))
    return select_tasks(of, about, request, context, named=named, leased=leased)


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_a_cooling_task_is_chosen_only_where_too_few_others_are_free(data):
    about = data.draw(pools())
    of, leased, exclude = data.draw(beliefs(about)), data.draw(some_tasks(about)), data.draw(some_tasks(about))
    free = set(candidates(about, barred=[*exclude.tolist(), *leased.tolist()]))
    if not free:
        return
    step, attempts = data.draw(some_attempts(about))
    cooldown, count = data.draw(st.integers(0, 5)), data.draw(st.integers(1, len(free)))
    context = context_of(step=step, attempts=attempts, strategy=data.draw(st.sampled_from(AVOIDING)), cooldown=cooldown)

    chosen = set(selected(a_request(count), context, leased, of, about, exclude).tasks.tolist())

    last = dict(zip(attempts.whole.tasks.tolist(), attempts.whole.last_step.tolist(), strict=True))
    cooling = {task for task in free if task in last and step - last[task] < cooldown}
    assert len(chosen) == count
    assert chosen <= free
    assert len(chosen & cooling) == max(count - len(free - cooling), 0)


@pytest.mark.parametrize("strategy", AVOIDING)
def test_a_task_is_back_once_the_cooldown_is_over(strategy):
    attempts = reported_steps([0, 1, 2], [3, 4, 5])
    for step, back in ((2, []), (3, []), (4, [0, 1, 2]), (5, [0, 1, 2, 3, 4, 5])):
        context = context_of(step=step, attempts=attempts, strategy=strategy, cooldown=3)
        chosen = selected(a_request(4 + len(back)), context).tasks
        assert sorted(chosen.tolist()) == sorted([6, 7, 8, 9, *back])


def test_free_tasks_come_first_then_cooling_ones_then_leased_ones():
    attempts = reported_steps([0, 1, 2])
    for count in range(1, 11):
        context = context_of(step=1, attempts=attempts, strategy="thompson", cooldown=1)
        drawn = selected(a_request(count), context, leased=tasks(8, 9))
        expected = [{3, 4, 5, 6, 7}, {0, 1, 2}, {8, 9}]
        chosen = drawn.tasks.tolist()
        assert set(chosen[:5]) <= expected[0]
        assert set(chosen[5:8]) <= expected[1]
        assert set(chosen[8:]) <= expected[2]
        assert drawn.reused == max(count - 8, 0)


def test_among_cooling_tasks_the_strategy_chooses():
    of = belief([1, 1], [1, 1], own_tasks=range(10), alpha=range(1, 11), beta=[10] * 10)
    context = context_of(step=1, attempts=reported_steps(range(10)), strategy="mean", cooldown=1)
    assert selected(a_request(3), context, of=of).tasks.tolist() == [9, 8, 7]  # means 10/20, 9/19, 8/18


def test_the_uniform_share_knows_no_cooldown():
    attempts, rng = reported_steps([0, 1, 2]), np.random.default_rng(3)
    chosen = [
        int(task)
        for _ in range(300)
        for task in selected(
            a_request(2, uniform_share=1.0),
            context_of(rng, step=1, attempts=attempts, strategy="thompson", cooldown=1),
        ).tasks
    ]
    assert_same_shares(np.array(chosen), np.arange(600) % 10)


@pytest.mark.parametrize("strategy", ["uniform", "shuffle", "easy_to_hard", "spaced"])
def test_other_strategies_know_no_cooldown(strategy):
    attempts, found = reported_steps([0, 1, 2], [4, 5]), []
    for cooldown in (0, 9):
        context = context_of(step=2, attempts=attempts, strategy=strategy, cooldown=cooldown)
        found.append(selected(a_request(7), context).tasks.tolist())
    assert found[0] == found[1]
