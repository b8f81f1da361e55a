"""Uniform sampling from the trainer's own ids, for when the service is away."""

import random
from collections.abc import Collection, Sequence

TASKS_PER_GROUP = 2  # for each wanted effective group: about half of uniformly sampled groups are effective


class Deck:
    """Deals the positions 0 to size - 1 in random order, each once before any repeats.

    Time and memory grow with the number dealt, not with the size: the shuffle (Fisher and Yates; Durstenfeld 1964) is
    lazy, and stores only the positions that it moved.
    """

    def __init__(self, size: int, seed: str) -> None:
        self._size = size
        self._random = random.Random(seed)  # noqa: S311 - not a secret
        self._moved: dict[int, int] = {}
        self._dealt = 0

    def deal(self) -> int:
        """Return the next position."""
        if self._dealt == self._size:
            self._moved, self._dealt = {}, 0
        chosen = self._random.randrange(self._dealt, self._size)
        place = self._moved.pop(chosen, chosen)
        if chosen != self._dealt:
            self._moved[chosen] = self._moved.pop(self._dealt, self._dealt)
        self._dealt += 1
        return place


class LocalPool:
    """The trainer's own task ids, with a deck to sample from them.

    Args:
        ids: in the trainer's order.
        seed: of the deck; the same ids and seed give the same order.

    Raises:
        ValueError: ids is empty.
    """

    def __init__(self, ids: Sequence[str], seed: str) -> None:
        if not ids:  # fail at the first call, not hours later when the service goes away
            raise ValueError("ids is empty; pass the ids of all tasks that the trainer has")
        self.ids = ids
        self._known: frozenset[str] | None = None
        self._deck = Deck(len(ids), seed)

    def unknown(self, ids: Sequence[str]) -> list[str]:
        """Return the ids that the trainer does not have."""
        if self._known is None:
            self._known = frozenset(self.ids)
        return [task for task in ids if task not in self._known]

    def choose(self, count: int, exclude: Collection[str] = ()) -> list[str]:
        """Return a uniform sample of ids, without repeats as long as enough ids are left.

        Args:
            count: number of ids; more than the pool's size repeats some.
            exclude: ids to leave out, unless no others are left.
        """
        chosen: list[str] = []
        excluded = frozenset(exclude)
        unwanted = set(excluded)
        for _ in range(2 * len(self.ids)):  # two passes over the deck see every id
            if len(chosen) == count:
                return chosen
            task = self.ids[self._deck.deal()]
            if task not in unwanted:
                chosen.append(task)
                unwanted.add(task)
        wanted = [task for task in self.ids if task not in excluded] or self.ids
        return chosen + [wanted[place % len(wanted)] for place in range(count - len(chosen))]
