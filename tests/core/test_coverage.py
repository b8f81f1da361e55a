"""How visits spread over a pool, against a plain count; and which ways of choosing are called narrow."""

from collections import Counter
from dataclasses import replace
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.draw import NamedTasks, SelectRequest, select_tasks
from bots_service.core.entries import Entry, Report
from bots_service.core.pool import Pool
from bots_service.core.run_settings import settings_from
from bots_service.core.state import RunState, advance, fresh_state
from bots_service.core.summary import MOST_OF_VISITS, MOST_VISITS_PER_MET_TASK, SMALLEST_POOL, coverage
from bots_service.core.walks import WHOLE, Walk, places_of_pass
from bots_service.selections import context_of
from tests.core.journals import evidence_of, pool_of, replay, report_of
from tests.core.pools import tasks

NO_TASKS = np.empty(0, np.int32)


def pool_without_references(size: int) -> Pool:
    return pool_of(*[()] * size)


def visited(pool: Pool, steps: list[list[int]], **settings) -> RunState:
    """The state after steps that reported these tasks."""
    return replay(pool, [report_of(*((task, 1.0, 1.0) for task in step)) for step in steps], settings_from(settings))


@given(st.data())
def test_it_is_what_a_plain_count_gives(data):
    size = data.draw(st.integers(1, 40))
    some = st.lists(st.integers(0, size - 1), unique=True, min_size=1).map(sorted)
    steps = data.draw(st.lists(some, max_size=12))
    retired = data.draw(st.lists(st.integers(0, size - 1), unique=True).map(sorted))
    found = coverage(
        visited(pool_without_references(size), steps),
        replace(pool_without_references(size), retired=tasks(*retired)),
    )
    offered = [task for task in range(size) if task not in retired]
    visits = Counter(task for step in steps for task in step)
    total = sum(visits.values())
    assert (found.available_tasks, found.distinct_tasks) == (len(offered), len(visits))
    reached = sum(task in visits for task in offered) / len(offered) if offered else None
    assert found.reached_share == reached
    if not steps:
        assert (found.mean_visits, found.most_visits, found.top_tenth_share, found.pass_steps) == (None,) * 4
        return
    assert (found.mean_visits, found.most_visits) == (total / len(visits), max(visits.values()))
    top = sum(sorted(visits.values())[-ceil(len(visits) / 10) :])
    assert found.top_tenth_share == pytest.approx(top / total)
    if not offered:
        assert (found.pass_steps, found.unmet_share, found.narrow) == (None, None, False)
        return
    pass_steps = ceil(len(offered) * len(steps) / total)
    assert found.pass_steps == pass_steps
    if pass_steps > len(steps):
        assert (found.unmet_share, found.visits_per_met_task, found.narrow) == (None, None, False)
        return
    met = {task for step in steps[-pass_steps:] for task in step}
    assert found.unmet_share == pytest.approx(sum(task not in met for task in offered) / len(offered))
    per_met = pass_steps * total / len(steps) / len(met)
    assert found.visits_per_met_task == pytest.approx(per_met)
    largest = sum(sorted(visits.values())[-ceil(len(offered) / 10) :]) / total
    over = per_met > MOST_VISITS_PER_MET_TASK or largest > MOST_OF_VISITS
    assert found.narrow == (over and len(offered) >= SMALLEST_POOL) == (found.reason is not None)


@pytest.mark.parametrize("strategy", ["shuffle", "easy_to_hard"])
def test_a_walk_in_an_order_tells_how_far_it_came(strategy: str):
    pool = pool_without_references(8)
    found = coverage(visited(pool, [[0, 1, 2, 3, 4], [5, 6, 7, 0, 1]], strategy=strategy), pool)
    assert (found.passes_done, found.pass_share) == (1, 2 / 8)
    nobody = replace(pool, retired=np.arange(8, dtype=np.int32))
    assert coverage(visited(pool, [[0]], strategy=strategy), nobody).passes_done is None


