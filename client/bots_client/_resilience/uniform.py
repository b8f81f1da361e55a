"""The choice of last resort: uniform, from the ids that the trainer itself has."""

import random
from collections.abc import Collection, Sequence


class Deck:
    """Places 0 to size - 1 in random order, each once before any comes again.

    It costs what is dealt, not what there is: the shuffle (Fisher and Yates; Durstenfeld 1964) goes only as far as
    it is dealt and remembers only what it moved.
    """

    def __init__(self, size: int, seed: str) -> None:
        self._size = size
        self._random = random.Random(seed)  # noqa: S311 - no secret
        self._moved: dict[int, int] = {}
        self._dealt = 0

    def deal(self) -> int:
        """Return the next place."""
        if self._dealt == self._size:
            self._moved, self._dealt = {}, 0
        chosen = self._random.randrange(self._dealt, self._size)
        place = self._moved.pop(chosen, chosen)
        if chosen != self._dealt:
            self._moved[chosen] = self._moved.pop(self._dealt, self._dealt)
        self._dealt += 1
        return place


class LocalPool:
    """The ids of a dataset as the trainer has them, and a deck of them.

    Args:
        ids: in the trainer's order.
        seed: of the deck; the same ids and seed are dealt in the same order.

    Raises:
        ValueError: there are no ids.
    """

    def __init__(self, ids: Sequence[str], seed: str) -> None:
        if not ids:  # said while the service is there, not hours later when it is away
            raise ValueError("ids is empty; pass the ids of all tasks that the trainer has")
        self.ids = ids
        self._known: frozenset[str] | None = None
        self._deck = Deck(len(ids), seed)

    def unknown(self, ids: Sequence[str]) -> list[str]:
        """Return those that the trainer does not have."""
        if self._known is None:
            self._known = frozenset(self.ids)
        return [task for task in ids if task not in self._known]

    def choose(self, count: int, exclude: Collection[str] = ()) -> list[str]:
        """Return ids drawn uniformly, none twice while others are left.

        Args:
            count: how many; more than there are repeats some.
            exclude: not these, unless there are no others.
        """
        chosen: list[str] = []
        excluded = frozenset(exclude)
        unwanted = set(excluded)
        for _ in range(2 * len(self.ids)):  # twice through the deck has seen all
            if len(chosen) == count:
                return chosen
            task = self.ids[self._deck.deal()]
            if task not in unwanted:
                chosen.append(task)
                unwanted.add(task)
        wanted = [task for task in self.ids if task not in excluded] or self.ids
        return chosen + [wanted[place % len(wanted)] for place in range(count - len(chosen))]
