"""Evidence from old logs: rollouts that are no part of the run that learns from them, each with its age in steps."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bots_service.core.arrays import Floats, frozen
from bots_service.core.evidence import NO_EVIDENCE, Evidence, sum_by_task
from bots_service.core.portable_math import exp, log

LARGEST_AGE = 1e6  # steps; a training run has some thousand
WHOLE_AGES = 64  # up to here a batch holds one whole age
RATIO = 1.125  # of the ages of two neighbouring batches beyond


@dataclass(frozen=True, slots=True)
class AgedEvidence:
    """Evidence of rollouts from some steps ago.

    evidence: [P] in any order; tasks may repeat.
    ages: [P] how many steps ago each piece was seen, in [0, 1e6]: 0 as if with the step that closed last.
    """

    evidence: Evidence
    ages: Floats

    def __len__(self) -> int:
        return len(self.ages)

    def batches(self) -> Iterator[tuple[float, Evidence]]:
        """Yield ages, the oldest first, with their evidence, each task once.

        Ages are rounded, so that any number of them gives at most 147 batches: to whole steps up to 64, beyond to the
        nearest of numbers that grow by an eighth, which is within 6.25 %.
        """
        places = _EDGES.searchsorted(self.ages)
        for place in np.unique(places)[::-1].tolist():
            yield float(_AGES[place]), sum_by_task(self.evidence.where(places == place))


NO_PAST = AgedEvidence(NO_EVIDENCE, frozen(np.empty(0)))


def _rounded_ages() -> Floats:
    ages = [float(age) for age in range(WHOLE_AGES + 1)]
    while ages[-1] < LARGEST_AGE:
        ages.append(ages[-1] * RATIO)
    return frozen(np.array(ages))


_AGES = _rounded_ages()
_EDGES = frozen((_AGES[:-1] + _AGES[1:]) / 2)


def shares_kept(kept: float, ages: Floats) -> Floats:
    """[n] kept^age: which share is left of evidence of each age, if a step keeps this share; the same bits everywhere.

    Args:
        kept: in [0, 1].
        ages: [n] in steps, each at least 0.
    """
    if kept == 0.0:
        return np.where(ages == 0.0, 1.0, 0.0)
    return exp(ages * float(log(np.array([kept]))[0]))
