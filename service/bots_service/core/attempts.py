"""How often each task was tried or aborted in a run's present history, whatever kind of belief the run has."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Floats, Table, TaskRows, Tasks, are_many, contained, frozen, is_first, united
from bots_service.core.evidence import NO_EVIDENCE, Evidence

MOST_IN_A_ROW = 3  # aborts, before a task rests: a sandbox that fails by chance rarely does so three times
REST_STEPS = 32  # then it is selected once more, where others are free
_NOBODY = NO_EVIDENCE.tasks


@dataclass(frozen=True, slots=True)
class AttemptRows(TaskRows):
    """What closed steps reported of tasks; only tasks that were reported have a row.

    visits: [n] how many steps reported the task; last_step: [n] the number of the last of them.
    rollouts: [n] in these steps; successes: [n] how many of them succeeded; a fractional reward counts in part.
    """

    visits: NDArray[np.int32]
    rollouts: Floats
    successes: Floats
    last_step: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Visits(Table):
    """What single steps reported, in the order of the steps, then of tasks: to add one, no earlier one is looked at.

    step: [n] its number; counts: [2, n] how many rollouts of the task it reported, and how many of these succeeded.
    """

    step: NDArray[np.int32]
    counts: NDArray[np.float64]


@dataclass(frozen=True)
class Attempts:
    """How often closed steps reported each task: rows up to when they were settled, and the visits since.

    ordered: the tasks of these visits, ascending.
    """

    settled: AttemptRows
    recent: Visits
    ordered: Tasks

    @cached_property
    def newest(self) -> AttemptRows:
        """The rows of all tasks that were visited since."""
        tasks, recent = frozen(self.ordered[is_first(self.ordered)]), self.recent
        rows, places = self.settled.of(tasks), tasks.searchsorted(recent.tasks)
        np.add.at(rows.visits, places, 1)
        np.maximum.at(rows.last_step, places, recent.step)
        np.add.at(rows.rollouts, places, recent.counts[0])  # one after the other, as the steps closed
        np.add.at(rows.successes, places, recent.counts[1])
        return rows.frozen()

    @cached_property
    def whole(self) -> AttemptRows:
        """The rows of all tasks."""
        return self.settled.overlaid(self.newest)

    def of(self, tasks: Tasks) -> AttemptRows:
        """Return the row of each task, zeros where it was never reported."""
        rows = self.settled.of(tasks)
        self.newest.write_to(rows)
        return rows

    def never_tried(self, tasks: Tasks) -> int:
        """Return how many of these tasks no closed step reported."""
        return len(tasks) - int(np.count_nonzero(contained(tasks, (self.settled.tasks, self.ordered))))

    def with_step(self, evidence: Evidence, step: int) -> "Attempts":
        """Return the attempts after one more closed step, with all its evidence, each task once, ascending."""
        if len(evidence) == 0:
            return self
        counts = np.array([evidence.successes + evidence.failures, evidence.successes])
        newer = (evidence.tasks, np.full(len(evidence), step, np.int32), counts)
        recent = Visits(*(np.concatenate(pair, axis=-1) for pair in zip(self.recent, newer, strict=True))).frozen()
        ordered = np.concatenate((self.ordered, evidence.tasks))
        ordered.sort(kind="stable")  # which merges what is in order already
        grown = Attempts(self.settled, recent, frozen(ordered))
        return Attempts(grown.whole, NO_VISITS, _NOBODY) if are_many(recent, self.settled) else grown


NO_ROWS = AttemptRows(_NOBODY, _NOBODY, NO_EVIDENCE.successes, NO_EVIDENCE.failures, _NOBODY)
NO_VISITS = Visits(_NOBODY, _NOBODY, frozen(np.empty((2, 0))))
NO_ATTEMPTS = Attempts(NO_ROWS, NO_VISITS, _NOBODY)


@dataclass(frozen=True, slots=True)
class AbortRows(TaskRows):
    """How often selections of tasks brought nothing; only tasks that were aborted have a row.

    aborts: [n] in the present history; in_a_row: [n] since the task last had a rollout.
    last_step: [n] how many steps had closed at the last of them.
    """

    aborts: NDArray[np.int32]
    in_a_row: NDArray[np.int32]
    last_step: NDArray[np.int32]

    def after(self, aborted: Tasks, tried: Tasks, step: int) -> "AbortRows":
        """Return the rows after a report of these tasks without and with rollouts. step: how many had closed before."""
        if not len(aborted) and not len(self):
            return self
        rows = self
        if len(aborted):
            newer = self.of(united(aborted))
            newer.aborts[:] += 1
            newer.in_a_row[:] += 1
            newer.last_step[:] = step
            rows = self.overlaid(newer.frozen())
        again = contained(rows.tasks, (np.sort(tried),)) & (rows.in_a_row > 0)
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


NO_ABORTS = AbortRows(*[_NOBODY] * 4)
