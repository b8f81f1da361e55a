"""Differences of two beliefs' errors on the same steps, with intervals that allow for steps being alike.

Neighbouring steps are correlated: a belief that is wrong about some tasks stays wrong for a while. Batch means allow
for that: the steps are cut into blocks of consecutive ones, and Student's t is taken over the blocks' means, which are
nearly independent where a block is much longer than the correlation (Schmeiser 1982, "Batch size effects in the
analysis of simulation output", Operations Research 30(3), who advises 10 to 30 blocks).
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from bots_service.core.arrays import Floats

BLOCKS = 10  # the fewest that are advised: blocks are then as long as they can be
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Difference:
    """How much larger one error is than another: the mean over rollouts, and its interval of 95 %."""

    mean: float
    low: float
    high: float

    @property
    def is_lower(self) -> bool:
        """Whether it is certain that the error is smaller."""
        return self.high < 0.0

    @property
    def is_higher(self) -> bool:
        """Whether it is certain that the error is larger."""
        return self.low > 0.0


def difference(errors: Floats, others: Floats, weights: Floats) -> Difference:
    """Return how much larger the errors are than the others.

    Args:
        errors, others: [T] means over the rollouts of each step, T >= BLOCKS.
        weights: [T] its rollouts.

    Raises:
        ValueError: there are fewer steps than blocks.
    """
    if len(weights) < BLOCKS:
        raise ValueError(f"{len(weights)} steps make no {BLOCKS} blocks")
    starts = np.arange(BLOCKS) * len(weights) // BLOCKS
    total = np.add.reduceat(weights * (errors - others), starts)
    rollouts = np.add.reduceat(weights, starts)
    mean = float(total.sum() / rollouts.sum())
    # Of a ratio of sums over blocks: blocks with more rollouts count more.
    spread = float(((total - mean * rollouts) ** 2).sum()) * BLOCKS / (BLOCKS - 1)
    half = float(stdtrit(BLOCKS - 1, (1 + CONFIDENCE) / 2)) * math.sqrt(spread) / float(rollouts.sum())
    return Difference(mean, mean - half, mean + half)


def weighted_mean(errors: Floats, weights: Floats) -> float:
    """Return the mean of the errors [T] by their weights [T]."""
    return float((errors * weights).sum() / weights.sum())
