"""Sampled success probabilities, and those nearest to a target."""

from dataclasses import dataclass

import numpy as np

from bots_service.core.arrays import Counts, Floats
from bots_service.core.belief.protocol import Distributions

REDRAWS = 64  # each fails with probability at most 1/2
# Distances below this count as 0: smaller ones may underflow.
TINY = 1e-300


@dataclass(frozen=True, slots=True)
class Draws:
    """Sampled success probabilities and their owners.

    values: [n] in [0, 1].
    owners: [n] the profile; for a task drawn individually, the number of profiles plus the task's index.
    """

    values: Floats
    owners: Counts

    def distances(self, target: float) -> Floats:
        """[n] distance of each value from the target, at least TINY."""
        return np.maximum(np.abs(self.values - target), TINY)

    def joined(self, other: "Draws") -> "Draws":
        """Return both concatenated."""
        return Draws(np.concatenate([self.values, other.values]), np.concatenate([self.owners, other.owners]))

    def taken(self, places: Counts) -> "Draws":
        """Return those at the given places."""
        return Draws(self.values[places], self.owners[places])


@dataclass(frozen=True, slots=True)
class SingleTasks:
    """Tasks that are drawn individually.

    owners: [n] of each draw, as in Draws.
    beliefs: [n] distributions of their success probabilities.
    """

    owners: Counts
    beliefs: Distributions

    def drawn(self, rng: np.random.Generator) -> Draws:
        """Draw for every task."""
        return Draws(self.beliefs.sample(rng), self.owners)

    def drawn_outside(self, target: float, reach: float, rng: np.random.Generator) -> Draws:
        """Draw for every task, conditional on a distance from the target of at least `reach`."""
        values = self.beliefs.sample(rng)
        for _ in range(REDRAWS):
            again = np.flatnonzero(np.abs(values - target) < reach)
            if not len(again):
                break
            values[again] = self.beliefs.at(again).sample(rng)
        return Draws(values, self.owners)


def nearest(distances: Floats, count: int, rng: np.random.Generator) -> Counts:
    """Return the indices of the `count` smallest distances, ascending; ties are broken and ordered at random.

    Args:
        count: at least 1.
    """
    chosen = np.arange(len(distances))
    if count < len(distances):
        last = np.partition(distances, count - 1)[count - 1]
        nearer, tied = np.flatnonzero(distances < last), np.flatnonzero(distances == last)
        wanted = count - len(nearer)
        chosen = np.concatenate([nearer, tied if wanted == len(tied) else rng.choice(tied, wanted, replace=False)])
    chosen = rng.permutation(chosen)
    return chosen[np.argsort(distances[chosen], kind="stable")]


def nearest_or_tied(draws: Draws, target: float, count: int) -> Draws:
    """Return the `count` nearest draws, and all that tie with the last of them."""
    if len(draws.values) <= count:
        return draws
    distances = draws.distances(target)
    return draws.taken(np.flatnonzero(distances <= np.partition(distances, count - 1)[count - 1]))
