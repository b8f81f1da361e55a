"""Implied success probabilities and capability, for any number of reference models."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.interpolation import (
    BLOCK,
    LEAST_GAP,
    TINY,
    estimate_capability,
    implied_counts,
    implied_rates,
    with_implied,
)

sixteenths = st.integers(0, 16).map(lambda k: k / 16)


def references(*rows):
    return np.array(rows, np.float64).reshape(len(rows), -1)


def test_without_reference_models_nothing_is_implied():
    none = np.empty((3, 0))
    assert np.isnan(implied_rates(none, 0.5)).all()
    assert estimate_capability(none, np.array([0.1, 0.2, 0.3])) is None


@given(sixteenths, st.floats(-3, 3))
def test_one_reference_model_stands_above_one_that_solves_nothing(strong, capability):
    assert implied_rates(references(strong), capability) == implied_rates(references((0.0, strong)), capability)
    rates = np.array([0.5])
    assert estimate_capability(references(strong), rates) == estimate_capability(references((0.0, strong)), rates)


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


@given(st.lists(st.tuples(sixteenths, sixteenths, sixteenths), min_size=1, max_size=9), sixteenths)
def test_capability_finds_the_place_where_the_mean_pass_rate_lies(rows, rate):
    batch = references(*map(sorted, rows))
    capability = estimate_capability(batch, np.full(len(batch), rate))
    weakest, middle, strongest = means = batch.mean(axis=0)
    below = 1 if middle <= rate else 0
    gap = means[below + 1] - means[below] + TINY
    assert (capability is None) == (gap < LEAST_GAP)
    if capability is None:
        return
    assert capability == pytest.approx(below + (rate - means[below]) / gap, rel=1e-9, abs=1e-9)
    assert (capability < 0) == (rate < weakest)
    assert capability <= 2 or rate > strongest


def test_reference_means_out_of_order_still_find_a_place():
    batch = references((0.5, 0.3, 0.7))
    for rate, wanted in ((0.1, 2.0), (0.4, 0.5), (0.6, 1.75), (0.9, 2.5)):
        assert estimate_capability(batch, np.array([rate])) == pytest.approx(wanted, rel=1e-4)


def test_tasks_with_unknown_references_say_nothing_about_capability():
    known, unknown = (0.25, 0.75), (math.nan, math.nan)
    alone = estimate_capability(references(known), np.array([0.5]))
    assert estimate_capability(references(known, unknown), np.array([0.5, 1.0])) == alone
    assert estimate_capability(references(known, (0.5, math.nan)), np.array([0.5, 1.0])) == alone
    assert estimate_capability(references(unknown), np.array([0.5])) is None


def test_references_that_agree_on_a_batch_give_no_capability():
    rate = np.array([0.5])
    for weak, strong in ((TINY, 0.0), (1.0, 1.0), (0.5, 0.5 + LEAST_GAP / 2), (0.5, 0.5 - LEAST_GAP / 2)):
        assert estimate_capability(references((weak, strong)), rate) is None
    assert estimate_capability(references((0.25, 0.25 + 2 * LEAST_GAP)), rate) is not None


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
