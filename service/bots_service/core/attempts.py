"""How often each task was tried in a run's present history, whatever kind of belief the run has."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Flags, Floats, Tasks, contained, frozen, is_first, last_of
from bots_service.core.checks import LARGEST_SUM, ROUNDING, Arrays, are_within
from bots_service.core.evidence import Evidence
from bots_service.core.rows import RECENT_SHARE, TaskRows

FEW_VISITS = 1024  # of recent steps that are cheap to copy, however few rows are settled


@dataclass(frozen=True, slots=True)
class AttemptRows(TaskRows):
    """What closed steps reported of tasks; only tasks that were reported have a row.

    visits: [R] how many steps reported the task.
    rollouts: [R] how many rollouts they reported.
    successes: [R] how many of these succeeded; a fractional reward counts in part.
    last_step: [R] the number of the last of these steps.
    """

    visits: NDArray[np.int32]
    rollouts: Floats
    successes: Floats
    last_step: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Visits:
    """What single steps reported, in the order of the steps: adding a step looks at no earlier one.

    tasks: [V] ascending within a step; a later step may visit the same task.
    rollouts: [V] how many rollouts of the task the step reported.
    successes: [V] how many of these succeeded.
    step: [V] its number.
    ordered: [V] the tasks in ascending order.
    """

    tasks: Tasks
    rollouts: Floats
    successes: Floats
    step: NDArray[np.int32]
    ordered: Tasks

    def __len__(self) -> int:
        return len(self.tasks)

    @classmethod
    def of(cls, tasks: Tasks, rollouts: Floats, successes: Floats, step: NDArray[np.int32]) -> "Visits":
        """Return the visits with these columns."""
        return cls(tasks, rollouts, successes, step, frozen(np.sort(tasks)))

    def with_step(self, evidence: Evidence, step: int) -> "Visits":
        """Return the visits with those of one more step."""
        before, tasks = len(self), np.concatenate([self.tasks, evidence.tasks])
        steps = np.empty(len(tasks), np.int32)
        steps[:before], steps[before:] = self.step, step
        ordered = np.concatenate([self.ordered, evidence.tasks])
        ordered.sort(kind="stable")  # which merges what is in order already
        rollouts = np.concatenate([self.rollouts, evidence.successes + evidence.failures])
        successes = np.concatenate([self.successes, evidence.successes])
        return Visits(*map(frozen, (tasks, rollouts, successes, steps, ordered)))


ROW_TYPES = {"tasks": "<i4", "visits": "<i4", "rollouts": "<f8", "successes": "<f8", "last_step": "<i4"}
VISIT_TYPES = {"tasks": "<i4", "rollouts": "<f8", "successes": "<f8", "step": "<i4"}
NO_ROWS = AttemptRows(*(np.empty(0, kind) for kind in ROW_TYPES.values())).frozen()
NO_VISITS = Visits.of(*(frozen(np.empty(0, kind)) for kind in VISIT_TYPES.values()))


@dataclass(frozen=True)
class Attempts:
    """How often closed steps reported each task.

    settled: rows of the steps up to when they were last settled.
    recent: the visits of the steps since.
    """

    settled: AttemptRows
    recent: Visits

    @cached_property
    def newest(self) -> AttemptRows:
        """Rows of the tasks that the steps since reported, with all that was ever reported of them."""
        recent = self.recent
        tasks = recent.ordered[is_first(recent.ordered)]
        rows, places = self.settled.of(frozen(tasks)), tasks.searchsorted(recent.tasks)
        np.add.at(rows.visits, places, 1)
        np.add.at(rows.rollouts, places, recent.rollouts)  # one after the other, as the steps closed
        np.add.at(rows.successes, places, recent.successes)
        np.maximum.at(rows.last_step, places, recent.step)
        return rows.frozen()

    @cached_property
    def whole(self) -> AttemptRows:
        """All rows in one table."""
        return self.settled.overlaid(self.newest)

    @property
    def nbytes(self) -> int:
        """How much memory the arrays take."""
        recent = self.recent
        columns = (*self.settled, recent.tasks, recent.rollouts, recent.successes, recent.step, recent.ordered)
        return sum(column.nbytes for column in columns)

    @property
    def largest_task(self) -> int:
        """The last task of the pool that was tried, -1 before the first."""
        return max(last_of(self.settled.tasks), last_of(self.recent.ordered))

    def of(self, tasks: Tasks) -> AttemptRows:
        """Return the row of each task, zeros where it was never reported; they may be written to."""
        rows = self.settled.of(tasks)
        self.newest.write_to(rows)
        return rows

    def of_few(self, tasks: Tasks) -> AttemptRows:
        """Return what `of` does, sooner for few tasks: it looks at no other task's visits."""
        rows, recent = self.settled.of(tasks), self.recent
        if not contained(tasks, (recent.ordered,)).any():
            return rows
        visits = np.flatnonzero(contained(recent.tasks, (np.sort(tasks),)))
        for visit, task in zip(visits.tolist(), recent.tasks.take(visits).tolist(), strict=True):
            same = np.flatnonzero(tasks == task)
            rows.visits[same] += 1
            rows.rollouts[same] += recent.rollouts[visit]
            rows.successes[same] += recent.successes[visit]
            rows.last_step[same] = recent.step[visit]
        return rows

    def tried(self, chosen: Callable[[Tasks], Flags]) -> AttemptRows:
        """Return the rows of the chosen tasks that were ever reported. chosen: says of [n] tasks which are."""
        settled, newest = (rows.where(chosen(rows.tasks)) for rows in (self.settled, self.newest))
        return settled.overlaid(newest)

    def never_tried(self, tasks: Tasks) -> int:
        """Return how many of these tasks no closed step reported."""
        return len(tasks) - int(np.count_nonzero(contained(tasks, (self.settled.tasks, self.recent.ordered))))

    def with_step(self, evidence: Evidence, step: int) -> "Attempts":
        """Return the attempts after one more closed step.

        Args:
            evidence: all that the step closes with, each task once, ascending.
            step: the step's number.
        """
        if len(evidence) == 0:
            return self
        grown = Attempts(self.settled, self.recent.with_step(evidence, step))
        if len(grown.recent) <= FEW_VISITS + len(self.settled) // RECENT_SHARE:
            return grown
        return Attempts(grown.whole, NO_VISITS)


