"""Arithmetic that gives the same bits on every machine.

numpy's exp and log, its sums and its matrix products round differently with AVX-512, AVX2 or neither. A fold may not:
two processes that fold one journal must get the same bytes. So here stand only + - * / and exact steps, which IEEE 754
rounds in one way, in an order that is written down. Each function costs some twenty calls of numpy; that is its price.
"""

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Floats

LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # ln 2; the first ends in 21 zero bits
LARGEST_EXPONENT = 700.0  # of e; beyond it lies infinity
HALF_ROOT = 0.7071067811865476  # sqrt(1/2)


def exp(x: Floats) -> Floats:
    """Return e^x to 1e-15, relative; x beyond +-700 counts as +-700.

    With x = k ln 2 + r, |r| <= ln 2 / 2, this is 2^k e^r, and e^r is the Pade approximant [6/6] at r: right to 2e-19.
    """
    x = np.minimum(np.maximum(x, -LARGEST_EXPONENT), LARGEST_EXPONENT)
    powers = np.rint(x * LOG2_E)
    x -= powers * LN2_HIGH
    x -= powers * LN2_LOW
    square = x * x
    even = square + 840.0
    even *= square
    even += 75_600.0
    even *= square
    even += 665_280.0
    odd = square * 42.0
    odd += 10_080.0
    odd *= square
    odd += 332_640.0
    odd *= x
    even -= odd
    odd += odd
    odd /= even
    odd += 1.0
    return np.asarray(np.ldexp(odd, powers.astype(np.int32)), np.float64)


def log(x: Floats) -> Floats:
    """Return ln x to 1e-15, relative to the larger of it and 1; x > 0 and normal.

    With x = 2^k m, m in [sqrt(1/2), sqrt(2)), this is k ln 2 + 2 artanh(s), s = (m - 1) / (m + 1), by Taylor's series.
    """
    mantissas, powers = np.frexp(x)
    is_low = mantissas < HALF_ROOT
    mantissas = mantissas + mantissas * is_low
    exponents = (powers - is_low).astype(np.float64)
    s = (mantissas - 1.0) / (mantissas + 1.0)
    square = s * s
    series = np.full_like(s, 1 / 23)
    for odd in (21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0):
        series *= square
        series += 1 / odd
    s += s
    s *= series
    s += exponents * LN2_LOW
    return np.asarray(s + exponents * LN2_HIGH, np.float64)


def sigmoid(x: Floats) -> Floats:
    """Return 1 / (1 + e^-x)."""
    p = exp(-x)
    p += 1.0
    return np.asarray(np.divide(1.0, p, out=p), np.float64)


def summed(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums over the first axis, added one after the other; zeros where it is empty."""
    total = np.zeros(x.shape[1:])
    for each in x:
        total += each
    return total


def summed_rows(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums over the last axis, added one after the other; it may not be empty."""
    return np.asarray(np.add.accumulate(x, axis=-1)[..., -1], np.float64)


def product(matrix: Floats, columns: Floats) -> Floats:
    """Return the product of [m, d] with [d, n], or with [d]."""
    if columns.ndim == 1:
        return summed((matrix * columns).T)
    return summed(matrix.T[:, :, None] * columns[:, None, :])


LEAST_PIVOT = 1e-300


def inverse(matrices: NDArray[np.float64]) -> tuple[NDArray[np.float64], Floats]:
    """Return the inverses of symmetric positive definite matrices, and the logarithms of their determinants.

    By the sweep operator (Beaton 1964): simple, symmetric, and quick for many small matrices at once.

    Args:
        matrices: [j, d, d].
    """
    swept = matrices.copy()
    size = swept.shape[-1]
    pivots = np.empty((size, len(swept)))
    for i in range(size):
        pivot = np.maximum(swept[:, i, i], LEAST_PIVOT, out=pivots[i])[:, None]
        column = swept[:, :, i] / pivot
        row = swept[:, i, :].copy()
        swept -= column[:, :, None] * row[:, None, :]
        swept[:, i, :] = row / pivot
        swept[:, :, i] = -column
        swept[:, i, i] = 1.0 / pivots[i]
    return 0.5 * (swept + swept.transpose(0, 2, 1)), summed(log(pivots))
