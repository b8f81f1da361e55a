"""A ceiling for every way of choosing: the strategy `pass`, of one that knows each task's success probability."""

import time
from collections.abc import Callable, Sequence

import numpy as np

from examples.finetune.choosers import Choice, Floats
from examples.finetune.sampling import effective_probabilities

LOOKED_EVERY = 5  # steps between two looks at the truth
LEAST_LUCK = 2.0**-54  # no division by 0


class OracleChooser:
    """Walks through the pool in random order, and takes each task with its true P(effective).

    Where a pass ends, the next begins, in another order. A pass that gave too few tasks gives the others by falling
    P(effective) / luck, as the service's `pass` does.
    """

    def __init__(self, truth: Callable[[], Floats], rollouts: int, seed: int) -> None:
        self.seconds = 0.0
        self._truth, self._rollouts, self._rng = truth, rollouts, np.random.default_rng(seed)
        self._known, self._age = truth(), 0
        self._begin_pass()

    def select(self, count: int) -> Choice:
        """Return tasks to train on."""
        began = time.perf_counter()
        if self._age == LOOKED_EVERY:
            self._known, self._age = self._truth(), 0
        self._age += 1
        places: list[int] = []
        while len(places) < count:
            places += self._walked(count - len(places), places)
        chosen = np.array(places)
        self.seconds += time.perf_counter() - began
        return Choice(places, self._known[chosen], self._chances()[chosen])

    def report(self, solved: Sequence[int], rollouts: int) -> None:
        """Do nothing: it knows the truth."""

    def believed(self) -> Floats:
        """Return each task's success probability, at most some steps old: [pool]."""
        return self._known

    def _chances(self) -> Floats:
        return effective_probabilities(self._known, self._rollouts)

    def _begin_pass(self) -> None:
        self._order, self._luck = self._rng.permutation(len(self._known)), self._rng.random(len(self._known))
        self._place = 0

    def _walked(self, wanted: int, taken: Sequence[int]) -> list[int]:
        """Return up to `wanted` tasks from here to the end of the pass; the next begins where there are too few."""
        began_here, rest = self._place == 0, self._order[self._place :]
        rest = rest[~np.isin(rest, taken)]
        chances = self._chances()
        found = rest[self._luck[rest] < chances[rest]][:wanted]
        if len(found) == wanted:
            self._place = int(np.flatnonzero(self._order == found[-1])[0]) + 1
            return [int(place) for place in found]
        if began_here:
            left = rest[self._luck[rest] >= chances[rest]]
            by_ratio = np.argsort(-chances[left] / np.maximum(self._luck[left], LEAST_LUCK), kind="stable")
            found = np.concatenate([found, left[by_ratio[: wanted - len(found)]]])
        self._begin_pass()
        return [int(place) for place in found]
