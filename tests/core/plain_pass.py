"""The strategy `pass` in twenty lines: place by place, task by task."""

from collections.abc import Callable, Container
from typing import Any

import numpy as np

from bots_service.core.walks import fractions, items_at, key_of, places_of_pass

LEAST_CHANCE = 1 / 20  # of being taken, whatever the belief says
Place = tuple[int, int, int]  # the number of the pass, the place in it, and how many tasks it has


def plain_pass(
    chance: Callable[[int], Any], eligible: Container[int], count: int, at: Place, *, size: int, seed: int
) -> tuple[list[int], Place]:
    """Return `count` of the eligible tasks of a whole pool, and where the walk then stands.

    chance: P(effective) of a task; at: where the walk stands; size: how many tasks a pass has that begins now.
    """
    (turn, place, length), chosen = at, list[int]()

    def rate(task: int) -> float:
        return max(float(chance(task)), LEAST_CHANCE)

    while True:
        order = items_at(np.arange(places_of_pass(length)), length, key_of("order", seed, 0, turn)).tolist()
        luck = fractions(np.arange(length), key_of("luck", seed, 0, turn))
        is_whole, left = place == 0, list[int]()
        while place < len(order) and len(chosen) < count:
            task, place = order[place], place + 1
            if task < length and task in eligible and task not in chosen:
                (chosen if luck[task] < rate(task) else left).append(task)
        if len(chosen) < count and is_whole:
            left.sort(key=lambda task: -rate(task) / max(float(luck[task]), 2.0**-54))
            chosen += left[: count - len(chosen)]
        if len(chosen) == count:
            return chosen, (turn, place, length)
        turn, place, length = turn + 1, 0, size