def no_attempts() -> Attempts:
    """Return the attempts of a run that closed no step."""
    return Attempts(NO_ROWS, NO_VISITS)


def are_possible(
    attempts: Attempts,
    step: int,
    tasks: int,
    *,
    reported: int,
    distinct: int,
    rollouts: float,
    successes: float,
) -> bool:
    """Return whether folding a journal could have led here.

    Args:
        attempts: any whose columns have one length.
        step: how many steps closed.
        tasks: how many the pool has.
        reported: the tasks that these steps reported, each once a step.
        distinct: the same, each once.
        rollouts: the rollouts that they reported.
        successes: how many of these succeeded.
    """
    settled, recent = attempts.settled, attempts.recent
    settled_until = int(settled.last_step.max(initial=0))
    if not (_are_rows(settled, step, tasks) and _are_visits(recent, step, tasks, after=settled_until)):
        return False
    whole, slack = attempts.whole, ROUNDING * rollouts
    visits = int(whole.visits.sum(dtype=np.int64))
    is_whole = visits == reported and len(whole) == distinct
    sums = ((whole.rollouts, rollouts), (whole.successes, successes))
    return is_whole and all(abs(float(column.sum()) - total) <= slack for column, total in sums)


def _are_rows(rows: AttemptRows, step: int, tasks: int) -> bool:
    return (
        are_within(rows.tasks, 0, tasks - 1)
        and bool((np.diff(rows.tasks) > 0).all())
        and are_within(rows.last_step, 1, step)
        and are_within(rows.visits, 1, step)
        and bool((rows.visits <= rows.last_step).all())
        and _are_counts(rows.rollouts, rows.successes)
    )


def _are_visits(visits: Visits, step: int, tasks: int, *, after: int) -> bool:
    steps, ascending = np.diff(visits.step), np.diff(visits.tasks) > 0
    return (
        are_within(visits.tasks, 0, tasks - 1)
        and are_within(visits.step, after + 1, step)
        and bool(((steps > 0) | ((steps == 0) & ascending)).all())
        and _are_counts(visits.rollouts, visits.successes)
    )


def _are_counts(rollouts: Floats, successes: Floats) -> bool:
    """Return whether there are rollouts in each place, and no more successes than rollouts; NaN is neither."""
    return (
        are_within(rollouts, LEAST_ROLLOUTS, LARGEST_SUM)
        and are_within(successes, 0.0, LARGEST_SUM)
        and bool((successes <= rollouts * (1 + ROUNDING)).all())
    )


LEAST_ROLLOUTS = float(np.nextafter(0.0, 1.0))


# --- their bytes -----------------------------------------------------------------------------------------------------


def encoded(attempts: Attempts) -> Arrays:
    """Return the arrays. Inverse of `decoded`."""
    settled = {f"attempts_settled_{name}": getattr(attempts.settled, name) for name in ROW_TYPES}
    return settled | {f"attempts_recent_{name}": getattr(attempts.recent, name) for name in VISIT_TYPES}


def decoded(arrays: Arrays) -> Attempts:
    """Return the attempts that were encoded; `shapes` has checked the arrays."""
    settled = AttemptRows(*(arrays[f"attempts_settled_{name}"] for name in ROW_TYPES))
    return Attempts(settled, Visits.of(*(arrays[f"attempts_recent_{name}"] for name in VISIT_TYPES)))


def shapes(arrays: Arrays) -> dict[str, tuple[str, int]]:
    """Return the types and shapes that the arrays must have, all columns of a table of one length."""
    return {
        f"attempts_{table}_{name}": (kind, len(arrays[f"attempts_{table}_tasks"]))
        for table, types in (("settled", ROW_TYPES), ("recent", VISIT_TYPES))
        for name, kind in types.items()
    }
