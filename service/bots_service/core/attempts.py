"""How often each task was tried in a run's present history, whatever kind of belief the run has."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Floats, Tasks, contained
from bots_service.core.checks import LARGEST_SUM, ROUNDING, Arrays, are_within
from bots_service.core.evidence import Evidence
from bots_service.core.rows import LayeredRows, TaskRows


@dataclass(frozen=True, slots=True)
class Attempts(TaskRows):
    """What closed steps reported of tasks; only tasks that were reported have a row.

    visits: [R] how many steps reported the task.
    rollouts: [R] how many rollouts they reported.
    last_step: [R] the number of the last of these steps.
    """

    visits: NDArray[np.int32]
    rollouts: Floats
    last_step: NDArray[np.int32]


TYPES = {"tasks": "<i4", "visits": "<i4", "rollouts": "<f8", "last_step": "<i4"}


def no_attempts() -> LayeredRows[Attempts]:
    """Return the attempts of a run that closed no step."""
    nothing = Attempts(*(np.empty(0, kind) for kind in TYPES.values())).frozen()
    return LayeredRows(nothing, nothing)


def with_step(attempts: LayeredRows[Attempts], evidence: Evidence, step: int) -> LayeredRows[Attempts]:
    """Return the attempts after one more closed step.

    Args:
        attempts: before the step.
        evidence: all that the step closes with, each task once, ascending.
        step: the step's number.
    """
    if len(evidence) == 0:
        return attempts
    rows = attempts.of(evidence.tasks)
    rows.visits[:] += 1
    rows.rollouts[:] += evidence.successes + evidence.failures
    rows.last_step[:] = step
    return attempts.with_rows(rows.frozen())


def never_tried(attempts: LayeredRows[Attempts], tasks: Tasks) -> int:
    """Return how many of these tasks no closed step reported."""
    return len(tasks) - int(np.count_nonzero(contained(tasks, (attempts.settled.tasks, attempts.recent.tasks))))


def are_possible(
    attempts: LayeredRows[Attempts], step: int, tasks: int, *, reported: int, distinct: int, rollouts: float
) -> bool:
    """Return whether folding a journal could have led here.

    Args:
        attempts: any whose columns have one length.
        step: how many steps closed.
        tasks: how many the pool has.
        reported: the tasks that these steps reported, each once a step.
        distinct: the same, each once.
        rollouts: the rollouts that they reported.
    """
    if not all(_are_possible(rows, step, tasks) for rows in (attempts.settled, attempts.recent)):
        return False
    whole, slack = attempts.whole, ROUNDING * rollouts
    is_whole = int(whole.visits.sum(dtype=np.int64)) == reported and len(whole) == distinct
    return is_whole and abs(float(whole.rollouts.sum()) - rollouts) <= slack


def _are_possible(rows: Attempts, step: int, tasks: int) -> bool:
    return (
        are_within(rows.tasks, 0, tasks - 1)
        and bool((np.diff(rows.tasks) > 0).all())
        and are_within(rows.last_step, 1, step)
        and are_within(rows.visits, 1, step)
        and bool((rows.visits <= rows.last_step).all())
        and are_within(rows.rollouts, np.nextafter(0.0, 1.0), LARGEST_SUM)
    )


# --- their bytes -----------------------------------------------------------------------------------------------------


def encoded(attempts: LayeredRows[Attempts]) -> Arrays:
    """Return the arrays. Inverse of `decoded`."""
    tables = {"settled": attempts.settled, "recent": attempts.recent}
    return {f"attempts_{table}_{name}": getattr(rows, name) for table, rows in tables.items() for name in TYPES}


def decoded(arrays: Arrays) -> LayeredRows[Attempts]:
    """Return the attempts that were encoded; `shapes` has checked the arrays."""
    settled, recent = (
        Attempts(*(arrays[f"attempts_{table}_{name}"] for name in TYPES)) for table in ("settled", "recent")
    )
    return LayeredRows(settled, recent)


def shapes(arrays: Arrays) -> dict[str, tuple[str, int]]:
    """Return the types and shapes that the arrays must have, all columns of a table of one length."""
    return {
        f"attempts_{table}_{name}": (kind, len(arrays[f"attempts_{table}_tasks"]))
        for table in ("settled", "recent")
        for name, kind in TYPES.items()
    }
