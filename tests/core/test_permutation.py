"""Keyed permutations and hashes: each item once, every order as likely as any other, anywhere at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

from bots_service.core.walks import fractions, items_at, key_of, places_of_pass, rectangle
from tests import sizes

ORDERS = sizes.size(1500, 4000)


@given(st.integers(0, 3000), st.integers(0, 2**64 - 1))
def test_each_item_stands_at_one_place(size: int, key: int) -> None:
    numbers = items_at(np.arange(places_of_pass(size)), size, key)

    assert sorted(numbers.tolist()) == list(range(places_of_pass(size)))


@given(st.integers(1, 2**31 - 1))
def test_an_order_has_few_places_without_an_item(size: int) -> None:
    rows, columns = rectangle(size)

    assert size <= rows * columns <= size + 2 * size**0.5
    assert 0 <= rows - columns <= 1


@pytest.mark.no_cover
@pytest.mark.parametrize("size", [2, 5, 12])
def test_every_order_is_as_likely_as_any_other(size: int) -> None:
    places = np.arange(places_of_pass(size))
    ends = np.zeros((size, size))
    for number in range(ORDERS):
        order = items_at(places, size, key_of("order", size, number))
        order = order[order < size]
        ends[order[0], order[-1]] += 1

    apart = ~np.eye(size, dtype=bool)
    assert ends[~apart].sum() == 0
    assert chisquare(ends[apart]).pvalue > 1e-3


def test_orders_of_two_keys_have_nothing_in_common() -> None:
    size = 10_000
    one, other = (items_at(np.arange(size), size, key_of("seed", seed)) for seed in (1, 2))

    assert abs(np.corrcoef(one, other)[0, 1]) < 4 / size**0.5
    assert abs(np.corrcoef(one[:-1], one[1:])[0, 1]) < 4 / size**0.5


def test_fractions_are_uniform_and_those_of_two_keys_independent() -> None:
    items = np.arange(20_000)
    one, other = fractions(items, key_of("u", 1)), fractions(items, key_of("u", 2))

    assert kstest(one, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(one, other)[0, 1]) < 4 / len(items) ** 0.5
    assert 0.0 <= one.min() < one.max() < 1.0
    assert fractions(items[500:501], key_of("u", 1))[0] == one[500]


def test_keys_tell_words_and_numbers_apart() -> None:
    keys = {key_of(*parts) for parts in [(1, 2), (12,), (1, "2", ""), ("", 1, 2), (2, 1), ()]}

    assert len(keys) == 6
    assert all(0 <= key < 2**64 for key in keys)
