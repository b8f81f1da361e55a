"""What the batch says about the tasks that were not in it: interpolation between reference models.

The model in training stands somewhere along the line of reference models, from weakest (0) to strongest (M - 1); that
position is its capability c (see `capability`). A task's implied success probability is its reference pass rates read
off at c.
Source: BOTS, arXiv:2510.26374, interpolation estimator; two references give the paper's formula, one stands for
(0, reference), more are read piecewise linearly.
"""

import math

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Floats

BLOCK = 1 << 14  # rows read at a time: intermediate values then stay in the processor's cache


def implied_rates(references: Floats, capability: float) -> Floats:
    """Return q, the implied success probability of each row: clip(w + c * (r - w), 0, 1), [G].

    Args:
        references: [G, M] pass rates, weakest model first; a row of NaN is unknown and gives NaN.
        capability: c, the position along the references; outside [0, M - 1] it extrapolates.
    """
    models = references.shape[1]
    if models == 0:
        return np.full(len(references), np.nan)
    if models == 1:
        rates = capability * references[:, 0]
    else:
        below = int(min(max(math.floor(capability), 0), models - 2))
        weak = references[:, below]
        rates = references[:, below + 1] - weak
        rates *= capability - below
        rates += weak
    return np.clip(rates, 0.0, 1.0, out=rates)


def implied_counts(references: Floats, capability: float | None, booked: float) -> NDArray[np.float64]:
    """Return what one step implies for each row, [2, G]: rho m q successes and rho m (1 - q) failures.

    Args:
        references: [G, M] as for `implied_rates`; rows of unknown pass rates get zeros.
        capability: c of that step; None where it had none, which implies nothing.
        booked: rho m.
    """
    if capability is None or booked == 0.0:
        return np.zeros((2, len(references)))
    counts = np.empty((2, len(references)))
    np.multiply(implied_rates(references, capability), booked, out=counts[0])
    np.subtract(booked, counts[0], out=counts[1])
    unknown = np.isnan(counts[0])
    if unknown.any():
        counts[:, unknown] = 0.0
    return counts


def with_implied(
    counts: NDArray[np.float64], references: Floats, capability: float | None, booked: float, *, kept: float
) -> NDArray[np.float64]:
    """Return implied counts one step later, [2, G]: the share `kept` of what they were, and what the step implies.

    Args:
        counts: [2, G] before the step.
        references, capability, booked: of the step, as for `implied_counts`.
    """
    grown = np.empty_like(counts)
    for start in range(0, len(references), BLOCK):
        rows = slice(start, start + BLOCK)
        block = np.multiply(counts[:, rows], kept, out=grown[:, rows])
        block += implied_counts(references[rows], capability, booked)
    return grown
