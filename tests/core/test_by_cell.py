"""The draw by cells has the distribution of the draw of every task."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core import cells
from bots_service.core.belief.betas import MOST_EVIDENCE, BetaCells
from bots_service.core.belief.logit_normals import LogitNormalCells
from bots_service.core.belief.tracker import TrackerBelief
from bots_service.core.draw import by_cell
from bots_service.core.draw.by_cell import draw_by_cell
from bots_service.core.draw.eligible import Eligible
from bots_service.core.draw.strategies import thompson
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings
from bots_service.core.state import fresh_state
from tests.core.journals import replay, report_of
from tests.core.like_dense import samples
from tests.core.pools import (
    assert_same_shares,
    assert_same_values,
    betas,
    context_of,
    normals,
    tasks,
)
from tests.core.pools import (
    pool as pool_by_profile,
)

SIZE, COUNT = 2000, 3
NOBODY = tasks()


@pytest.fixture(autouse=True)
def _of_small_pools(monkeypatch):
    for module, name, value in (
        (cells, "FEWEST_PROFILES", 1),
        (cells, "FEWEST_MEMBERS", 1),
        (cells, "MOST_CELLS", 100),
        (by_cell, "MOST_LOOKED_AT", 0.5),
    ):
        monkeypatch.setattr(module, name, value)


def rates_at_random(size=SIZE, models=2, seed=7):
    return np.random.default_rng(seed).random((size, models))


def belief_after(pool, steps, **settings):
    """The belief after steps that reported four tasks each."""
    rng = np.random.default_rng(3)
    of_run = RunSettings(strategy="thompson", **settings)
    reports = [
        report_of(*((int(task), float(rng.integers(0, 9)), 4.0) for task in np.sort(some)))
        for some in (rng.choice(len(pool), 4, replace=False) for _ in range(steps))
    ]
    return replay(pool, reports, of_run).belief if steps else fresh_state(of_run, pool).belief


def steep(belief):
    """The tracker's belief, but sure that tasks differ much, so that each cell holds very different ones."""
    effects = belief.effects
    mean = effects.mean.copy()
    mean[1:3] = (3.0, -2.0)
    return replace(belief, effects=replace(effects, mean=mean, covariance=effects.covariance * 0.1))


def eligible_of(pool, belief, excluded=NOBODY, tags=()):
    return Eligible(pool, belief, pool.part(tags), excluded)


def of_bots(pool=None, steps=30, **settings):
    pool = pool or Pool.of_tasks(rates_at_random())
    return eligible_of(pool, belief_after(pool, steps, belief="bots", **settings))


def of_tracker(pool=None):
    pool = pool or Pool.of_tasks(rates_at_random())
    return eligible_of(pool, steep(belief_after(pool, 30, belief="tracker")))


def with_appended_tasks():
    belief = belief_after(Pool.of_tasks(rates_at_random()), 70, belief="bots", forgetting=0.02)
    return eligible_of(Pool.of_tasks(rates_at_random(SIZE + 200)), belief)


def with_a_tag():
    """Tasks with a tag, without the retired ones; half of them are excluded."""
    pool = Pool.of_tasks(rates_at_random(), {"math": tasks(*range(1500))})
    pool = replace(pool, retired=tasks(1, 7))
    return eligible_of(pool, belief_after(pool, 12, belief="bots"), tasks(*range(0, 1500, 2)), ("math",))


def tagged():
    return Pool.of_tasks(
        rates_at_random(), {"math": tasks(*range(700)), "code": tasks(*range(0, SIZE, 2))}, ("math", "code")
    )


def half_unknown():
    rates = rates_at_random()
    rates[::2] = np.nan
    return Pool.of_tasks(rates)


# Eligible tasks and the target.
SCENARIOS = {
    "prior": lambda: (of_bots(steps=0), 0.4),
    "prior that is not concave": lambda: (of_bots(steps=0, prior=(0.5, 0.7)), 0.3),
    "bots": lambda: (of_bots(implicit_weight=0.5), 0.6),
    "bots, one reference": lambda: (of_bots(Pool.of_tasks(rates_at_random(models=1)), implicit_weight=0.5), 0.4),
    "bots, appended tasks": lambda: (with_appended_tasks(), 0.5),
    "bots, a tag": lambda: (with_a_tag(), 0.45),
    "tracker": lambda: (of_tracker(), 0.6),
    "tracker, tags": lambda: (of_tracker(tagged()), 0.5),
    "tracker, half unknown": lambda: (of_tracker(half_unknown()), 0.5),
}


