"""Arithmetic that gives the same bits on every machine.

numpy's exp and log, its sums and its matrix products round differently with AVX-512, AVX2 or neither. A fold may not:
two processes that fold one journal must get the same bytes. So here stand only + - * / and exact steps, which IEEE 754
rounds in one way, in an order that is written down. Each function costs some twenty calls of numpy; that is its price.
"""

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Floats, frozen


def _constants(*values: float) -> tuple[Floats, ...]:
    """Return numbers as arrays without axes: numpy takes longer for one of Python's, and a fold needs some hundred."""
    return tuple(frozen(np.array(value)) for value in values)


# ln 2 in two parts; the first ends in 21 zero bits.
LOG2_E, LN2_HIGH, LN2_LOW = _constants(1.4426950408889634, 6.93147180369123816490e-01, 1.90821492927058770002e-10)
LEAST_EXPONENT, LARGEST_EXPONENT = _constants(-700.0, 700.0)  # of e; beyond them lie 0 and infinity
ONE, TWO = _constants(1.0, 2.0)
# A double's bits are its exponent, then so many of its mantissa; those of sqrt(1/2) tell which power of two is nearest.
MANTISSA_BITS = 52
HALF_ROOT_BITS = int(np.array(0.7071067811865476).view(np.int64))
# Of the Pade approximant [6/6] of e^r: its even coefficients, then its odd ones.
EVEN, ODD = _constants(840.0, 75_600.0, 665_280.0), _constants(42.0, 10_080.0, 332_640.0)
# Of s^2, s^4 and so on in ln((1 + s) / (1 - s)) / s - 2, the last first: as fdlibm has them (Sun Microsystems, 1993),
# right to 2^-58 for |s| < 0.1716.
LOGARITHM = _constants(
    1.479819860511658591e-01,
    1.531383769920937332e-01,
    1.818357216161805012e-01,
    2.222219843214978396e-01,
    2.857142874366239149e-01,
    3.999999999940941908e-01,
    6.666666666666735130e-01,
)


def exp(x: Floats) -> Floats:
    """Return e^x to 1e-15, relative; x beyond +-700 counts as +-700.

    With x = k ln 2 + r, |r| <= ln 2 / 2, this is 2^k e^r, and e^r is the Pade approximant [6/6] at r: right to 2e-19.
    """
    x = np.maximum(x, LEAST_EXPONENT)
    np.minimum(x, LARGEST_EXPONENT, out=x)
    powers = np.rint(x * LOG2_E)
    x -= powers * LN2_HIGH
    x -= powers * LN2_LOW
    square = x * x
    even = square + EVEN[0]
    for coefficient in EVEN[1:]:
        even *= square
        even += coefficient
    odd = square * ODD[0]
    odd += ODD[1]
    odd *= square
    odd += ODD[2]
    odd *= x
    even -= odd
    odd += odd
    odd /= even
    odd += ONE
    return np.asarray(np.ldexp(odd, powers.astype(np.int32)), np.float64)


def log(x: Floats) -> Floats:
    """Return ln x to 1e-15, relative to the larger of it and 1; x > 0 and normal.

    With x = 2^k m, m in [sqrt(1/2), sqrt(2)), this is k ln 2 + 2 artanh(s), s = (m - 1) / (m + 1).
    """
    bits = x.view(np.int64)
    powers = (bits - HALF_ROOT_BITS) >> MANTISSA_BITS
    mantissas = (bits - (powers << MANTISSA_BITS)).view(np.float64)
    s = mantissas - ONE
    mantissas += ONE
    s /= mantissas
    square = s * s
    series = square * LOGARITHM[0]
    for coefficient in LOGARITHM[1:]:
        series += coefficient
        series *= square
    series += TWO
    series *= s
    exponents = powers.astype(np.float64)
    series += exponents * LN2_LOW
    exponents *= LN2_HIGH
    return np.asarray(np.add(series, exponents, out=series), np.float64)


def sigmoid(x: Floats) -> Floats:
    """Return 1 / (1 + e^-x)."""
    p = exp(-x)
    p += ONE
    return np.asarray(np.divide(ONE, p, out=p), np.float64)


SHORT_ROW = 128  # numpy adds up rows of so many numbers sooner in one call than row by row


def summed(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums over the first axis, added one after the other; zeros where it is empty."""
    if 0 < x.size <= SHORT_ROW * len(x):
        return np.asarray(np.add.accumulate(x)[-1], np.float64)
    total = np.zeros(x.shape[1:])
    for each in x:
        total += each
    return total


def summed_rows(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums over the last axis, added one after the other; it may not be empty."""
    return np.asarray(np.add.accumulate(x, axis=-1)[..., -1], np.float64)


LEAST_PIVOT = 1e-300


def inverse(matrices: NDArray[np.float64]) -> tuple[NDArray[np.float64], Floats]:
    """Return the inverses of symmetric positive definite matrices, and [d, j] numbers whose products are determinants.

    By the sweep operator (Dempster 1969; its result is the inverse, negative): simple, symmetric, and quick for many
    small matrices at once.

    Args:
        matrices: [d, d, j], side by side: numpy then takes one step of all of them together.
    """
    swept = matrices.copy()
    pivots = np.empty(swept.shape[1:])
    for i in range(len(swept)):
        pivot = np.maximum(swept[i, i], LEAST_PIVOT, out=pivots[i])
        column = swept[:, i] / pivot
        swept -= swept[:, i, None] * column
        swept[i] = column
        swept[:, i] = column
        swept[i, i] = -1.0 / pivot
    # Both halves of the matrix were rounded in their own way.
    return -0.5 * (swept + swept.transpose(1, 0, 2)), pivots
