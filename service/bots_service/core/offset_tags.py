"""Which tags of a dataset tell profiles apart: the tracker gives each of them an offset of its own."""

from collections.abc import Mapping

import numpy as np

from bots_service.core.arrays import Counts, Tasks

MOST_OFFSET_TAGS = 16  # each makes the tracker's state and its fold larger
FEWEST_TASKS = 30  # that carry the tag: fewer hardly tell an offset from how tasks differ anyway
MOST_PROFILES = 2048  # a selection looks at each; or twice as many as without tags, where those are more


def choose_offset_tags(tags: Mapping[str, Tasks], profile_of: Tasks) -> tuple[str, ...]:
    """Return the most frequent tags that tell tasks apart, as many as keep the profiles few; the most frequent first.

    Of tags that the same tasks carry, the first by name stands for all.

    Args:
        tags: for each tag, the sorted tasks that carry it.
        profile_of: [N] the profile of each task, by reference pass rates alone.
    """
    groups, size = profile_of.astype(np.int64), int(profile_of.max(initial=-1)) + 1
    limit = max(MOST_PROFILES, 2 * size)
    chosen: list[str] = []
    for tag in _by_frequency(tags, len(profile_of)):
        if any(np.array_equal(tags[tag], tags[other]) for other in chosen):
            continue
        groups, size = _split(groups, size, tags[tag])
        if size > limit or len(chosen) == MOST_OFFSET_TAGS:
            break
        chosen.append(tag)
    return tuple(chosen)


def _by_frequency(tags: Mapping[str, Tasks], size: int) -> list[str]:
    """Return the tags that enough tasks carry, and not all of them."""
    frequent = [tag for tag, tasks in tags.items() if FEWEST_TASKS <= len(tasks) < size]
    return sorted(frequent, key=lambda tag: (-len(tags[tag]), tag))


def _split(groups: Counts, size: int, carriers: Tasks) -> tuple[Counts, int]:
    """Split each group of tasks into those that carry a tag and those that don't.

    Args:
        groups: [N] the group of each task.
        size: how many groups there are.
        carriers: the tasks that carry the tag.

    Returns:
        [N] the new groups, and how many there are.
    """
    halves = 2 * groups
    halves[carriers] += 1
    is_there = np.zeros(2 * size, bool)
    is_there[halves] = True
    numbers = np.cumsum(is_there) - 1
    return numbers[halves], int(numbers[-1]) + 1
