"""How many groups of a selection will be effective: what the belief says, corrected by how its forecasts did so far.

P(effective) of single tasks is neither exactly calibrated nor independent: the belief of all tasks is a little behind a
model that learns, and rewards other than 0 and 1 differ more often. Both show in how many groups of each closed step
were effective, compared with how many the belief before it expected.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from bots_service.core.arrays import Floats, ordered_sum
from bots_service.core.belief.protocol import Distributions
from bots_service.core.checks import as_number
from bots_service.core.draw.budget import chances_of
from bots_service.core.evidence import Evidence

KEPT = 0.8  # share of the earlier groups that each step keeps: on reasoning gym 0.9 errs by 6.3 groups, 0.8 by 5.3
KEPT_ERRORS = 0.97  # and of the earlier errors: about the last 33
FLOOR = 0.5  # groups added to both sides of a fraction: no division by 0 where hardly any are expected
LEAST_SPREAD = 0.05  # however exact all recent forecasts were
LEAST_VARIANCE = 0.25  # of independent groups: one that surprises must not make all forecasts wide
LARGEST_GROUP = 256  # rollouts; of larger groups the forecast takes so many


@dataclass(frozen=True, slots=True)
class Sums:
    """How many groups of selections will be effective, if they were independent: [c] or one.

    mean: sums of the groups' chances; variance: sums of chance * (1 - chance).
    """

    mean: Floats | float
    variance: Floats | float

    @classmethod
    def of(cls, chances: Floats) -> "Sums":
        """Return the sums of one selection; chances: [n]."""
        return cls(ordered_sum(chances), ordered_sum(chances * (1 - chances)))


@dataclass(frozen=True, slots=True)
class Forecasts:
    """How the forecasts of closed steps did: sums, of which each step keeps a share, so that recent steps count.

    groups: how many there were.
    expected: effective groups that the belief expected before each step.
    variance: of their number, if groups were independent.
    effective: how many there were.
    surprise: squared errors of the corrected forecasts, each as a multiple of its step's variance.
    steps: how many there were.
    """

    groups: float
    expected: float
    variance: float
    effective: float
    surprise: float
    steps: float

    @property
    def spread(self) -> float:
        """How much wider errors are than those of independent groups, as a ratio of variances."""
        return max(self.surprise / self.steps, LEAST_SPREAD)

    @property
    def doubt(self) -> float:
        """Variance of the factor itself, if groups were independent."""
        return self.variance / (self.expected + FLOOR) ** 2

    def corrected(self, chances: Floats) -> Floats:
        """[n] how likely each group is effective, by what the belief says ([n]) and by how it did.

        Where fewer groups than expected were effective, all chances fall by one factor; where more were, all chances of
        the contrary do. So none leaves [0, 1], and those of the closed steps add up to what was.
        """
        if self.effective <= self.expected:
            return chances * ((self.effective + FLOOR) / (self.expected + FLOOR))
        missed, feared = self.groups - self.effective, self.groups - self.expected
        return 1 - (1 - chances) * ((missed + FLOOR) / (feared + FLOOR))

    def reached(self, wanted: int, sums: Sums) -> Floats:
        """[c] how likely so many groups will be effective.

        By the normal distribution of the sum, with a continuity correction.

        Args:
            wanted: effective groups.
            sums: [c] of the selections' corrected chances.
        """
        width = np.sqrt(self.spread * self._variance(sums))
        return np.asarray(ndtr((sums.mean + 0.5 - wanted) / width), np.float64)

    def _variance(self, sums: Sums) -> Floats:
        """[c] variance of how many groups will be effective, if they were independent."""
        return np.asarray(np.maximum(sums.variance, LEAST_VARIANCE) + self.doubt * sums.mean**2, np.float64)

    def with_step(self, believed: Distributions, evidence: Evidence) -> "Forecasts":
        """Return the sums with one more closed step, the same bits on every machine.

        Args:
            believed: [n] of its tasks, before it.
            evidence: [n] each task once.
        """
        if not len(evidence):
            return self
        trials = np.rint(evidence.successes + evidence.failures)
        np.minimum(np.maximum(trials, 1.0, out=trials), LARGEST_GROUP, out=trials)
        chances = chances_of(believed.gains(max(int(trials.max()), 2)), trials.astype(np.int32))
        effective = float(np.count_nonzero(evidence.effective))
        sums, plain = Sums.of(self.corrected(chances)), Sums.of(chances)
        surprise = (effective - float(sums.mean)) ** 2 / float(self._variance(sums))
        return Forecasts(
            groups=KEPT * self.groups + len(evidence),
            expected=KEPT * self.expected + float(plain.mean),
            variance=KEPT * self.variance + float(plain.variance),
            effective=KEPT * self.effective + effective,
            surprise=KEPT_ERRORS * self.surprise + surprise,
            steps=KEPT_ERRORS * self.steps + 1.0,
        )

    def encoded(self) -> list[float]:
        """Return plain values."""
        return [self.groups, self.expected, self.variance, self.effective, self.surprise, self.steps]

    @classmethod
    def decoded(cls, values: list[Any]) -> "Forecasts":
        """Return what was encoded.

        Raises:
            TypeError, ValueError: these are no such values.
        """
        groups, expected, variance, effective, surprise, steps = map(as_number, values)
        return cls(groups, expected, variance, effective, surprise, steps)


# Before the first step: as if 8 of 16 groups had been expected and effective, the factor being known to about 0.4, and
# as if five steps had erred as much as independent groups do. All of it fades as the sums do.
NO_FORECASTS = Forecasts(groups=16.0, expected=8.0, variance=10.0, effective=8.0, surprise=5.0, steps=5.0)
