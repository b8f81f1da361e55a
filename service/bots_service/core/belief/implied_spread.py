"""By how much the implied counts of two profiles may differ, by their references alone.

Each step books rho m q for every profile, and q changes by at most |w_i| for each unit of reference i, where w are the
weights with which that step's capability interpolates. Sums that are forgotten as the counts are bound the difference
of whole histories, without a look at any profile.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bots_service.core.arrays import Floats
from bots_service.core.belief.capability import reference_weights
from bots_service.core.checks import as_number

ROUNDING = 1e-9  # of the booked counts; sums of steps round by far less


@dataclass(frozen=True, slots=True)
class ImpliedSpread:
    """What bounds the differences, as much as is not forgotten. Plain numbers: a fold has little to add to each.

    by_reference: for each of M references, the sum of rho m |w_i|: by how much implied successes change at most for
        each unit of it. Empty before the first step.
    booked: the sum of rho m.
    missing: the most that was booked before some profile was appended.
    """

    by_reference: tuple[float, ...] = ()
    booked: float = 0.0
    missing: float = 0.0

    def after(self, models: int, capability: float | None, booked: float, *, kept: float) -> "ImpliedSpread":
        """Return the spread one step later.

        Args:
            models: M, how many references there are.
            capability: c of that step; None where it had none, which implies nothing.
            booked: rho m of that step.
            kept: the share of earlier counts that is left.
        """
        if capability is None:
            return self.discounted(kept)
        pairs = zip(self.by_reference or (0.0,) * models, reference_weights(models, capability), strict=True)
        by_reference = tuple([kept * each + booked * abs(weight) for each, weight in pairs])
        return ImpliedSpread(by_reference, kept * self.booked + booked, kept * self.missing)

    def discounted(self, kept: float) -> "ImpliedSpread":
        """Return the spread of counts of which this share is left."""
        return ImpliedSpread(tuple(kept * each for each in self.by_reference), kept * self.booked, kept * self.missing)

    def with_appended(self, remembered: float) -> "ImpliedSpread":
        """Return the spread with profiles for which only this much was booked: what the remembered steps did."""
        return replace(self, missing=max(self.missing, self.booked - remembered))

    def within(self, reach: Floats) -> Floats:
        """[C] by how much implied successes, or failures, differ at most between profiles whose references differ so.

        Args:
            reach: [M, C] differences of references.
        """
        found = np.full(reach.shape[1], self.missing + ROUNDING * self.booked)
        for each, differences in zip(self.by_reference, reach, strict=False):
            found += each * differences
        return found

    def encoded(self) -> list[float]:
        """Return plain values. Inverse of `decoded`."""
        return [self.booked, self.missing, *self.by_reference]

    @classmethod
    def decoded(cls, values: Sequence[object]) -> "ImpliedSpread":
        """Return the spread that was encoded.

        Raises:
            TypeError, ValueError: these are no such values.
        """
        booked, missing, *by_reference = map(as_number, values)
        return cls(tuple(by_reference), booked, missing)