def scenario(name):
    return SCENARIOS[name]()


def assert_draws_like_each_task(eligible, target, count=COUNT):
    """Compare many draws with the plain one: draw p of each eligible task, take the nearest."""
    order = np.sort(eligible.part.members.order)
    order = order[~np.isin(order, eligible.excluded)]
    believed = eligible.belief.distributions(eligible.pool, order)
    own = np.isin(order, eligible.belief.own_tasks)

    def of_each(rng):
        values = believed.sample(rng)
        first = np.argsort(np.abs(values - target), kind="stable")[:count]
        return values[first], order[first]

    def of_cells(rng):
        drawn = draw_by_cell(eligible, count, target=target, rng=rng)
        assert drawn is not None
        assert len(set(drawn.owners.tolist())) == len(drawn.values) == count
        assert np.isin(drawn.owners, order).all()
        return drawn.values, drawn.owners

    ours, theirs = samples(of_cells, target, 1), samples(of_each, target, 2)
    by_mean = np.argsort(np.argsort(believed.mean)) * 12 // len(order)
    for kind in (own, by_mean):
        named = np.zeros(len(eligible.pool), np.int64)
        named[order] = kind
        for mine, other in zip(ours[:2], theirs[:2], strict=True):
            assert_same_shares(named[mine], named[other])
    for mine, other in zip(ours[2:], theirs[2:], strict=True):
        assert_same_values(mine, other)


@pytest.mark.parametrize("name", SCENARIOS)
def test_cells_draw_like_one_draw_per_task(name):
    assert_draws_like_each_task(*scenario(name))


@pytest.mark.parametrize("name", ["bots", "tracker"])
def test_a_window_that_holds_too_few_leaves_the_others_outside(name, monkeypatch):
    monkeypatch.setattr(by_cell, "SPARE", 0.2)
    assert_draws_like_each_task(*scenario(name))


@pytest.mark.no_cover
@pytest.mark.parametrize("name", ["bots", "tracker"])
@pytest.mark.parametrize("spare", [0.2, 1.5])
def test_cells_that_are_too_likely_are_drawn_task_by_task(name, spare, monkeypatch):
    monkeypatch.setattr(by_cell, "MOST_LIKELY", 0.02)
    monkeypatch.setattr(by_cell, "MOST_LOOKED_AT", 1.0)
    monkeypatch.setattr(by_cell, "SPARE", spare)
    assert_draws_like_each_task(*scenario(name))


def test_one_task_is_drawn_like_many():
    eligible, target = scenario("bots")
    assert_draws_like_each_task(eligible, target, count=1)


