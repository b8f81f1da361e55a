"""The spread bounds by how much implied counts of profiles differ, whatever the run's history."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core import cells
from bots_service.core.belief.bots import BotsBelief
from bots_service.core.belief.capability import implied_rates, reference_weights
from bots_service.core.belief.implied_spread import ImpliedSpread
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings
from tests.core.journals import pool_of, replay, report_of
from tests.core.pools import bots_belief

CAPABILITY = st.floats(-3, 4)


@given(st.integers(0, 4), CAPABILITY)
def test_weights_are_those_of_the_rates_before_they_are_clipped(models, capability):
    rates = np.full((models + 1, models), 0.5)
    rates[np.arange(models), np.arange(models)] += 1e-9
    found = implied_rates(rates, capability)
    moved = (found[:-1] - found[-1]) / 1e-9
    if models and 0.01 < found[-1] < 0.99:
        assert moved == pytest.approx(reference_weights(models, capability), abs=1e-4)


SMALLEST_NORMAL = np.finfo(np.float64).tiny  # numbers below it are no longer rounded by a share of themselves


def differences(belief, pool):
    """[G, G] by how much implied successes, and failures, of each two profiles differ; and of each reference."""
    implied = belief.extended(pool, pool.profiles).implied
    return (np.abs(counts[:, None] - counts) for counts in (*implied, *pool.references.T))


def assert_bounds_all_differences(belief, pool):
    successes, failures, *references = differences(belief, pool)
    spread = belief.extended(pool, pool.profiles).spread
    bound = spread.within(np.stack([each.ravel() for each in references])).reshape(successes.shape)
    assert (successes <= bound + SMALLEST_NORMAL).all()
    assert (failures <= bound + SMALLEST_NORMAL).all()


RATE = st.floats(0, 1)
STEPS = st.lists(st.tuples(st.none() | CAPABILITY, st.floats(0, 30), st.floats(0, 1)), max_size=80)


@given(st.integers(1, 3).flatmap(lambda m: st.lists(st.tuples(*[RATE] * m), min_size=2, max_size=12)), STEPS)
def test_no_two_profiles_differ_by_more(rows, steps):
    pool = pool_of(*rows)
    belief = with_steps(BotsBelief.fresh(RunSettings(), pool).extended(pool, pool.profiles), pool, steps)
    assert_bounds_all_differences(belief, pool)


def with_steps(belief, pool, steps):
    """The belief after steps of which only capability, what was booked, and the share kept are told."""
    for capability, booked, kept in steps:
        implied = belief.implied * kept
        if capability is not None:
            rates = implied_rates(pool.references[: implied.shape[1]], capability)
            implied = implied + booked * np.stack([rates, 1 - rates])
        spread = belief.spread.after(pool.models, capability, booked, kept=kept)
        belief = replace(belief, implied=implied, spread=spread, past=belief.past.then(capability, booked, kept))
    return belief


@given(STEPS, STEPS)
def test_a_profile_that_was_appended_late_lacks_no_more_than_is_missing(before, after):
    pool, longer = pool_of((0.2, 0.7), (0.4, 0.5)), pool_of((0.2, 0.7), (0.4, 0.5), (0.3, 0.6), (0.9, 1.0))
    belief = with_steps(BotsBelief.fresh(RunSettings(), pool).extended(pool, 2), pool, before)
    assert_bounds_all_differences(belief, longer)
    belief = with_steps(belief.extended(longer, 4), longer, after)
    assert_bounds_all_differences(belief, longer)


def test_a_fold_carries_the_spread_along():
    pool = pool_of((0.25, 0.75), (0.5, 0.875), (0.125, 1.0))
    settings = RunSettings(belief="bots", rollouts_per_task=8.0, implicit_weight=0.5, forgetting=0.2)
    belief = bots_belief(replay(pool, [report_of((0, 3.0, 5.0)), report_of((1, 1.0, 7.0))], settings))
    first, second = belief.past.capability.tolist()
    assert belief.spread.booked == pytest.approx(4 * (0.8 + 1))
    expected = [4 * (0.8 * abs(1 - first) + abs(1 - second)), 4 * (0.8 * abs(first) + abs(second))]
    assert belief.spread.by_reference == pytest.approx(expected)
    assert_bounds_all_differences(belief, pool)


def test_a_step_without_a_capability_only_forgets():
    spread = ImpliedSpread((1.0, 2.0), 4.0, 0.5).after(2, None, 8.0, kept=0.5)
    assert spread == ImpliedSpread((0.5, 1.0), 2.0, 0.25)
    assert spread.after(2, 1.25, 8.0, kept=0.5) == ImpliedSpread((2.25, 10.5), 9.0, 0.125)
    assert spread.within(np.array([[0.1, 1.0], [0.2, 0.0]])) == pytest.approx([0.5, 0.75])


def test_a_damaged_spread_is_refused():
    spread = ImpliedSpread((1.5, 2.0), 3.0, 0.5)
    assert ImpliedSpread.decoded(spread.encoded()) == spread
    with pytest.raises(ValueError, match="not a finite number"):
        ImpliedSpread.decoded([1.0, float("nan")])


def test_cells_of_profiles_that_were_just_appended_count_what_they_lack(monkeypatch):
    for name in ("FEWEST_PROFILES", "FEWEST_MEMBERS"):
        monkeypatch.setattr(cells, name, 1)
    pool, longer = (Pool.of_tasks(np.random.default_rng(3).random((size, 2))) for size in (40, 60))
    belief = with_steps(BotsBelief.fresh(RunSettings(), pool).extended(pool, 40), pool, [(0.5, 2.0, 1.0)] * 70)
    assert longer.cells is not None
    assert belief.spread.missing == 0
    found = belief.cell_distributions(longer, longer.cells).reach
    assert (found >= 12.0 * (1 - 1e-12)).all()  # 6 steps of 2 that are no longer remembered
    assert (belief.extended(longer, 60).cell_distributions(longer, longer.cells).reach == found).all()