def test_a_pass_tells_how_far_it_came_and_another_strategy_nothing():
    pool = pool_without_references(8)
    state = visited(pool, [[0, 1]], strategy="pass")
    state = replace(state, walks=state.walks.moved([Walk(WHOLE, 3, 6, 8)]))
    found = coverage(state, pool)
    # The first pass was given up: its only report came without a selection's id.
    assert (found.passes_done, found.pass_share) == (2, 6 / places_of_pass(8))
    assert coverage(visited(pool, [[0, 1]], strategy="uniform"), pool).passes_done is None


def test_with_a_mix_each_tag_has_a_pass_of_its_own_and_none_is_told():
    pool = Pool.of_tasks(np.empty((4, 0)), {"odd": tasks(1, 3)})
    found = coverage(visited(pool, [[0, 1]], strategy="pass", mix={"odd": 1.0}), pool)
    assert found.passes_done is found.pass_share is None


def test_the_reason_tells_what_was_counted_and_what_to_do():
    pool = pool_without_references(40)
    steps = [[0, 1, 2, 3]] * 10
    for strategy, todo in (("thompson", "use the strategy pass"), ("uniform", "add tasks of another difficulty")):
        reason = coverage(visited(pool, steps, strategy=strategy), pool).reason
        assert reason is not None
        assert todo in reason
        assert f"the last {40 // 4} steps, enough for a pass over all 40 tasks, reported 4 different ones" in reason
        assert f"{40 / 4:.1f} times each, and a tenth of the pool took {100 * 4 / 4:.0f} % of all visits" in reason


def test_one_of_the_bounds_is_enough():
    pool = pool_without_references(40)
    spread = [[4 * turn + task for task in range(4)] for turn in range(10)]
    few = [[4 * (turn % 3) + task for task in range(4)] for turn in range(10)]
    many_at_first = coverage(visited(pool, [*spread * 5, *few]), pool)
    assert many_at_first.reason is not None
    assert "times each" in many_at_first.reason
    assert "of all visits" not in many_at_first.reason
    few_at_first = coverage(visited(pool, [*[[0, 1, 2, 3]] * 10, *spread]), pool)
    assert few_at_first.reason is not None
    assert "of all visits" in few_at_first.reason
    assert "times each" not in few_at_first.reason


# --- which ways of choosing are narrow --------------------------------------------------------------------------------

SIZE, BATCH, ROLLOUTS, STEPS = 480, 16, 8, 120
HOPELESS = 0.29  # of the tasks, as in the pilot


def ever_narrow(**settings) -> bool:
    """Whether a run is called narrow after any of the steps; what a task's rollouts come to never changes."""
    rng, pool = np.random.default_rng(0), Pool.of_tasks(np.empty((SIZE, 0)))
    skills = np.where(rng.random(SIZE) < HOPELESS, -5.0, rng.normal(0, 2, SIZE))
    state, found = fresh_state(settings_from(settings), pool), False
    for step in range(STEPS):
        context, request = context_of(state, np.random.default_rng([1, step])), SelectRequest("pool", BATCH)
        drawn = select_tasks(state.belief, pool, request, context, named=NamedTasks(), leased=NO_TASKS)
        chosen = np.sort(drawn.tasks).tolist()
        solved = rng.binomial(ROLLOUTS, 1 / (1 + np.exp(-skills[chosen]))).tolist()
        evidence = evidence_of(*((task, float(s), float(ROLLOUTS - s)) for task, s in zip(chosen, solved, strict=True)))
        entry = Entry(state.seq + 1, 0, pool.profiles, Report(evidence, state.step, None, drawn.walks))
        state, _ = advance(state, entry, pool)
        found = found or coverage(state, pool).narrow
    return found


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("belief", "strategy"),
    [
        ("bots", "shuffle"),
        ("bots", "uniform"),
        ("bots", "pass"),
        ("tracker", "pass"),
        ("bots", "thompson"),
    ],
)
def test_choice_that_goes_round_the_pool_is_never_called_narrow(belief: str, strategy: str):
    assert not ever_narrow(belief=belief, strategy=strategy)


@pytest.mark.parametrize("settings", [{"belief": "tracker"}, {"belief": "bots", "forgetting": 0.0}])
def test_the_nearest_to_the_target_under_a_sharp_belief_is_called_narrow(settings):
    assert ever_narrow(strategy="thompson", **settings)
