"""Tasks whose rollouts were aborted: how often, and which of them rest because nothing ever comes of them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Tasks, contained, frozen, united
from bots_service.core.checks import Arrays
from bots_service.core.rows import TaskRows

MOST_IN_A_ROW = 3  # aborts, before a task rests: a sandbox that fails by chance rarely does so three times
REST_STEPS = 32  # then it is selected once more, where others are free


@dataclass(frozen=True, slots=True)
class AbortRows(TaskRows):
    """How often selections of tasks brought nothing; only tasks that were aborted have a row.

    aborts: [R] how often, in the present history.
    in_a_row: [R] how often since the task last had a rollout.
    last_step: [R] how many steps had closed at the last of them.
    """

    aborts: NDArray[np.int32]
    in_a_row: NDArray[np.int32]
    last_step: NDArray[np.int32]

    def after(self, aborted: Tasks, tried: Tasks, step: int) -> "AbortRows":
        """Return the rows after a report.

        Args:
            aborted: tasks that brought nothing.
            tried: tasks of which rollouts were reported.
            step: how many steps had closed before.
        """
        if not len(aborted) and not len(self):
            return self
        rows = self
        if len(aborted):
            newer = self.of(united(aborted))
            newer.aborts[:] += 1
            newer.in_a_row[:] += 1
            newer.last_step[:] = step
            rows = self.overlaid(newer.frozen())
        again = np.isin(rows.tasks, tried) & (rows.in_a_row > 0)
        if not again.any():
            return rows
        return AbortRows(rows.tasks, rows.aborts, frozen(np.where(again, 0, rows.in_a_row)), rows.last_step)

    def forgotten(self, tasks: Tasks) -> "AbortRows":
        """Return the rows less those of some tasks, which are sorted."""
        return self.where(~contained(self.tasks, (tasks,)))

    @property
    def always_aborted(self) -> Tasks:
        """The tasks that were aborted too often in a row."""
        return self.tasks[self.in_a_row >= MOST_IN_A_ROW]

    def resting(self, step: int) -> Tasks:
        """Return, sorted, the tasks that are left out while others are free. step: how many closed."""
        return self.tasks[(self.in_a_row >= MOST_IN_A_ROW) & (step < self.last_step + REST_STEPS)]


_COLUMNS = ("tasks", "aborts", "in_a_row", "last_step")
NO_ABORTS = AbortRows(*[frozen(np.empty(0, np.int32))] * 4)


def encoded(rows: AbortRows) -> Arrays:
    """Return the arrays; none of a run without aborts. Inverse of `decoded`."""
    return {f"aborts_{name}": getattr(rows, name) for name in _COLUMNS} if len(rows) else {}


def decoded(arrays: Arrays) -> AbortRows:
    """Return the rows that were encoded; `shapes` has checked the arrays."""
    return AbortRows(*(arrays[f"aborts_{name}"] for name in _COLUMNS)) if "aborts_tasks" in arrays else NO_ABORTS


def shapes(arrays: Arrays) -> dict[str, tuple[object, ...]]:
    """Return the types and shapes that the arrays must have."""
    if "aborts_tasks" not in arrays:
        return {}
    return {f"aborts_{name}": ("<i4", len(arrays["aborts_tasks"])) for name in _COLUMNS}
