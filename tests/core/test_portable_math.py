"""The portable arithmetic is right; that it gives the same bits everywhere is tested with whole folds."""

import functools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.portable_math import exp, inverse, log, sigmoid, summed, summed_rows

MANY = np.random.default_rng(0)


@pytest.mark.parametrize(
    "x", [MANY.normal(0, 50, 50_000), MANY.normal(0, 1e-8, 1000), MANY.uniform(-700, 700, 50_000), np.array([0.0])]
)
def test_exp_is_right_to_1e_15_relative(x):
    np.testing.assert_allclose(exp(x), np.exp(x), rtol=1e-15, atol=0)
    np.testing.assert_allclose(sigmoid(x), 1 / (1 + np.exp(-x)), rtol=2e-15, atol=0)


@pytest.mark.parametrize("x", [-1e300, -701.0, 701.0, 1e300])
def test_beyond_700_exp_stays_a_number(x):
    assert exp(np.array([x]))[0] == pytest.approx(math.exp(math.copysign(700, x)), rel=1e-15)


@pytest.mark.parametrize(
    "x", [np.exp(MANY.normal(0, 20, 50_000)), MANY.uniform(0.5, 2, 50_000), np.array([1.0, 2.2250738585072014e-308])]
)
def test_log_is_right_to_1e_15_of_the_larger_of_it_and_1(x):
    error = np.abs(log(x) - np.log(x))
    assert (error <= 1e-15 * np.maximum(np.abs(np.log(x)), 1.0)).all()


@given(st.integers(1, 20), st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_inverses_and_determinants_are_those_of_linear_algebra(size: int, count: int, seed: int):
    root = np.random.default_rng(seed).normal(size=(count, size, size))
    matrices = root @ root.transpose(0, 2, 1) + 0.1 * np.eye(size)
    inverses, pivots = inverse(np.moveaxis(matrices, 0, -1))
    inverses, log_determinants = np.moveaxis(inverses, -1, 0), np.log(pivots).sum(axis=0)
    np.testing.assert_allclose(inverses @ matrices, np.broadcast_to(np.eye(size), matrices.shape), atol=1e-10)
    np.testing.assert_array_equal(inverses, inverses.transpose(0, 2, 1))
    np.testing.assert_allclose(log_determinants, np.linalg.slogdet(matrices)[1], atol=1e-10)


@pytest.mark.parametrize("columns", [1, 32, 500])
def test_sums_are_added_one_after_the_other_however_many(columns: int):
    numbers = np.random.default_rng(3).normal(size=(15, columns))
    wanted = [functools.reduce(float.__add__, column) for column in numbers.T.tolist()]
    assert summed(numbers).tolist() == wanted
    assert summed_rows(numbers.T).tolist() == wanted


def test_nothing_summed_is_zero():
    assert summed(np.empty((0, 3))).tolist() == [0.0] * 3
