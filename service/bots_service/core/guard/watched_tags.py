"""The tags that the guard watches, and which tasks carry each, as bits of a number."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Flags, Tasks, frozen

MOST_WATCHED = 128  # tags; they take 8 bytes a task for each 64
ROW = 64  # bits of a number


@dataclass(frozen=True, slots=True)
class WatchedTags:
    """Some of a pool's tags.

    names: [T] of the tags. numbers: their places among them.
    carried: rows of [N], bits of each task: bit b of row k is set where it carries tag 64 k + b.
    """

    names: tuple[str, ...]
    numbers: Mapping[str, int]
    carried: tuple[NDArray[np.uint64], ...]

    def bits_of(self, tasks: Tasks) -> list[int]:
        """[n] the bits of all tags that each task carries."""
        found = [0] * len(tasks)
        for row, carried in enumerate(self.carried):
            bits = carried.take(tasks).tolist()
            found = [one | other << ROW * row for one, other in zip(found, bits, strict=True)] if row else bits
        return found

    def bit_of(self, tag: str) -> int:
        """Return the number whose one bit stands for a tag; 0 for one that is not watched."""
        return 1 << self.numbers[tag] if tag in self.numbers else 0

    def named(self, bits: int) -> Iterator[str]:
        """Yield the tags whose bits are set."""
        while bits:
            least = bits & -bits
            yield self.names[least.bit_length() - 1]
            bits ^= least

    def carry(self, tasks: Tasks, tag: str | None) -> Flags:
        """[n] whether each task carries a tag: each does for None, the whole run, and none one that is not watched."""
        if tag is None or tag not in self.numbers:
            return np.full(len(tasks), tag is None)
        row, place = divmod(self.numbers[tag], ROW)
        return np.asarray(self.carried[row].take(tasks) & np.uint64(1 << place), np.bool_)


def watched_tags(offset_tags: Sequence[str], tags: Mapping[str, Tasks], size: int) -> WatchedTags:
    """Return the offset tags, and then those that tasks carried first, at most MOST_WATCHED.

    A fold may be repeated when tasks were appended meanwhile. So frequent tags would be no choice: by then others may
    be more frequent.

    Args:
        offset_tags: the tags that tell profiles apart.
        tags: for each tag, the sorted tasks that carry it.
        size: how many tasks there are (N).
    """
    carried_by_some = [tag for tag, tasks in tags.items() if len(tasks)]
    ordered = sorted(carried_by_some, key=lambda tag: (tag not in offset_tags, int(tags[tag][0]), tag))[:MOST_WATCHED]
    carried = [np.zeros(size, np.uint64) for _ in range(0, len(ordered), ROW)]
    for number, tag in enumerate(ordered):
        row, place = divmod(number, ROW)
        carried[row][tags[tag]] |= np.uint64(1 << place)
    numbers = {tag: number for number, tag in enumerate(ordered)}
    return WatchedTags(tuple(ordered), numbers, tuple(frozen(row) for row in carried))
