"""Tasks rest while the belief expects no gradient of them, and come back when that changes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bots_service.core.draw.selection import NamedTasks, select_tasks
from bots_service.core.resting import Resting, resting, resting_tasks
from bots_service.core.run_settings import RunSettings, settings_from
from bots_service.errors import PoolTooSmallError
from tests.core.journals import pool_of, replay, report_of
from tests.core.pools import a_request, beliefs, candidates, context_of, normal_beliefs, pools, some_tasks
from tests.sizes import examples

GROUP = 8.0
NONE = np.empty(0, np.int32)
LEVELS = st.sampled_from([0.0, 0.05, 0.5, 0.95, 1.0])


@settings(deadline=None, max_examples=examples(60))
@given(st.data())
def test_tried_tasks_below_the_probability_come_only_where_too_few_others_are_free(data):
    about = data.draw(pools())
    of = data.draw(beliefs(about) | normal_beliefs(about))
    least, leased = data.draw(LEVELS), data.draw(some_tasks(about))
    strategy = data.draw(st.sampled_from(["pass", "thompson", "uniform", "spaced"]))
    count = data.draw(st.integers(1, len(about)))
    context = replace(context_of(strategy=strategy, min_effective=least), group_size=GROUP)
    try:
        got = select_tasks(of, about, a_request(count), context, named=NamedTasks(), leased=leased)
    except PoolTooSmallError:
        return
    one_by_one = {
        task
        for task in of.own_tasks.tolist()
        if of.distributions(about, np.array([task], np.int32)).effective(GROUP)[0] < least
    }
    assert set(resting_tasks(of, about, context.settings, GROUP).tolist()) == one_by_one
    awake = set(candidates(about)) - set(leased.tolist()) - one_by_one
    assert len(set(got.tasks.tolist()) & awake) == min(count, len(awake))


@pytest.fixture
def trained():
    """Four tasks: always solved, never solved, mixed, untried."""
    about = pool_of(*[(0.5,)] * 4)
    outcomes = report_of((0, 8.0, 0.0), (1, 0.0, 8.0), (2, 4.0, 4.0))
    return about, replay(about, [outcomes] * 30, RunSettings())


def test_what_rests_is_counted_by_kind_with_how_many_are_expected_to_be_wrong(trained):
    about, state = trained
    run = settings_from({"min_effective": 0.3}, base=state.settings)
    found = resting(state.belief, about, run, GROUP)
    chances = state.belief.distributions(about, np.array([0, 1], np.int32)).effective(GROUP)
    assert (found.solved, found.unsolved) == (1, 1)
    assert found.expected_wrong == pytest.approx(chances.sum())
    retired = replace(about, retired=np.array([0], np.int32))
    assert resting(state.belief, retired, run, GROUP).solved == 0
    assert resting(state.belief, about, state.settings, GROUP) == Resting()


def test_the_uniform_share_looks_at_tasks_that_rest(trained):
    about, state = trained
    context = replace(context_of(min_effective=0.3, strategy="pass"), group_size=GROUP)

    def selected(seed, uniform_share):
        request, drawing = a_request(2, uniform_share=uniform_share), replace(context, rng=np.random.default_rng(seed))
        return select_tasks(state.belief, about, request, drawing, named=NamedTasks(), leased=NONE).tasks.tolist()

    assert {task for seed in range(20) for task in selected(seed, 0.0)} == {2, 3}
    assert {task for seed in range(20) for task in selected(seed, 1.0)} == {0, 1, 2, 3}


def test_a_task_comes_back_once_the_model_has_changed():
    about = pool_of(*[(0.5,)] * 20)
    run = settings_from({"min_effective": 0.5})
    hard = report_of(*((task, 0.0, 8.0) for task in range(20)))
    state = replay(about, [hard] * 5, run)
    assert 0 in resting_tasks(state.belief, about, run, GROUP)
    better = report_of(*((task, 6.0, 2.0) for task in range(1, 20)))
    state = replay(about, [better] * 20, run, state)
    assert 0 not in resting_tasks(state.belief, about, run, GROUP)
