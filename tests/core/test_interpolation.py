"""Implied success probabilities, for any number of reference models."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.belief.bots import BLOCK, implied_counts, implied_rates, with_implied

sixteenths = st.integers(0, 16).map(lambda k: k / 16)


def references(*rows):
    return np.array(rows, np.float64).reshape(len(rows), -1)


def test_without_reference_models_nothing_is_implied():
    assert np.isnan(implied_rates(np.empty((3, 0)), 0.5)).all()


@given(sixteenths, st.floats(-3, 3))
def test_one_reference_model_stands_above_one_that_solves_nothing(strong, capability):
    assert implied_rates(references(strong), capability) == implied_rates(references((0.0, strong)), capability)


@given(sixteenths, sixteenths, st.floats(-3, 3))
def test_two_reference_models_give_the_formula_of_the_paper(weak, strong, capability):
    wanted = min(max(weak + capability * (strong - weak), 0.0), 1.0)
    assert implied_rates(references((weak, strong)), capability).tolist() == [wanted]


@given(st.lists(sixteenths, min_size=3, max_size=6), st.data())
def test_at_its_own_place_each_reference_model_gives_its_own_rate(rates, data):
    place = data.draw(st.integers(0, len(rates) - 1))
    assert implied_rates(references(rates), float(place)).tolist() == [rates[place]]


def test_many_references_are_read_piecewise_and_beyond_their_ends():
    row = references((0.2, 0.4, 0.8))
    got = [implied_rates(row, c)[0] for c in (-0.5, 0.5, 1.5, 2.25, -9.0, 9.0)]
    assert got == pytest.approx([0.1, 0.3, 0.6, 0.9, 0.0, 1.0])


def test_what_a_step_implies_is_added_in_blocks_as_it_would_be_at_once():
    rng = np.random.default_rng(5)
    rows = rng.random((BLOCK + 3, 2))
    rows[[0, BLOCK, BLOCK + 2]] = math.nan
    before = rng.random((2, len(rows)))
    counts = with_implied(before, rows, 0.75, 1.6, kept=0.5)
    for row in (0, 1, BLOCK - 1, BLOCK, BLOCK + 1, BLOCK + 2):
        rate = rows[row, 0] + 0.75 * (rows[row, 1] - rows[row, 0])
        wanted = (0.0, 0.0) if math.isnan(rate) else (1.6 * rate, 1.6 * (1 - rate))
        np.testing.assert_allclose(counts[:, row] - 0.5 * before[:, row], wanted, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("capability", "booked"), [(None, 1.6), (0.5, 0.0)])
def test_without_capability_or_trust_a_step_implies_nothing(capability, booked):
    rows = references((0.25, 0.75))
    assert (implied_counts(rows, capability, booked) == 0).all()
    assert (with_implied(np.ones((2, 1)), rows, capability, booked, kept=0.5) == 0.5).all()
