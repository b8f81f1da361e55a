"""How often each task was tried or aborted in a run's present history, whatever kind of belief the run has."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Floats, LayeredRows, TaskRows, Tasks, contained, frozen, united
from bots_service.core.evidence import Evidence

MOST_IN_A_ROW = 3  # aborts, before a task rests: a sandbox that fails by chance rarely does so three times
REST_STEPS = 32  # then it is selected once more, where others are free


@dataclass(frozen=True, slots=True)
class AttemptRows(TaskRows):
    """What closed steps reported of tasks; only tasks that were reported have a row.

    visits: [n] how many steps reported the task.
    rollouts: [n] how many rollouts they reported.
    successes: [n] how many of these succeeded; a fractional reward counts in part.
    last_step: [n] the number of the last of these steps.
    """

    visits: NDArray[np.int32]
    rollouts: Floats
    successes: Floats
    last_step: NDArray[np.int32]


@dataclass(frozen=True)
class Attempts(LayeredRows[AttemptRows]):
    """How often closed steps reported each task."""

    def never_tried(self, tasks: Tasks) -> int:
        """Return how many of these tasks no closed step reported."""
        return len(tasks) - int(np.count_nonzero(contained(tasks, (self.settled.tasks, self.recent.tasks))))

    def with_step(self, evidence: Evidence, step: int) -> "Attempts":
        """Return the attempts after one more closed step.

        Args:
            evidence: all that the step closes with, each task once, ascending.
            step: the step's number.
        """
        if len(evidence) == 0:
            return self
        rows = self.of(evidence.tasks)
        rows.visits[:] += 1
        rows.rollouts[:] += evidence.successes + evidence.failures
        rows.successes[:] += evidence.successes
        rows.last_step[:] = step
        return self.with_rows(rows.frozen())


_NOTHING, _NO_COUNT = frozen(np.empty(0, np.int32)), frozen(np.empty(0))
NO_ROWS = AttemptRows(_NOTHING, _NOTHING, _NO_COUNT, _NO_COUNT, _NOTHING)
NO_ATTEMPTS = Attempts(NO_ROWS, NO_ROWS)


@dataclass(frozen=True, slots=True)
class AbortRows(TaskRows):
    """How often selections of tasks brought nothing; only tasks that were aborted have a row.

    aborts: [n] how often, in the present history.
    in_a_row: [n] how often since the task last had a rollout.
    last_step: [n] how many steps had closed at the last of them.
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

    @property
    def always_aborted(self) -> Tasks:
        """The tasks that were aborted too often in a row."""
        return self.tasks[self.in_a_row >= MOST_IN_A_ROW]

    def resting(self, step: int) -> Tasks:
        """Return, sorted, the tasks that are left out while others are free. step: how many closed."""
        return self.tasks[(self.in_a_row >= MOST_IN_A_ROW) & (step < self.last_step + REST_STEPS)]


NO_ABORTS = AbortRows(*[_NOTHING] * 4)
