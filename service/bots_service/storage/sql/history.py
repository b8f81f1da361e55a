"""What runs did, read from SQL: steps, curve, entries; and courses, of many runs at once.

A rewind hides what stood before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import ColumnElement, Connection, TextClause, bindparam, case, func, select, text

from bots_service.core.entries import Body, Probe, Report, Rewind
from bots_service.core.run_settings import StrategyName
from bots_service.core.summary import (
    NO_SUMS,
    Gain,
    LastEvaluation,
    RunCourse,
    RunFindings,
    Sums,
    course_of,
    wanted_steps,
)
from bots_service.records import EntryKind, JournalEntry, Point, RefusedReports, RunRow, StoredReceipt
from bots_service.storage.sql.database import SqlRow
from bots_service.storage.sql.journal import KINDS, RECEIPTS, decode_body, receipt_of
from bots_service.storage.sql.runs import run_of
from bots_service.storage.sql.store import Store, reading
from bots_service.storage.sql.tables import EPOCH, HEAD, IS_MARK, IS_STEP, RUNS, datasets, journal, runs

_SUMS = ("reported", "effective", "rollouts", "successes")


def _steps_of(run: RunRow) -> tuple[ColumnElement[bool], TextClause]:
    return journal.c.run_id == run.id, text(IS_STEP)


def _weighed(column: Any, weight: Any = journal.c.rollouts) -> Any:
    return func.sum(column * weight) / func.nullif(func.sum(case((column.is_not(None), weight))), 0)


def _point(row: SqlRow, end: SqlRow, looked: SqlRow | None) -> Point:
    names = ("first_step", "last_step", *_SUMS, "brier", "log_loss", "uniform_effective_task_ratio")
    values = {name: getattr(row, name) for name in names}
    successes = values.pop("successes")
    return Point(
        **values,
        effective_task_ratio=row.effective / row.reported if row.reported else None,
        success_rate=successes / row.rollouts if row.rollouts else None,
        capability=end.capability,
        distinct_tasks=end.distinct_tasks,
        distribution=None if looked is None else looked.distribution,
        time=datetime.fromtimestamp(end.created_at, UTC),
    )


_PAGE = select(
    *(journal.c[name] for name in ("seq", "epoch", "kind", "hidden", "created_at", "step", "closed", "body"))
)


def _told(body: Body) -> dict[str, Any]:
    if isinstance(body, Report):
        seen, parts = body.evidence, body.parts
        rollouts = float(seen.successes.sum() + seen.failures.sum())
        rollouts += float(parts.successes.sum() + parts.failures.sum())
        tasks = len(seen) + len(np.unique(parts.tasks))
        return {"tasks": tasks, "effective": int(seen.effective.sum()), "rollouts": rollouts}
    if isinstance(body, Rewind):
        return {"to_step": body.to_step}
    if isinstance(body, Probe):
        return {"tasks": int(np.count_nonzero(body.scores))}
    return {"changed": body.values}


class RunHead(NamedTuple):
    """Where a run stands in SQL: the last seq, and how often it was rewound. A replaced run has a new uid.

    refused: its refused reports, None without any; refused_seq: the last entry when the last of them came.
    finished_seq: the last entry when its trainer said that training ended; evaluated: how often evaluations came.
    """

    run_id: int
    uid: str
    dataset: str
    head: int
    epoch: int
    refused: RefusedReports | None = None
    refused_seq: int | None = None
    finished_seq: int | None = None
    evaluated: int = 0


@dataclass(frozen=True, slots=True)
class KnownRun:
    """What a run's journal tells of it.

    head: where it stood when this was read.
    row: the run; its head and epoch may be older.
    strategy: in use.
    findings: what the service found when it last looked.
    gain: over uniform sampling; None for a run that samples uniformly.
    evaluation: the last one, next to a baseline's; None without any.
    compared: where the run and its baseline stood when the gain was measured.
    """

    head: RunHead
    row: RunRow
    course: RunCourse
    strategy: StrategyName
    findings: RunFindings
    gain: Gain | None = None
    evaluation: LastEvaluation | None = None
    compared: tuple[RunHead, RunHead] | None = None

    @property
    def step(self) -> int:
        """How many steps it has closed, those before a fork included."""
        return self.row.origin_step + self.course.steps


RUNS_AT_ONCE = 100  # in one transaction: some 50 ms

_FLAGS = (runs.c[name] for name in ("refused", "refused_seq", "finished_seq", "evaluated"))
_HEADS = select(runs.c.id, runs.c.uid, datasets.c.name, HEAD, EPOCH, *_FLAGS).select_from(runs.join(datasets))
# What each of many runs is asked is made once.
_END_COLUMNS = tuple(
    journal.c[name]
    for name in ("step", "total_reported", "total_effective", "total_rollouts", "expected", "created_at")
)
_OF_RUN = journal.c.run_id == bindparam("run")
_THIS = select(*_END_COLUMNS, journal.c.strategy).where(_OF_RUN, journal.c.seq == bindparam("seq"))
_ENDS = select(*_END_COLUMNS).where(
    _OF_RUN, text(IS_STEP), journal.c.step.in_(bindparam("steps", expanding=True)), journal.c.seq <= bindparam("head")
)
_FINDINGS = (
    select(journal.c.findings)
    .where(_OF_RUN, text(IS_STEP), journal.c.findings.is_not(None), journal.c.seq <= bindparam("head"))
    .order_by(journal.c.step.desc())
    .limit(1)
)


def _ends(connection: Connection, run: RunRow, head: int, steps: Sequence[int]) -> dict[int, Sums]:
    """Return the sums up to these steps that the run closed, and up to step 0."""
    found = connection.execute(_ENDS, {"run": run.id, "steps": list(steps), "head": head})
    return {0: NO_SUMS} | {step: Sums(*sums) for step, *sums in found}


def _known(connection: Connection, head: RunHead, row: SqlRow | None) -> KnownRun | None:
    """Return what a run's journal tells; None if the run was deleted or rewound since it stood there."""
    if row is None or row.uid != head.uid:
        return None
    run = run_of(row)
    if not head.head:
        return KnownRun(head, run, RunCourse(), run.settings.strategy, RunFindings())
    last = connection.execute(_THIS, {"run": run.id, "seq": head.head}).one_or_none()
    if last is None:
        return None
    wanted = wanted_steps(run.origin_step, last.step)
    ends = _ends(connection, run, head.head, wanted)
    if not ends.keys() >= set(wanted):  # one was rewound
        return None
    findings = connection.scalar(_FINDINGS, {"run": run.id, "head": head.head})
    course = course_of(run.origin_step, last.step, ends)
    return KnownRun(head, run, course, last.strategy, findings or RunFindings())