def test_a_draw_follows_from_its_seed():
    eligible, target = scenario("tracker")
    first, second = (draw_by_cell(eligible, COUNT, target=target, rng=np.random.default_rng(5)) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.owners.tolist() == second.owners.tolist()
    assert first.values.tolist() == second.values.tolist()


def test_thompson_draws_by_cell_where_it_can():
    eligible, target = scenario("bots")
    context = context_of(9, target=target)
    drawn = draw_by_cell(eligible, COUNT, target=target, rng=np.random.default_rng(9))
    assert drawn is not None
    chosen = thompson(eligible, COUNT, context)
    assert chosen.tasks.dtype == np.int32
    assert chosen.tasks.tolist() == drawn.owners.tolist()
    assert chosen.draws.tolist() == drawn.values.tolist()


def none_by_cell(eligible, count, target):
    """Whether the draw leaves it to the other one, and takes no random number before it does."""
    rng, untouched = (np.random.default_rng(1) for _ in range(2))
    return draw_by_cell(eligible, count, target=target, rng=rng) is None and rng.random() == untouched.random()


def test_where_a_look_at_each_task_is_as_quick_no_cells_are_drawn_from(monkeypatch):
    eligible, target = scenario("bots")
    assert none_by_cell(eligible, SIZE // 10, target)  # many of few
    assert none_by_cell(eligible, COUNT, 1e-5)  # a window would reach beyond 0
    assert none_by_cell(eligible, COUNT, 1.0)
    listed = replace(eligible, part=eligible.pool.listed(tasks(*range(500))))
    assert none_by_cell(listed, COUNT, target)
    few = pool_by_profile([0, 1, 1])
    monkeypatch.setattr(cells, "FEWEST_PROFILES", 3)
    assert none_by_cell(eligible_of(few, belief_after(few, 0, belief="bots")), 1, target)
    monkeypatch.setattr(by_cell, "MOST_LOOKED_AT", 1e-3)
    assert none_by_cell(eligible, COUNT, target)


# --- bounds ----------------------------------------------------------------------------------------------------------


@st.composite
def windows(draw):
    """A target, how far a window reaches from it, and a place in the window."""
    target = draw(st.floats(0.01, 0.99))
    reach = draw(st.floats(1e-6, 0.25)) * min(target, 1 - target)
    return target, reach, target + draw(st.floats(-1, 1)) * reach


@given(
    *(st.floats(-2, 13).map(np.exp) for _ in range(2)),
    *(st.floats(-1, 1) for _ in range(2)),
    st.floats(0, 0.5),
    windows(),
)
def test_a_bound_is_above_the_densities_of_a_cell_of_betas(alpha, beta, to_alpha, to_beta, near, window):
    cell_reach = near * min(alpha, beta)
    target, reach, value = window
    bound = BetaCells(betas([alpha], [beta]), np.array([cell_reach])).log_bound(target, reach)
    one = betas([alpha + to_alpha * cell_reach], [beta + to_beta * cell_reach])
    assert one.log_density(value) <= bound


def test_betas_of_too_much_evidence_have_no_bound():
    found = BetaCells(betas([MOST_EVIDENCE, 2.0], [2.0, 2.0]), np.zeros(2)).log_bound(0.5, 0.01)
    assert np.isinf(found).tolist() == [True, False]


@given(
    *(st.floats(-20, 20), st.floats(-6, 6).map(np.exp), st.floats(0, 3), st.floats(0, 0.9)),
    *(st.floats(-1, 1) for _ in range(2)),
    windows(),
)
def test_a_bound_is_above_the_densities_of_a_cell_of_logit_normals(
    location, variance, cell_reach, wider, to_location, to_variance, window
):
    target, reach, value = window
    least, largest = variance * (1 - wider), variance * (1 + wider)
    cell = LogitNormalCells(
        normals([location], [variance]), np.array([cell_reach]), np.array([least]), np.array([largest])
    )
    one = normals([location + to_location * cell_reach], [variance * (1 + to_variance * wider)])
    assert one.log_density(value) <= cell.log_bound(target, reach)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_bound_is_above_the_densities_of_all_profiles_of_a_cell(name):
    eligible, target = scenario(name)
    pool, belief = eligible.pool, eligible.belief
    found = pool.cells
    assert found is not None
    bound = belief.cell_distributions(pool, found).log_bound(target, 0.05)
    shared = belief.profile_distributions(pool).at(pool.profile_of.astype(np.int64))
    heights = [shared.log_density(value) for value in np.linspace(target - 0.05, target + 0.05, 11)]
    assert (np.max(heights, axis=0) <= bound[found.of_task]).all()
    at_middle = belief.cell_distributions(pool, found).middle.log_density(target)
    assert np.allclose(at_middle, belief.profile_distributions(pool).at(found.middles).log_density(target))


@given(st.integers(0, 2**32))
def test_the_variance_of_a_trackers_cell_covers_its_profiles(seed):
    rng = np.random.default_rng(seed)
    pool = Pool.of_tasks(rates_at_random(60, seed=seed))
    belief = belief_after(pool, 0, belief="tracker")
    assert isinstance(belief, TrackerBelief)
    root = rng.normal(0, 1, belief.effects.covariance.shape)
    effects = replace(belief.effects, mean=rng.normal(0, 2, len(root)), covariance=root @ root.T)
    belief, found = replace(belief, effects=effects), pool.cells
    assert found is not None
    cell, shared = belief.cell_distributions(pool, found), belief.profile_distributions(pool)
    assert (np.abs(shared.location - cell.middle.location[found.of_task]) <= cell.reach[found.of_task] + 1e-12).all()
    assert (cell.least[found.of_task] <= shared.variance * (1 + 1e-12)).all()
    assert (shared.variance <= cell.largest[found.of_task] * (1 + 1e-12)).all()
