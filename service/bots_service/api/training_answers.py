"""The answers of the hot routes, select and report, and the listing of tasks."""

import math

import numpy as np
from msgspec import Struct

from bots_service.core.task_table import TaskTable
from bots_service.ports.records import OpenDataset, Selection
from bots_service.usecases.report_outcomes import ReportResult


class Chosen(Struct, frozen=True, gc=False):
    """A selected task. draw: the drawn success probability; evidence: pseudo-counts behind the mean."""

    id: str
    draw: float | None
    mean: float
    evidence: float


class SelectAnswer(Struct, frozen=True):
    """A selection.

    degraded: another caller may be working on the same tasks, or the belief may be older than what was acknowledged.
    reused: how many tasks were on lease already: too few others were left, or they were wanted `first`.
    """

    selection_id: str
    dataset: str
    run: str
    epoch: int
    step: int
    seq: int
    degraded: bool
    reused: int
    tasks: list[Chosen]

    @classmethod
    def of(cls, selection: Selection, dataset: OpenDataset, run: str) -> "SelectAnswer":
        """Return the answer for a selection."""
        ids = dataset.ids.take(selection.tasks)
        draws: list[float | None] = selection.draws.tolist()
        if np.isnan(selection.draws).any():
            draws = [None if draw is None or math.isnan(draw) else draw for draw in draws]
        return cls(
            selection_id=selection.id,
            dataset=dataset.row.name,
            run=run,
            epoch=selection.epoch,
            step=selection.step,
            seq=selection.seq,
            degraded=selection.degraded,
            reused=selection.reused,
            tasks=list(map(Chosen, ids, draws, selection.means.tolist(), selection.evidence.tolist())),
        )


class ReportAnswer(Struct, frozen=True):
    """What a report did; of the closed step if it closed one, else of the open step so far.

    late: outcomes that entered with less weight; expired: outcomes too old to count.
    duplicate: the same report had come before, and counted then.
    degraded: it is durable, but other replicas see it only once the shared store is back.
    """

    seq: int
    step: int
    closed: bool
    reported: int
    effective: int
    effective_task_ratio: float | None
    capability: float | None
    late: int
    expired: int
    duplicate: bool
    degraded: bool

    @classmethod
    def of(cls, reported: ReportResult) -> "ReportAnswer":
        """Return the answer for a report."""
        receipt, step = reported.receipt, reported.receipt.tally
        return cls(
            seq=receipt.seq,
            step=receipt.step,
            closed=receipt.closed,
            reported=step.reported,
            effective=step.effective,
            effective_task_ratio=step.effective / step.reported if step.reported else None,
            capability=receipt.capability,
            late=receipt.late,
            expired=receipt.expired,
            duplicate=reported.duplicate,
            degraded=reported.degraded,
        )


class Task(Struct, frozen=True, gc=False):
    """What is believed of a task. interval: 5 % and 95 % quantiles; last_step: null where nothing came lately."""

    id: str
    alpha: float
    beta: float
    mean: float
    interval: tuple[float, float]
    evidence: float
    last_step: int | None
    tags: list[str]


class Tasks(Struct, frozen=True):
    """A page of tasks. matching: how many the query is about, on all pages."""

    tasks: list[Task]
    matching: int
    next_cursor: str | None


def tasks_of(dataset: OpenDataset, table: TaskTable) -> list[Task]:
    """Return the rows of a table."""
    intervals = zip(table.low.tolist(), table.high.tolist(), strict=True)
    return list(
        map(
            Task,
            dataset.ids.take(table.tasks),
            table.alpha.tolist(),
            table.beta.tolist(),
            table.mean.tolist(),
            intervals,
            table.evidence.tolist(),
            (step or None for step in table.last_step.tolist()),
            _tags_of(dataset, table),
        )
    )


def _tags_of(dataset: OpenDataset, table: TaskTable) -> list[list[str]]:
    """Return the sorted tags of each task in the table."""
    tags: list[list[str]] = [[] for _ in range(len(table.tasks))]
    for tag, carriers in sorted(dataset.pool.tags.items()):
        places = np.searchsorted(carriers, table.tasks)
        places[places == len(carriers)] = 0
        for row in np.flatnonzero(carriers[places] == table.tasks).tolist():
            tags[row].append(tag)
    return tags