class SqlHistory(Store):
    """What runs did: the present history, and the whole journal, entry by entry."""

    @reading
    def closing(self, connection: Connection, run: RunRow, step: int) -> int | None:
        """Return the seq of the entry that closed `step` in the present history; None if there is none.

        A run begins with step 0 at seq 0, a fork with its parent's step; it goes back no further.
        """
        begin = 0 if run.parent is None else run.parent.seq
        if step <= run.origin_step:
            return begin if step == run.origin_step else None
        return connection.scalar(select(journal.c.seq).where(*_steps_of(run), journal.c.step == step))

    @reading
    def steps(self, connection: Connection, run: RunRow, after_step: int, limit: int) -> list[StoredReceipt]:
        """Return closed steps of the present history in order, after `after_step`."""
        later = RECEIPTS.add_columns(journal.c.created_at).where(*_steps_of(run), journal.c.step > after_step)
        rows = connection.execute(later.order_by(journal.c.step).limit(limit))
        return [receipt_of(StoredReceipt, row) for row in rows]

    @reading
    def curve(self, connection: Connection, run: RunRow, up_to: int, width: int) -> list[Point]:
        """Return the closed steps of the present history up to entry `up_to`, in order, `width` steps a point."""
        place = (journal.c.step - 1) // width
        points = connection.execute(
            select(
                func.min(journal.c.step).label("first_step"),
                func.max(journal.c.step).label("last_step"),
                func.max(journal.c.seq).label("seq"),
                func.max(case((journal.c.distribution.is_not(None), journal.c.seq))).label("looked"),
                *(func.sum(journal.c[name]).label(name) for name in _SUMS),
                _weighed(journal.c.brier).label("brier"),
                _weighed(journal.c.log_loss).label("log_loss"),
                _weighed(journal.c.uniform, journal.c.reported).label("uniform_effective_task_ratio"),
            )
            .where(*_steps_of(run), journal.c.seq <= up_to)
            .group_by(place)
            .order_by(place)
        ).all()
        seqs = {seq for row in points for seq in (row.seq, row.looked) if seq is not None}
        names = ("seq", "capability", "distinct_tasks", "created_at", "distribution")
        shown = select(*(journal.c[name] for name in names))
        found = connection.execute(shown.where(journal.c.run_id == run.id, journal.c.seq.in_(sorted(seqs))))
        ends = {row.seq: row for row in found}
        return [_point(row, ends[row.seq], ends.get(row.looked)) for row in points]

    @reading
    def entries(
        self, connection: Connection, run: RunRow, before: int | None, limit: int, kinds: Sequence[EntryKind] = ()
    ) -> list[JournalEntry]:
        """Return what is known of entries before `before` (None: of all), hidden ones too, newest first.

        kinds: of entries; empty for all.
        """
        page = _PAGE.where(journal.c.run_id == run.id)
        if before is not None:
            page = page.where(journal.c.seq < before)
        if kinds:
            page = page.where(journal.c.kind.in_(kinds))
            page = page if KINDS[Report] in kinds else page.where(text(IS_MARK))
        return [
            JournalEntry(
                seq=row.seq,
                epoch=row.epoch,
                step=row.step,
                kind=row.kind,
                closed=row.closed if row.kind == KINDS[Report] else None,
                hidden=row.hidden,
                time=datetime.fromtimestamp(row.created_at, UTC),
                **_told(decode_body(row.kind, row.body)),
            )
            # One by one: all their bodies may be tens of MB.
            for row in connection.execute(page.order_by(journal.c.seq.desc()).limit(limit))
        ]

    @reading
    def heads(self, connection: Connection, dataset: str | None = None) -> list[RunHead]:
        """Return where every run of a dataset stands, or of all datasets."""
        named = datasets.c.name.is_not(None) if dataset is None else datasets.c.name == dataset
        return list(map(RunHead._make, connection.execute(_HEADS.where(named))))

    async def known(self, heads: Sequence[RunHead]) -> dict[int, KnownRun]:
        """Return what journals tell, by the run's id; nothing of runs that were deleted or rewound meanwhile."""
        found: dict[int, KnownRun] = {}
        for first in range(0, len(heads), RUNS_AT_ONCE):
            found |= await self._known(heads[first : first + RUNS_AT_ONCE])
        return found

    @reading
    def _known(self, connection: Connection, heads: Sequence[RunHead]) -> dict[int, KnownRun]:
        those = connection.execute(RUNS.where(runs.c.id.in_([head.run_id for head in heads])))
        rows = {row.id: row for row in those}
        found = [_known(connection, head, rows.get(head.run_id)) for head in heads]
        return {known.row.id: known for known in found if known is not None}

    @reading
    def ends(self, connection: Connection, run: RunRow, head: int, steps: Sequence[int]) -> dict[int, Sums]:
        """Return the sums up to these steps of a run's present history, as far as entry `head`."""
        return _ends(connection, run, head, steps)
