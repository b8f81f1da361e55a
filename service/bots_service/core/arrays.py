"""The array types of the core, and sets of tasks as sorted arrays."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Counts = NDArray[np.int64]
Bits = NDArray[np.uint32]  # up to 32 flags in one number
Tasks = NDArray[np.int32]  # indices of tasks in their dataset; a task's index never changes

Scalar = TypeVar("Scalar", bound=np.generic)


def frozen(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """Return the array, made read-only: values in the core are shared between threads."""
    array.flags.writeable = False
    return array


def ordered_sum(values: Floats) -> float:
    """Return the sum, added one after the other: numpy's own order depends on the machine."""
    return float(np.add.accumulate(values)[-1]) if len(values) else 0.0


def as_places(chosen: Counts | Flags) -> Counts:
    """Return places as they are, and of a mask those where it is true; `take` with them is quicker than an index."""
    return np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen.astype(np.int64, copy=False)


def united(*sets: Tasks) -> Tasks:
    """Return the tasks that are in any of the arrays, sorted and distinct; the arrays may be in any order."""
    if not sets:
        return np.empty(0, np.int32)
    tasks = np.sort(np.concatenate(sets), kind="stable")
    return tasks[is_first(tasks)]


def last_of(tasks: Tasks) -> int:
    """Return the last of sorted tasks, -1 of none."""
    return int(tasks[-1]) if len(tasks) else -1


def is_first(ordered: NDArray[np.generic]) -> NDArray[np.bool_]:
    """[n] whether each entry differs from the one before, for an array in which equals stand together."""
    first = np.empty(len(ordered), bool)
    first[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return first


def first_places(tasks: Tasks) -> Counts:
    """Return, ascending, the places where tasks stand for the first time."""
    by_task = np.argsort(tasks, kind="stable")
    return np.sort(by_task[is_first(tasks[by_task])])


def contained(tasks: Tasks, sets: tuple[Tasks, ...]) -> NDArray[np.bool_]:
    """[n] whether each task is in any of the sorted arrays."""
    found = np.zeros(len(tasks), bool)
    for one in sets:
        if len(one):
            found |= one.take(one.searchsorted(tasks), mode="clip") == tasks
    return found


def without(tasks: Tasks, others: Tasks) -> Tasks:
    """Return the tasks less the others, which may be in any order."""
    return tasks[~contained(tasks, (np.sort(others),))] if len(others) else tasks


def tag_bits(carriers: Sequence[Tasks], size: int) -> Bits:
    """[N] one number a task; its bit t is set where the task is one of `carriers[t]`.

    Args:
        carriers: the tasks of each tag; at most 32.
        size: how many tasks there are (N).
    """
    bits = np.zeros(size, np.uint32)
    for bit, tasks in enumerate(carriers):
        bits[tasks] |= np.uint32(1 << bit)
    return bits
