"""Rows about the tasks that were tried, sorted by task."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Tasks, frozen


@dataclass(frozen=True, slots=True)
class Rows:
    """What is known of some tasks that were tried.

    tasks: [R] sorted and distinct.
    counts: [2, R] evidence of success and of failure.
    steps: [R] bit j is set if the task was tried in the step that closed j steps before its last one.
    last_step: [R] the number of the last step that brought evidence of the task.
    """

    tasks: Tasks
    counts: NDArray[np.float64]
    steps: NDArray[np.uint64]
    last_step: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.tasks)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        yield from (self.tasks, self.counts, self.steps, self.last_step)

    def frozen(self) -> "Rows":
        """Return the rows, made read-only."""
        return Rows(*map(frozen, self))

    def of(self, tasks: Tasks) -> "Rows":
        """Return rows of these tasks, zeros for those that are not here; they may be written to."""
        if len(self) == 0:
            return unknown(tasks)
        places, found = self._find(tasks)
        rows = Rows(tasks, self.counts.take(places, axis=1), self.steps.take(places), self.last_step.take(places))
        if not found.all():
            for fact in rows._facts():
                fact[~found] = 0
        return rows

    def write_to(self, others: "Rows") -> None:
        """Replace those of the other rows whose tasks are here too."""
        if len(self) == 0:
            return
        places, found = self._find(others.tasks)
        places = places[found]
        for own, other in zip(self._facts(), others._facts(), strict=True):
            other[found] = own.take(places)

    def overlaid(self, newer: "Rows") -> "Rows":
        """Return these rows with newer ones added; of a task that is in both, the newer row counts."""
        if len(self) == 0 or len(newer) == 0:
            return newer if len(self) == 0 else self
        tasks = np.concatenate([self.tasks, newer.tasks])
        order = tasks.argsort(kind="stable")  # of two sorted runs this is a merge; of equals the newer comes last
        tasks = tasks.take(order)
        is_last = np.ones(len(tasks), bool)
        np.not_equal(tasks[1:], tasks[:-1], out=is_last[:-1])
        order = order[is_last]
        columns = (np.concatenate(pair, axis=-1).take(order, axis=-1) for pair in zip(self, newer, strict=True))
        return Rows(*columns).frozen()

    def where(self, chosen: NDArray[np.bool_]) -> "Rows":
        """Return the rows for which the mask [R] says so."""
        if chosen.all():
            return self
        places = chosen.nonzero()[0]
        return Rows(*(column.take(places, axis=-1) for column in self)).frozen()

    def _facts(self) -> tuple[NDArray[Any], ...]:
        """Return what is known of each task, as arrays of [R]."""
        return (*self.counts, self.steps, self.last_step)

    def _find(self, tasks: Tasks) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return a place for each task, and whether the task stands there; there must be rows."""
        places = np.minimum(self.tasks.searchsorted(tasks), len(self) - 1)
        return places, self.tasks.take(places) == tasks


def unknown(tasks: Tasks) -> Rows:
    """Return rows of tasks of which nothing is known yet: zeros, to be written to."""
    count = len(tasks)
    return Rows(tasks, np.zeros((2, count)), np.zeros(count, np.uint64), np.zeros(count, np.int32))


def no_rows() -> Rows:
    """Return no rows."""
    return unknown(np.empty(0, np.int32)).frozen()
