"""Thinning finds the draws near the target as if every task had been drawn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta as beta_law
from scipy.stats import binomtest, kstest

from bots_service.core.belief.betas import MOST_EVIDENCE
from bots_service.core.draw import thompson as thinning
from bots_service.core.draw.draws import SingleTasks
from bots_service.core.draw.thompson import MAX_REACH, Bounds, draw_near, draw_single_tasks
from tests.core.like_dense import always_windows, assert_draws_like_dense
from tests.core.pools import LEVEL, betas, normals

MANY = 100_000
# Level, usual, with too much evidence for a bound, not concave: each kind is near a target of 0.4 now and then.
MIXED = betas(
    [1.0] * 200 + [6.0, 2.0, 9.0] * 60 + [3e6, 0.5, 1.0, 0.3] * 8,
    [1.0] * 200 + [3.0, 7.0, 9.0] * 60 + [4.5e6, 0.5, 0.2, 4.0] * 8,
)
# Ten tasks stand at the target, so likely that they must be drawn plainly.
HEAP = betas([1.0] * 400 + [5e4] * 10, [1.0] * 400 + [5e4] * 10)


def singles_of(alpha, beta):
    return SingleTasks(np.arange(len(alpha)), betas(alpha, beta))


def alike(alpha, beta, size=MANY):
    return singles_of(np.full(size, alpha), np.full(size, beta))


def bounds_of(singles, target):
    return Bounds(*singles.beliefs.log_bound(target))


@pytest.fixture
def always_thinned(monkeypatch):
    monkeypatch.setattr(thinning, "FEWEST_TASKS", 0)
    monkeypatch.setattr(thinning, "FEWEST_PER_WANTED", 0)


EVIDENCE = st.floats(0, np.log(MOST_EVIDENCE / 2)).map(np.exp)
SHARE = st.floats(-1, 1)


@given(EVIDENCE, EVIDENCE, st.floats(1e-3, 0.5), st.floats(0, MAX_REACH), SHARE)
def test_a_bound_is_above_the_density_throughout_the_window(alpha, beta, target, width, where):
    bounds = bounds_of(alike(alpha, beta, 1), target)
    reach = width * target
    log_bound = bounds.log_height + bounds.slope * reach
    assert log_bound >= beta_law.logpdf(target + where * reach, alpha, beta)


@given(EVIDENCE, EVIDENCE, st.floats(1e-3, 0.5))
def test_a_bound_is_at_most_an_eighth_above_the_density_at_the_target(alpha, beta, target):
    log_height = bounds_of(alike(alpha, beta, 1), target).log_height
    assert log_height <= beta_law.logpdf(target, alpha, beta) + 0.121


def test_only_concave_beliefs_of_moderate_evidence_have_bounds():
    singles = singles_of([1.0, 0.999, 3.0, MOST_EVIDENCE, 2.0], [1.0, 3.0, 0.5, 1.0, 5.0])
    assert np.isinf(bounds_of(singles, 0.3).log_height).tolist() == [False, True, True, True, False]


@pytest.mark.parametrize(
    ("alpha", "beta", "target", "reach"),
    [(1, 1, 0.5, 0.1), (4, 9, 0.4, 0.03), (2, 1, 0.01, 0.0025), (9, 1.5, 0.3, 0.05), (400, 420, 0.5, 2e-3)],
)
def test_what_is_kept_is_what_a_draw_would_put_into_the_window(alpha, beta, target, reach):
    singles = alike(alpha, beta)
    drawn, places = draw_near(
        singles, bounds_of(singles, target).likely(reach), target, reach, np.random.default_rng(61)
    )
    law = beta_law(alpha, beta)
    low, high = law.cdf([target - reach, target + reach])
    assert 0 < len(places) < MANY / 2
    assert drawn.owners.tolist() == places.tolist()
    assert binomtest(len(places), MANY, high - low).pvalue > LEVEL
    assert kstest(drawn.values, lambda values: (law.cdf(values) - low) / (high - low)).pvalue > LEVEL
    assert kstest(places / MANY, "uniform").pvalue > LEVEL


def test_a_likely_task_is_drawn_plainly():
    singles = alike(5e4, 5e4)
    drawn, places = draw_near(singles, bounds_of(singles, 0.5).likely(0.01), 0.5, 0.01, np.random.default_rng(62))
    assert sorted(places.tolist()) == list(range(MANY))
    assert kstest(drawn.values, beta_law(5e4, 5e4).cdf).pvalue > LEVEL


@pytest.mark.parametrize(("alpha", "beta", "target"), [(1, 1, 0.5), (3, 8, 0.3), (30, 40, 0.45)])
def test_where_too_few_are_kept_every_task_has_its_own_law(alpha, beta, target, monkeypatch):
    monkeypatch.setattr(thinning, "SPARE", 0.5)
    singles = alike(alpha, beta)
    drawn = draw_single_tasks(singles, 5000, target, np.random.default_rng(63))
    assert sorted(drawn.owners.tolist()) == list(range(MANY))
    assert kstest(drawn.values, beta_law(alpha, beta).cdf).pvalue > LEVEL


def test_most_tasks_are_never_drawn():
    drawn = draw_single_tasks(alike(3.0, 4.0), 100, 0.4, np.random.default_rng(64))
    assert 100 <= len(drawn.values) < 300


SCENARIOS = {
    "usual": (betas([6.0, 2.0, 9.0] * 100, [3.0, 7.0, 9.0] * 100), 6, 0.5),
    "mixed": (MIXED, 6, 0.4),
    "heap": (HEAP, 6, 0.5),
    "only the heap is near": (HEAP, 40, 0.5),
    "mirrored": (MIXED, 6, 0.6),
    "near zero": (betas([1.0] * 4000, [3.0] * 4000), 2, 0.01),
    "normals, which have no bounds": (normals([-1.0, 0.3, 2.0] * 100, [1.0, 0.1, 4.0] * 100), 6, 0.4),
}


@pytest.mark.parametrize("spare", [thinning.SPARE, 0.1], ids=["enough", "too few"])
@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.usefixtures("always_thinned")
def test_thinned_tasks_draw_like_one_draw_per_task(name, spare, monkeypatch):
    monkeypatch.setattr(thinning, "SPARE", spare)
    alone, count, target = SCENARIOS[name]
    nothing = alone.at(np.empty(0, int))
    assert_draws_like_dense((alone, nothing, np.empty(0, int), count, target), seed=71)


@pytest.mark.usefixtures("always_thinned")
def test_thinned_tasks_beside_windows_draw_like_one_draw_per_task(monkeypatch):
    always_windows(monkeypatch)
    shared = betas([2.0, 8.0], [5.0, 3.0])
    assert_draws_like_dense((MIXED, shared, [40, 60], 6, 0.5), seed=72)


@pytest.mark.parametrize(
    ("singles", "count", "target"),
    [
        (alike(2.0, 3.0, 1000), 5, 0.5),
        (alike(2.0, 3.0, 3000), 301, 0.5),
        (alike(2.0, 0.9, 5000), 5, 0.5),
        (alike(2.0, 3.0, 5000), 5, 0.0),
        (alike(90.0, 1.0, 5000), 5, 0.1),
    ],
    ids=["few tasks", "many wanted", "no bounds", "target at the end", "hardly any is near"],
)
def test_every_task_is_drawn_where_thinning_gains_nothing(singles, count, target):
    assert len(draw_single_tasks(singles, count, target, np.random.default_rng(65)).values) == len(singles)


@given(
    st.lists(st.floats(1e-3, 1e7), min_size=3, max_size=3),
    st.lists(st.floats(1e-3, 1e7), min_size=3, max_size=3),
    st.sampled_from([0.0, 1e-12, 1e-3, 0.2, 0.5]),
    st.integers(1, 300),
    st.integers(0, 2**32),
)
def test_any_beliefs_give_enough_draws_of_distinct_tasks(alpha, beta, target, count, seed):
    singles = singles_of(alpha * 1200, beta * 1200)
    drawn = draw_single_tasks(singles, count, target, np.random.default_rng(seed))
    assert len(drawn.values) >= count
    assert ((drawn.values >= 0) & (drawn.values <= 1)).all()
    assert len(set(drawn.owners.tolist())) == len(drawn.owners)
