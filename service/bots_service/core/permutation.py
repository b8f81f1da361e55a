"""Keyed permutations and hashes: random orders and random numbers that nobody has to store.

A key fixes them, so that every replica and every replay gets the same, at once and anywhere in the order. All is
integer arithmetic and square roots: the results are the same on every processor.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Counts, Floats, Tasks

ROUNDS = 12  # with 8, permutations of 5 items are visibly uneven
# The finaliser of MurmurHash3 (Austin Appleby, public domain): each bit of the input changes about half of the output.
_FIRST, _SECOND = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_STRIDE = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio: spreads small numbers

Hashes = NDArray[np.uint64]


def key_of(*parts: int | str) -> int:
    """Return a key of 64 bits for these numbers and words."""
    text = "\0".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def rectangle(sizes: int | Counts) -> tuple[Counts, Counts]:
    """Return rows and columns of the smallest nearly square rectangle that holds so many items, at least one."""
    wanted = np.maximum(np.asarray(sizes, np.int64), 1)
    rows = np.floor(np.sqrt(wanted - 1)).astype(np.int64) + 1
    return rows, -(-wanted // rows)


def places_of_pass(size: int) -> int:
    """Return how many places a random order of `size` items has: at most 2 sqrt(size) more than items."""
    rows, columns = rectangle(size)
    return int(rows * columns)


def items_at(places: Counts, sizes: int | Counts, keys: int | Hashes) -> Counts:
    """Return what stands at these places of random orders.

    A generalised Feistel cipher on a rectangle (Black and Rogaway, CT-RSA 2002): each round shifts the rows by a hash
    of the column, or the columns by a hash of the row.

    Args:
        places: [n] in [0, places_of_pass(size)).
        sizes: how many items there are, of one order or of each place's own, [n].
        keys: fixes the order; one, or each place's own, [n].

    Returns:
        [n] numbers; each of [0, places_of_pass(size)) stands at one place. Those from `size` on are no items.
    """
    rows, columns = rectangle(sizes)
    sides = (rows.astype(np.uint64), columns.astype(np.uint64))
    halves = [(places // columns).astype(np.uint64), (places % columns).astype(np.uint64)]
    for turn in range(ROUNDS):
        moved, side = turn % 2, sides[turn % 2]
        shift = _hashes(halves[1 - moved], _hashes(np.asarray(keys, np.uint64), np.uint64(turn)))
        sums = halves[moved] + (((shift >> np.uint64(32)) * side) >> np.uint64(32))
        halves[moved] = np.where(sums >= side, sums - side, sums)
    return np.asarray(halves[0] * sides[1] + halves[1], np.int64)


def fractions(items: Counts | Tasks, key: int) -> Floats:
    """[n] a random number in [0, 1) for each item, a multiple of 2^-53 that item and key fix."""
    return np.asarray((keys_of(items, key) >> np.uint64(11)) * 2.0**-53, np.float64)


def keys_of(items: Counts | Tasks, key: int) -> Hashes:
    """[n] a key of its own for each item, which item and key fix."""
    return _hashes(np.asarray(items, np.uint64), np.uint64(key))


def _hashes(items: Hashes, keys: Hashes | np.uint64) -> Hashes:
    """[n] a random number of 64 bits for each item."""
    with np.errstate(over="ignore"):  # of single numbers numpy would warn; all is modulo 2^64
        found = (items + np.uint64(1)) * _STRIDE ^ keys
        for factor in (_FIRST, _SECOND):
            found = (found ^ (found >> np.uint64(33))) * factor
        return np.asarray(found ^ (found >> np.uint64(33)), np.uint64)
