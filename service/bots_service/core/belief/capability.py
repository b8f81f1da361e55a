"""Implicit evidence: the capability c of the model in training, and pass rates interpolated between references."""

import math
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Floats, frozen, ordered_sum
from bots_service.core.portable_math import summed_rows
from bots_service.core.run_settings import CapabilityRule

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
    return rates.clip(0.0, 1.0, out=rates)


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
    if np.count_nonzero(unknown):
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


# Keeps the paper's quotient finite where both references agree on the batch; the reference implementation's value.
TINY = 1e-6
# References whose means are closer than this say nothing to the quotient: it would be a thousand times the noise.
LEAST_GAP = 1e-3


@dataclass(frozen=True, slots=True)
class Capability:
    """An estimate of c.

    value: c; None before the first batch that has a task whose references are all known.
    sums: [2, P] what least squares remembers of each of the P pairs of neighbouring references, weakest first:
        S, the sum of d^2, and T, the sum of d (y - w), over the tasks of all batches, fading by the momentum at each;
        w and r = w + d are a task's pass rates by the two references, y is what the model in training reached.
        P is 0 before the first such batch.
    """

    value: float | None
    sums: NDArray[np.float64]

    def after(self, references: Floats, pass_rates: Floats, *, rule: CapabilityRule, momentum: float) -> "Capability":
        """Return the estimate after one more batch.

        Args:
            references: [B, M] pass rates of the reference models on the batch's tasks; rows with NaN say nothing.
            pass_rates: [B] y, what the model in training reached on them.
            rule: how c is found. Both rules keep the sums, so that a run can go from one to the other.
            momentum: gamma, the share that a batch leaves of what was remembered.
        """
        references, pass_rates = _of_known(references, pass_rates)
        if len(references) == 0:
            return self
        sums = _batch_sums(references, pass_rates)
        if self.sums.shape[1]:
            sums += momentum * self.sums
        if rule == "least_squares":
            value: float | None = least_squares(sums)
        else:
            value = smoothed(self.value, quotient(references, pass_rates), momentum)
        return Capability(value, frozen(sums))


def _of_known(references: Floats, pass_rates: Floats) -> tuple[Floats, Floats]:
    """Return the rows whose references are all known, [n, M >= 2], with their pass rates; none if there are no models.

    One reference is the strong one; the weak one solves nothing.
    """
    if references.shape[1] == 0:
        return references[:0], pass_rates[:0]
    if np.count_nonzero(unknown := np.isnan(references)):
        known = ~unknown.any(axis=1)
        references, pass_rates = references[known], pass_rates[known]
    if references.shape[1] == 1:
        references = np.concatenate([np.zeros_like(references), references], axis=1)
    return references, pass_rates


NO_CAPABILITY = Capability(None, frozen(np.zeros((2, 0))))


def _batch_sums(references: Floats, pass_rates: Floats) -> NDArray[np.float64]:
    """Return S and T of one batch, [2, M - 1]."""
    rates = references.T
    parts = np.empty((2, len(rates) - 1, len(references)))  # of each task: d, then d * d, and y - w, then d * (y - w)
    gaps, excess = np.subtract(rates[1:], rates[:-1], out=parts[0]), np.subtract(pass_rates, rates[:-1], out=parts[1])
    excess *= gaps
    gaps *= gaps
    return summed_rows(parts).copy()


def least_squares(sums: NDArray[np.float64]) -> float:
    """Return the c that minimises the sum of (y - q(c))^2, plus (c - (M - 1) / 2)^2.

    q is linear between neighbouring references, so the sum is a parabola in each of the P segments, and S and T tell
    its shape and how far it starts above the one before. The last term stands for no data: without it, c of batches on
    which the references agree would be noise divided by nothing. With two references this is c = (T + 1/2) / (S + 1).

    Args:
        sums: [2, P] S and T of each segment, P >= 1.
    """
    segments = sums.shape[1]
    middle = segments / 2
    best: float = middle
    least, start = math.inf, 0.0
    pairs: list[tuple[float, float]] = sums.T.tolist()
    for below, (squares, products) in enumerate(pairs):
        share = (products + middle - below) / (squares + 1.0)
        # Only the outermost segments extend beyond their ends.
        share = max(share, 0.0) if below else share
        share = min(share, 1.0) if below < segments - 1 else share
        cost = start + share * (share * squares - 2.0 * products) + (below + share - middle) ** 2
        if cost < least:
            best, least = below + share, cost
        start += squares - 2.0 * products
    return best


def quotient(references: Floats, pass_rates: Floats) -> float | None:
    """Return the paper's c_hat: where the batch's mean pass rate lies among the references' means on the same tasks.

    c_hat = (mean(y) - mean(w)) / (mean(r) - mean(w) + 1e-6), BOTS (arXiv:2510.26374); of more than two references,
    w and r are the neighbours between whose means mean(y) lies.

    Args:
        references: [B, M] pass rates of M >= 2 reference models on the batch's tasks, all known.
        pass_rates: [B] y, what the model in training reached.

    Returns:
        None where the references agree on the batch.
    """
    means = [_mean(column) for column in references.T]
    reached = _mean(pass_rates)
    # The running maximum orders the means for the search; the quotient keeps the means themselves.
    rising = list(accumulate(means, max))
    below = min(max(bisect_right(rising, reached) - 1, 0), len(means) - 2)
    gap = means[below + 1] - means[below] + TINY
    if abs(gap) < LEAST_GAP:
        return None
    return below + (reached - means[below]) / gap


def smoothed(value: float | None, hint: float | None, momentum: float) -> float | None:
    """Return the paper's c: the first c_hat as it is, then gamma c + (1 - gamma) c_hat; without a hint, c stays."""
    if value is None or hint is None:
        return hint if value is None else value
    return momentum * value + (1.0 - momentum) * hint


def _mean(values: Floats) -> float:
    return ordered_sum(values) / len(values)
