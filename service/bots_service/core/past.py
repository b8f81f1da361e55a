"""What the last closed steps booked: enough to let late evidence enter with the weight that it has by now."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Floats, frozen
from bots_service.core.interpolation import with_implied

REMEMBERED = 64  # steps; evidence later than that counts for nothing, and the answer says so


@dataclass(frozen=True, slots=True)
class Past:
    """The newest closed steps, oldest first, at most 64.

    capability: [S] c after each step; NaN where there was none yet.
    booked: [S] rho m, what each step booked for every task by its implied rate.
    kept: [S] 1 - lambda of each step.
    """

    capability: Floats
    booked: Floats
    kept: Floats

    @staticmethod
    def empty() -> "Past":
        """Return the past of a run that closed no step."""
        nothing = frozen(np.empty(0))
        return Past(nothing, nothing, nothing)

    def __len__(self) -> int:
        return len(self.capability)

    def then(self, capability: float | None, booked: float, kept: float) -> "Past":
        """Return the past with one more closed step."""
        return Past(
            _then(self.capability, np.nan if capability is None else capability),
            _then(self.booked, booked),
            _then(self.kept, kept),
        )

    def at(self, lag: int) -> tuple[float | None, float, float]:
        """Return c and rho m of the step that closed `lag` steps ago, and the share kept of it until now.

        Lag 1 is the newest closed step; nothing of it is forgotten yet.
        """
        capability = float(self.capability[-lag])
        kept_since = 1.0
        for kept in self.kept[len(self) - lag + 1 :].tolist():
            kept_since *= kept
        return (None if np.isnan(capability) else capability), float(self.booked[-lag]), kept_since

    def implied(self, references: Floats) -> NDArray[np.float64]:
        """Return [2, G] the implied counts that these steps leave in profiles that were not there yet.

        Args:
            references: [G, M] pass rates of the new profiles.
        """
        counts = np.zeros((2, len(references)))
        for capability, booked, kept in zip(self.capability.tolist(), self.booked, self.kept, strict=True):
            known = None if math.isnan(capability) else capability
            counts = with_implied(counts, references, known, booked, kept=kept)
        return counts


def _then(values: Floats, newest: float) -> Floats:
    kept = values[max(len(values) + 1 - REMEMBERED, 0) :]
    grown = np.empty(len(kept) + 1)
    grown[:-1] = kept
    grown[-1] = newest
    return frozen(grown)
