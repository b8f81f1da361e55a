"""How many tasks are enough for so many effective groups."""

from collections.abc import Callable
from itertools import count
from math import ceil

MOST_TIMES = 8  # tasks for each wanted effective group, however few are expected to be effective
GUESSES = 4  # of the number of tasks, by how many groups are effective; then the middle is tried
TINY = 1e-9


def enough_tasks(expected: Callable[[int], float], wanted: int, limit: int) -> int:
    """Return the fewest tasks of which so many groups are expected to be effective; the limit if none are enough.

    Args:
        expected: how many effective groups to expect of a selection of so many tasks.
        wanted: effective groups, at least 1.
        limit: the most tasks, at least 1.
    """
    too_few, enough, tasks = 0, limit, min(2 * wanted, limit)
    for tries in count(1):
        if enough - too_few <= 1:
            break
        found = expected(tasks)
        if found < wanted:
            too_few = tasks
        else:
            enough = tasks
        guess = ceil(tasks * wanted / max(found, TINY)) if tries < GUESSES else (too_few + enough) // 2
        tasks = max(min(guess, enough - 1), too_few + 1)
    return enough
