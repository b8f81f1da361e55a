"""Random orders that nobody stores, and how far the strategy `pass` has walked through each part of the pool.

A key fixes an order, so that every replica and every replay gets the same, at once and anywhere in it. All is integer
arithmetic and square roots: the results are the same on every processor.

Walks are part of the run's state. A selection's id carries how far it walked, its report journals that, and the state
keeps the farthest: so replicas, retries and replays agree without another store, and a rewind takes the walks back.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from math import isqrt
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Counts, Floats, Tasks

WHOLE = 0  # the key of the part of a pool that holds all tasks
MOST_WALKS = 128  # of a run: one for each set of tags that its selections ask for, and each tag of its mix


@dataclass(frozen=True, slots=True)
class Walk:
    """How far one part of a pool is walked.

    part: the part's key; turn: the number of the pass, counted from 0; place: where it continues in that pass's order.
    size: how many tasks the part had when the pass began, retired ones included.
    """

    part: int
    turn: int
    place: int
    size: int

    @property
    def is_finished(self) -> bool:
        """Whether its pass has no place left."""
        return self.place >= places_of_pass(self.size)

    def beginning(self, size: int) -> "Walk":
        """Return where the next selection begins in a part of `size` tasks; appended ones join with the next pass."""
        if self.place > 0 and not self.is_finished and self.size <= size:
            return self
        return Walk(self.part, self.turn + (self.place > 0), 0, size)


@dataclass(frozen=True, slots=True)
class Walks:
    """The walks of a run.

    first_turn: the pass with which a part begins that has no walk here.
    walks: at most MOST_WALKS, the one that was moved last at the end.
    finished: how many passes had reached their end before `first_turn`, of the part that was walked last then.
    """

    first_turn: int = 0
    walks: tuple[Walk, ...] = ()
    finished: int = 0

    def passes(self, size: int) -> float:
        """Return how many passes the part that was walked last has had, the present one in part.

        That is the whole pool, or a subset, unless selections name tags. size: of the pool, with retired tasks.
        """
        walk = self.walks[-1] if self.walks else Walk(WHOLE, self.first_turn, 0, size)
        walk = walk.beginning(size if walk.part == WHOLE else walk.size)
        return self.finished + walk.turn - self.first_turn + walk.place / places_of_pass(walk.size)

    def of(self, part: int, size: int) -> Walk:
        """Return where the next selection begins from the part of this key, with `size` tasks, also retired ones."""
        for walk in self.walks:
            if walk.part == part:
                return walk.beginning(size)
        return Walk(part, self.first_turn, 0, size)

    def moved(self, ends: Iterable[Walk]) -> "Walks":
        """Return the walks after a report whose selection ended here; a walk that is farther already stays.

        Beyond MOST_WALKS the one that was not moved for the longest time is dropped; its part then starts again.
        """
        walks = {walk.part: walk for walk in self.walks}
        for end in ends:
            if end.turn >= self.first_turn:
                walks[end.part] = max(walks.pop(end.part, end), end, key=lambda walk: (walk.turn, walk.place))
        return Walks(self.first_turn, tuple(walks.values())[-MOST_WALKS:], self.finished)

    def restarted(self) -> "Walks":
        """Return walks that begin with a pass that none of these has reached.

        After evidence whose selection is unknown nobody can say how far it walked: going on might find the same tasks.
        """
        if not self.walks:
            return Walks(self.first_turn + 1, finished=self.finished)
        last = self.walks[-1]
        return Walks(
            first_turn=max(walk.turn for walk in self.walks) + 1,
            finished=self.finished + last.turn - self.first_turn + last.is_finished,
        )


walk_numbers = attrgetter("part", "turn", "place", "size")

ROUNDS = 12  # with 8, permutations of 5 items are visibly uneven
# The finaliser of MurmurHash3 (Austin Appleby, public domain): each bit of the input changes about half of the output.
_FIRST, _SECOND = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_STRIDE = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: spreads small numbers
_ONE, _HALF, _SHIFT = np.uint64(1), np.uint64(32), np.uint64(33)

Hashes = NDArray[np.uint64]


def key_of(*parts: int | str) -> int:
    """Return a key of 64 bits for these numbers and words."""
    text = "\0".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def rectangle(size: int) -> tuple[int, int]:
    """Return rows and columns of the smallest nearly square rectangle that holds so many items, at least one."""
    rows = isqrt(max(size, 1) - 1) + 1
    return rows, -(-max(size, 1) // rows)


def places_of_pass(size: int) -> int:
    """Return how many places a random order of `size` items has: at most 2 sqrt(size) more than items."""
    rows, columns = rectangle(size)
    return rows * columns


def items_at(places: Counts, size: int, key: int) -> Counts:
    """Return what stands at these places, [n] in [0, places_of_pass(size)), of a random order; from `size` on no items.

    A generalised Feistel cipher on a rectangle (Black and Rogaway, CT-RSA 2002): each round shifts the rows by a hash
    of the column, or the columns by a hash of the row.
    """
    sides = [np.uint64(side) for side in rectangle(size)]
    halves = list(np.divmod(places.astype(np.uint64), sides[1]))
    for turn, turn_key in enumerate(_hashes(np.array([key], np.uint64), np.arange(ROUNDS, dtype=np.uint64))):
        moved, side = turn % 2, sides[turn % 2]
        shift = _hashes(halves[1 - moved], turn_key)
        sums = halves[moved] + (((shift >> _HALF) * side) >> _HALF)
        halves[moved] = np.where(sums >= side, sums - side, sums)
    return np.asarray(halves[0] * sides[1] + halves[1], np.int64)


def fractions(items: Counts | Tasks, key: int) -> Floats:
    """[n] a random number in [0, 1) for each item, a multiple of 2^-53 that item and key fix."""
    return np.asarray((_hashes(np.asarray(items, np.uint64), np.uint64(key)) >> np.uint64(11)) * 2.0**-53, np.float64)


def _hashes(items: Hashes, keys: Hashes | np.uint64) -> Hashes:
    """[n] a random number of 64 bits for each item; all is modulo 2^64."""
    found = items + _ONE
    found *= _STRIDE
    found = found ^ keys
    for factor in (_FIRST, _SECOND):
        found ^= found >> _SHIFT
        found *= factor
    found ^= found >> _SHIFT
    return found
