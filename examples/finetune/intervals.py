"""What a difference between arms is worth: its confidence interval, and the exact sign-flip test."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit  # scipy.stats has it too, and takes a second to import

CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over seeds with its confidence interval; low and high are NaN where one seed is all there is."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float]) -> Interval:
    """Return the mean and its interval by Student's t."""
    mean = fmean(values)
    if len(values) == 1:
        return Interval(mean, math.nan, math.nan)
    reach = float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2)) * stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - reach, mean + reach)


def sign_flip_p(values: Sequence[float]) -> float:
    """Return the two-sided p of the exact sign-flip test, of paired differences.

    If neither arm were better, each difference could as well have the other sign. The result is the share of all 2^n
    patterns of signs whose sum is at least as far from 0 as the one that was seen (Fisher, The Design of Experiments,
    1935, section 21).
    """
    half = len(values) // 2
    some, others = _sums(values[:half]), np.sort(_sums(values[half:]))  # each pattern is one of either half
    seen = abs(math.fsum(values)) - 1e-12  # sums of the same numbers in another order differ in their last bits
    below = int(others.searchsorted(-seen - some, side="right").sum())
    above = len(some) * len(others) - int(others.searchsorted(seen - some).sum())
    return min(1.0, (below + above) / 2.0 ** len(values))


def _sums(values: Sequence[float]) -> NDArray[np.float64]:
    """Return the sums of all patterns of signs."""
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums
