"""`pass` with `per_cost`: tasks weighed by what they cost, none given up, nothing changed where no cost is known."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from bots_service.core.arrays import frozen
from bots_service.core.costs import (
    MOST_WEIGHT,
    NO_COSTS,
    NO_RUN_COSTS,
    RESOURCES,
    CostSum,
    CostSums,
    RunCosts,
    cost_weights,
)
from bots_service.core.draw.context import DrawContext
from bots_service.core.draw.eligible import Eligible
from bots_service.core.draw.passes import walk_pass
from bots_service.core.pool import Pool
from bots_service.core.rows import LayeredRows
from bots_service.core.run_settings import Resource, RunSettings
from bots_service.core.walks import Walks
from tests.core.plain_pass import LEAST_CHANCE
from tests.core.pools import LEVEL, belief, tasks
from tests.core.test_costs import rows_of
from tests.sizes import size

SIZE, GROUP = 30, 8.0
EVERYBODY = tasks(*range(SIZE))
POOL = Pool.of_tasks(np.empty((SIZE, 0)))
KNOWN = belief([1.0], [1.0], range(SIZE), *np.random.default_rng(0).integers(1, 15, (2, SIZE)))


def costs_of(told: dict[int, tuple[float, float]], row: int = 0) -> RunCosts:
    """Return costs of tasks: what was spent, and for how many rollouts; in tokens, or in seconds with row 1."""
    outcomes = [(task, *((spent, None) if row == 0 else (None, spent)), count) for task, (spent, count) in told.items()]
    spent, rollouts = (sum(one[place] for one in told.values()) for place in (0, 1))
    sums = [CostSum(), CostSum()]
    sums[row] = CostSum(spent, rollouts, 0)
    return RunCosts(LayeredRows(rows_of(outcomes), NO_COSTS), CostSums(*sums))


def selections(per_cost: Resource | None, costs: RunCosts, count: int, steps: int) -> list[list[int]]:
    """Select and report at once, again and again."""
    walks, found = Walks(), list[list[int]]()
    settings = RunSettings(strategy="pass", seed=3, per_cost=per_cost)
    for _ in range(steps):
        context = DrawContext(settings, 0, np.random.default_rng(0), walks, GROUP, costs=costs)
        got = walk_pass(Eligible(POOL, KNOWN, POOL.part(), frozen(np.empty(0, np.int32))), count, context)
        walks = walks.moved(got.walks)
        found.append(got.tasks.tolist())
    return found


paid = st.dictionaries(
    st.integers(0, SIZE - 1), st.tuples(st.integers(0, 10**7).map(float), st.integers(1, 64).map(float)), max_size=9
)


@given(told=paid, row=st.integers(0, 1))
def test_a_weight_is_the_mean_cost_over_that_of_the_task_shrunk_to_the_mean(
    told: dict[int, tuple[float, float]], row: int
):
    costs, resource = costs_of(told, row), RESOURCES[row]
    found = cost_weights(costs, EVERYBODY, resource, group_size=GROUP)
    spent, rollouts = (sum(one[place] for one in told.values()) for place in (0, 1))
    for task, weight in enumerate(found.tolist()):
        if not spent:
            assert weight == 1.0
            continue
        own, count = told.get(task, (0.0, 0.0))
        expected = (own + GROUP * spent / rollouts) / (count + GROUP)
        assert weight == pytest.approx(min(max(spent / rollouts / expected, 1 / MOST_WEIGHT), MOST_WEIGHT))
    other: Resource = "seconds" if row == 0 else "tokens"
    assert (cost_weights(costs, EVERYBODY, other, group_size=GROUP) == 1.0).all()


@given(told=paid, count=st.integers(1, SIZE))
def test_without_the_setting_or_without_costs_of_that_kind_the_pass_is_as_before(
    told: dict[int, tuple[float, float]], count: int
):
    plain = selections(None, NO_RUN_COSTS, count, 5)
    assert selections(None, costs_of(told), count, 5) == plain
    assert selections("seconds", costs_of(told), count, 5) == plain
    assert selections("tokens", NO_RUN_COSTS, count, 5) == plain


@pytest.mark.no_cover
def test_visits_are_in_proportion_to_the_probability_of_being_effective_times_the_weight():
    told = {task: ((100.0, 400.0, 4000.0)[task % 3] * 64, 64.0) for task in range(SIZE)}
    visits = Counter(task for chosen in selections("tokens", costs_of(told), 2, size(2_000, 6_000)) for task in chosen)
    chances = KNOWN.distributions(POOL, EVERYBODY).effective(GROUP)
    weighed = np.minimum(
        np.maximum(chances, LEAST_CHANCE) * cost_weights(costs_of(told), EVERYBODY, "tokens", group_size=GROUP), 1.0
    )
    counts = np.array([visits[task] for task in range(SIZE)])
    assert chisquare(counts, weighed / weighed.sum() * counts.sum()).pvalue > LEVEL


def test_no_task_is_given_up_however_much_it_costs():
    told = {task: (1e11 if task == 7 else 1.0, 8.0) for task in range(SIZE)}
    assert set().union(*selections("tokens", costs_of(told), 10, 60)) == set(range(SIZE))


def test_tasks_in_flight_are_ranked_by_the_same_chance():
    told = {task: (1e6 if task % 2 else 1.0, 8.0) for task in range(SIZE)}
    settings = RunSettings(strategy="pass", per_cost="tokens")
    cheap = Counter[bool]()
    for seed in range(200):
        for per_cost in (None, "tokens"):
            context = DrawContext(replace(settings, per_cost=per_cost), 0, np.random.default_rng(seed), Walks(), GROUP)
            part = replace(POOL.part(), key=None)
            got = walk_pass(
                Eligible(POOL, KNOWN, part, frozen(np.empty(0, np.int32))), 10, replace(context, costs=costs_of(told))
            )
            cheap[per_cost is None] += sum(task % 2 == 0 for task in got.tasks.tolist())
    assert cheap[False] > cheap[True] * 1.2


@pytest.mark.parametrize("resource", RESOURCES)
def test_without_a_known_cost_all_tasks_weigh_the_same(resource: Resource):
    assert cost_weights(NO_RUN_COSTS, EVERYBODY, resource, group_size=GROUP).tolist() == [1.0] * SIZE
