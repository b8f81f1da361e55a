"""Capability: where the model in training stands along its references, by least squares and by the paper's quotient."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.belief.bots import LEAST_GAP, NO_CAPABILITY, TINY, Capability, quotient

sixteenths = st.integers(0, 16).map(lambda k: k / 16)
batches = st.integers(2, 5).flatmap(
    lambda models: st.lists(st.tuples(st.tuples(*[sixteenths] * models), sixteenths), min_size=1, max_size=6)
)


def references(*rows):
    return np.array(rows, np.float64).reshape(len(rows), -1)


def fitted(*batches, momentum=0.9, rule: Any = "least_squares") -> Capability:
    """The estimate after some batches, each a list of (references, pass rate)."""
    estimate = NO_CAPABILITY
    for batch in batches:
        rows, rates = zip(*batch, strict=True)
        estimate = estimate.after(references(*rows), np.array(rates), rule=rule, momentum=momentum)
    return estimate


def place_of(*batches, momentum=0.9) -> float:
    """c by least squares."""
    place = fitted(*batches, momentum=momentum).value
    assert place is not None
    return place


def along(row, place):
    """The pass rate at a place along the references, not clipped."""
    row = [0.0, *row] if len(row) == 1 else row
    below = min(max(math.floor(place), 0), len(row) - 2)
    return row[below] + (place - below) * (row[below + 1] - row[below])


def cost(batches, place, *, momentum, models):
    """What least squares minimises."""
    total = (place - (models - 1) / 2) ** 2
    for age, batch in enumerate(reversed(batches)):
        total += momentum**age * sum((rate - along(row, place)) ** 2 for row, rate in batch)
    return total


# --- least squares ---------------------------------------------------------------------------------------------------


def test_two_references_give_the_formula_of_the_design():
    first = [((0.25, 0.75), 0.5), ((0.0, 1.0), 0.25)]
    second = [((0.5, 0.75), 1.0)]
    squares = 0.9 * (0.5**2 + 1.0**2) + 0.25**2
    products = 0.9 * (0.5 * (0.5 - 0.25) + 1.0 * (0.25 - 0.0)) + 0.25 * (1.0 - 0.5)
    assert fitted(first, second).value == pytest.approx((products + 0.5) / (squares + 1), rel=1e-12)


@given(st.lists(batches, min_size=1, max_size=3), st.sampled_from([0.0, 0.5, 0.9, 1.0]))
def test_no_place_on_a_grid_fits_better(found, momentum):
    models = len(found[0][0][0])
    found = [[(row, rate) for row, rate in batch if len(row) == models] for batch in found]
    found = [batch for batch in found if batch]
    place = place_of(*found, momentum=momentum)
    least = cost(found, place, momentum=momentum, models=models)
    for tried in np.linspace(-3, models + 2, 241):
        assert least <= cost(found, tried, momentum=momentum, models=models) + 1e-9


@given(st.lists(st.tuples(sixteenths, sixteenths), min_size=1, max_size=8), st.floats(-0.5, 1.5), st.integers(1, 40))
def test_a_model_that_stands_at_one_place_is_found_the_surer_the_more_was_seen(rows, truth, times):
    batch = [(row, along(row, truth)) for row in rows]
    told = times * sum((strong - weak) ** 2 for weak, strong in rows)
    # The error is that of one middling observation among all: |truth - 1/2| / (S + 1).
    assert abs(place_of(*[batch] * times, momentum=1.0) - truth) <= abs(truth - 0.5) / (told + 1) + 1e-9


@given(batches.filter(lambda batch: len(batch[0][0]) > 2), st.data())
def test_along_more_than_two_references_the_pass_rates_at_its_place_come_near_those_that_came(batch, data):
    models = len(batch[0][0])
    truth = data.draw(st.floats(-0.5, models - 0.5))
    exact = [(row, along(row, truth)) for row, _ in batch]
    place = place_of(*[exact] * 50, momentum=1.0)
    misfit = 50 * sum((along(row, place) - along(row, truth)) ** 2 for row, _ in exact)
    assert misfit <= (truth - (models - 1) / 2) ** 2 + 1e-9


def test_without_a_difference_between_the_references_it_is_midway():
    assert fitted([((0.5, 0.5), 1.0)]).value == 0.5
    assert fitted([((0.5, 0.5, 0.5), 0.0)]).value == 1.0


@pytest.mark.parametrize("rule", ["least_squares", "paper"])
def test_tasks_without_known_references_say_nothing(rule):
    known, unknown = ((0.25, 0.75), 0.625), ((math.nan, math.nan), 1.0)
    alone = fitted([known], rule=rule)
    for other in (unknown, ((0.5, math.nan), 1.0)):
        both = fitted([known, other], rule=rule)
        assert (both.value, both.sums.tolist()) == (alone.value, alone.sums.tolist())
    assert fitted([unknown], rule=rule).value is None
    later = fitted([known], [unknown], rule=rule)
    assert (later.value, later.sums.tolist()) == (alone.value, alone.sums.tolist())


@pytest.mark.parametrize("rule", ["least_squares", "paper"])
def test_without_reference_models_or_tasks_nothing_is_estimated(rule):
    nothing = NO_CAPABILITY
    assert nothing.after(np.empty((3, 0)), np.array([0.1, 0.2, 0.3]), rule=rule, momentum=0.9) is nothing
    assert nothing.after(np.empty((0, 2)), np.empty(0), rule=rule, momentum=0.9) is nothing


@pytest.mark.parametrize("rule", ["least_squares", "paper"])
@given(strong=sixteenths.filter(bool), rate=sixteenths)
def test_one_reference_stands_above_one_that_solves_nothing(rule, strong, rate):
    assert fitted([((strong,), rate)], rule=rule).value == fitted([((0.0, strong), rate)], rule=rule).value


def test_a_run_that_goes_over_to_least_squares_uses_what_it_saw_before():
    batch = [((0.25, 0.75), 0.5), ((0.0, 1.0), 0.25)]
    rows, rates = references((0.25, 0.75), (0.0, 1.0)), np.array([0.5, 0.25])
    changed = fitted(batch, rule="paper").after(rows, rates, rule="least_squares", momentum=0.9)
    assert changed.value == fitted(batch, batch).value


# --- the paper's quotient --------------------------------------------------------------------------------------------


def test_the_papers_rule_smooths_the_quotients():
    batches = [[((0.25, 0.75), 0.5)], [((0.25, 0.75), 0.75)], [((0.5, 0.5), 1.0)]]
    first, second = 0.25 / (0.5 + TINY), 0.5 / (0.5 + TINY)
    assert fitted(*batches[:1], rule="paper").value == pytest.approx(first, rel=1e-12)
    for seen in (2, 3):  # the references agree on the third batch, which leaves c as it is
        assert fitted(*batches[:seen], rule="paper").value == pytest.approx(0.9 * first + 0.1 * second, rel=1e-12)
    assert fitted(batches[2], rule="paper").value is None


@given(st.lists(st.tuples(sixteenths, sixteenths, sixteenths), min_size=1, max_size=9), sixteenths)
def test_the_quotient_finds_the_place_where_the_mean_pass_rate_lies(rows, rate):
    batch = references(*map(sorted, rows))
    capability = quotient(batch, np.full(len(batch), rate))
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
        assert quotient(batch, np.array([rate])) == pytest.approx(wanted, rel=1e-4)


def test_references_that_agree_on_a_batch_give_no_quotient():
    rate = np.array([0.5])
    for weak, strong in ((TINY, 0.0), (1.0, 1.0), (0.5, 0.5 + LEAST_GAP / 2), (0.5, 0.5 - LEAST_GAP / 2)):
        assert quotient(references((weak, strong)), rate) is None
    assert quotient(references((0.25, 0.25 + 2 * LEAST_GAP)), rate) is not None
