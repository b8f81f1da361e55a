"""Columns of predicted pass rates that anybody puts to a dataset: an embedding model, a probe, an earlier run.

A belief looks at each profile, and predictions tell profiles apart. So they are rounded: to 16ths, as the pass rates of
16 rollouts, or more coarsely where that would make too many profiles.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Floats, frozen
from bots_service.core.pool import Pool

MOST_COLUMNS = 4  # each adds two effects to the tracker, and splits profiles again
PARTS = (16, 8, 4, 2)  # of one, to which predictions are rounded
MOST_PROFILES = 4096  # with predictions; or twice as many as without the new ones, where those are more
UNKNOWN = 255


class PredictionsKey(NamedTuple):
    """Which predictions: their name, and the digest of their content."""

    name: str
    digest: str


@dataclass(frozen=True)
class Predictions:
    """A column of predicted pass rates, rounded.

    name: of the predictor.
    parts: predictions are whole numbers of these parts of one.
    levels: [n] those numbers, `UNKNOWN` where there is no prediction; of the first n tasks, none of later ones.
    """

    name: str
    parts: int
    levels: NDArray[np.uint8]

    @cached_property
    def digest(self) -> str:
        """A digest of the content, without the name."""
        content = hashlib.blake2b(str(self.parts).encode() + b"\0", digest_size=16)
        content.update(self.levels.tobytes())
        return content.hexdigest()

    @property
    def key(self) -> PredictionsKey:
        """What a run remembers of them."""
        return PredictionsKey(self.name, self.digest)

    @cached_property
    def known(self) -> int:
        """How many tasks they are about."""
        return int((self.levels != UNKNOWN).sum())

    @property
    def mean(self) -> float:
        """Their mean, over the tasks that they are about."""
        return float(self.levels[self.levels != UNKNOWN].mean()) / self.parts

    def rates(self, size: int) -> Floats:
        """[size] the predicted pass rates of all tasks, NaN where unknown."""
        rates = np.full(size, np.nan)
        is_known = np.flatnonzero(self.levels != UNKNOWN)
        rates[is_known] = self.levels[is_known] / self.parts
        return rates


def seen_with(pool: Pool, columns: Sequence[Predictions]) -> Pool:
    """Return the pool of a dataset as runs see it that know these predictions."""
    if not columns:
        return pool
    rates = np.column_stack([column.rates(len(pool)) for column in columns])
    return pool.with_predictions(tuple(column.name for column in columns), rates)


def rounded(name: str, rates: Floats, pool: Pool, others: Sequence[Predictions]) -> Predictions:
    """Return a predictor's pass rates, [N], NaN where unknown but for one at least, as fine as profiles allow.

    pool: without predictions; others: the other predictions that new runs see.
    """
    most = max(MOST_PROFILES, 2 * seen_with(pool, others).profiles)
    fine = (_rounded_to(parts, name, rates) for parts in PARTS[:-1])
    few = (column for column in fine if seen_with(pool, [*others, column]).profiles <= most)
    return next(few, None) or _rounded_to(PARTS[-1], name, rates)


def _rounded_to(parts: int, name: str, rates: Floats) -> Predictions:
    levels = np.where(np.isnan(rates), UNKNOWN, np.rint(rates * parts)).astype(np.uint8)
    return Predictions(name, parts, frozen(levels))
