"""Uniform sampling from the trainer's own ids, for when the service is away."""

import random
from collections.abc import Collection, Sequence
from dataclasses import replace

from bots_client._models import Selection
from bots_client._wishes import EffectiveGroups, RolloutsBudget, budget_of, groups_of

TASKS_PER_GROUP = 2  # without a forecast: about half of uniformly sampled groups are effective


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


def count_without_service(count: int | None, want_effective: int | EffectiveGroups | None) -> int:
    """Return how many tasks to sample while nobody can forecast effective groups."""
    wish = groups_of(want_effective)
    if wish is None:
        return count or 0
    wanted = TASKS_PER_GROUP * wish.groups
    return wanted if wish.max_count is None else min(wanted, wish.max_count)


def with_equal_rollouts(selection: Selection, rollouts_budget: int | RolloutsBudget | None) -> Selection:
    """Return a local selection with the same number of rollouts for each task; the first tasks have the remainder."""
    budget = budget_of(rollouts_budget)
    if budget is None:
        return selection
    each, more = divmod(budget.total, len(selection.tasks))
    tasks = (replace(task, rollouts=each + (place < more)) for place, task in enumerate(selection.tasks))
    return replace(selection, tasks=tuple(tasks))
