"""What runs did, read from SQL: steps, curve, entries, one task's reports. A rewind hides what stood before it."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
from sqlalchemy import BigInteger, Connection, Double, bindparam, case, cast, func, select, text

from bots_service.core.entries import Body, Forget, Fork, Report, Rewind, SettingsChange
from bots_service.core.evidence import sum_by_task
from bots_service.errors import DamagedStateError
from bots_service.records import (
    CurvePoint,
    EntryKind,
    LoggedEntry,
    LoggedVisit,
    RunRow,
    SeqRange,
    StoredReceipt,
    VisitsPage,
)
from bots_service.storage.sql.codecs import KINDS, decode_body
from bots_service.storage.sql.database import Database, SqlRow
from bots_service.storage.sql.journal import receipt_of
from bots_service.storage.sql.tables import IS_MARK, journal, receipts, runs

_HEAD = select(runs.c.head, runs.c.epoch).where(runs.c.id == bindparam("run"))
_REWINDS = (
    select(journal.c.seq, journal.c.body)
    .where(journal.c.run_id == bindparam("run"), text(IS_MARK), journal.c.kind == KINDS[Rewind])
    .order_by(journal.c.seq)
)


def visible_spans(head: int, rewinds: list[tuple[int, int]]) -> list[SeqRange]:
    """Return the spans of the present history, oldest first.

    Goes backwards from the head: the newest rewind leads to the entry that it went back to, and so on from there.

    Args:
        head: the last seq.
        rewinds: (seq of the rewind, seq that it went back to), by seq.
    """
    spans: list[SeqRange] = []
    last = head
    for seq, to_seq in reversed(rewinds):
        if seq <= last:
            spans.append(SeqRange(seq - 1, last))
            last = to_seq
    spans.append(SeqRange(0, last))
    return spans[::-1]


def spans_of(connection: Connection, run_id: int) -> list[SeqRange]:
    """Return the spans of a run's present history; none if the run is gone."""
    row = connection.execute(_HEAD, {"run": run_id}).one_or_none()
    if row is None:
        return []
    return visible_spans(row.head, rewinds_of(connection, run_id) if row.epoch > 0 else [])


def rewinds_of(connection: Connection, run_id: int) -> list[tuple[int, int]]:
    """Return a run's rewinds by seq: the seq of each, and the seq that it went back to."""
    rewinds = []
    for seq, body in connection.execute(_REWINDS, {"run": run_id}):
        rewind = decode_body(body)
        if isinstance(rewind, Rewind):
            rewinds.append((seq, rewind.to_seq))
    return rewinds


_STEP = bindparam("step", type_=BigInteger)  # callers may ask for a step beyond those that the column holds
_CLOSING = select(receipts.c.seq).where(
    receipts.c.run_id == bindparam("run"), receipts.c.step == _STEP, receipts.c.closed
)
_HISTORY = (
    select(receipts, func.coalesce(receipts.c.created_at, journal.c.created_at).label("appended_at"))
    .outerjoin(journal, (journal.c.run_id == receipts.c.run_id) & (journal.c.seq == receipts.c.seq))
    .where(
        receipts.c.run_id == bindparam("run"),
        receipts.c.step > _STEP,
        receipts.c.closed,
        receipts.c.seq > bindparam("after"),
        receipts.c.seq <= bindparam("last"),
    )
    .order_by(receipts.c.step)
    .limit(bindparam("most"))
)


def closing_seq(connection: Connection, run: RunRow, step: int) -> int | None:
    """Return the seq of the entry after which `step` had just closed in the present history, None if there is none."""
    start = (0, 0) if run.parent is None else (run.origin_step, 1)
    if step == start[0]:
        return start[1]
    spans = spans_of(connection, run.id)
    found = connection.execute(_CLOSING, {"run": run.id, "step": step}).scalars()
    visible = [seq for seq in found if any(span.after < seq <= span.last for span in spans)]
    return visible[0] if visible else None


def closed_steps(connection: Connection, run_id: int, after_step: int, limit: int) -> list[StoredReceipt]:
    """Return closed steps of the present history in order, beginning behind `after_step`."""
    found: list[StoredReceipt] = []
    for span in spans_of(connection, run_id):
        values = {"run": run_id, "step": after_step, "most": limit - len(found), **span._asdict()}
        rows = connection.execute(_HISTORY, values)
        found += [StoredReceipt(receipt_of(row), row.appended_at) for row in rows]
    return found


_SUMS = ("reported", "effective", "all_solved", "none_solved", "rollouts", "successes", "late", "expired", "new_tasks")
_place = (receipts.c.step - 1 - bindparam("begin", type_=BigInteger)) // bindparam("width", type_=BigInteger)


def _weighed(column: Any) -> Any:
    """Return the sum of a mean over rollouts, times them."""
    return func.sum(column * receipts.c.rollouts)


_POINTS = (
    select(
        _place.label("place"),
        func.min(receipts.c.step).label("first_step"),
        func.max(receipts.c.step).label("last_step"),
        func.max(receipts.c.seq).label("seq"),
        *(func.sum(receipts.c[name]).label(name) for name in _SUMS),
        _weighed(receipts.c.brier).label("squared_error"),
        _weighed(receipts.c.log_loss).label("log_loss"),
    )
    .where(
        receipts.c.run_id == bindparam("run"),
        receipts.c.closed,
        receipts.c.seq > bindparam("after"),
        receipts.c.seq <= bindparam("last"),
    )
    .group_by(_place)
    .order_by(_place)
)
_ENDS = (
    select(
        receipts.c.seq,
        receipts.c.capability,
        receipts.c.distinct_tasks,
        cast(func.coalesce(receipts.c.created_at, journal.c.created_at), Double).label("time"),
    )
    .outerjoin(journal, (journal.c.run_id == receipts.c.run_id) & (journal.c.seq == receipts.c.seq))
    .where(receipts.c.run_id == bindparam("run"), receipts.c.seq.in_(bindparam("seqs", expanding=True)))
)


def curve(connection: Connection, run: RunRow, up_to: int, width: int) -> list[CurvePoint]:
    """Return the closed steps of the present history up to entry `up_to`, so many steps a point, in order."""
    of_run = {"run": run.id, "begin": run.origin_step, "width": width}
    parts: dict[int, list[SqlRow]] = {}
    for span in spans_of(connection, run.id):
        values = {**of_run, "after": span.after, "last": min(span.last, up_to)}
        for row in connection.execute(_POINTS, values):
            parts.setdefault(row.place, []).append(row)
    if not parts:
        return []
    seqs = [rows[-1].seq for rows in parts.values()]
    ends = {row.seq: row for row in connection.execute(_ENDS, {"run": run.id, "seqs": seqs})}
    return [_point(rows, ends[rows[-1].seq]) for rows in parts.values()]


def _point(rows: list[SqlRow], end: SqlRow) -> CurvePoint:
    """Return the point of some steps. rows: of the spans in which they closed, oldest first."""
    sums = {name: sum(getattr(row, name) for row in rows) for name in _SUMS}
    return CurvePoint(
        first_step=rows[0].first_step,
        last_step=rows[-1].last_step,
        capability=end.capability,
        distinct_tasks=end.distinct_tasks,
        brier=_mean((row.squared_error for row in rows), sums["rollouts"]),
        log_loss=_mean((row.log_loss for row in rows), sums["rollouts"]),
        time=end.time,
        **sums,
    )


def _mean(totals: Iterable[float | None], rollouts: float) -> float | None:
    """Return a mean over rollouts, None where no step had any."""
    known = [total for total in totals if total is not None]
    return sum(known) / rollouts if known and rollouts else None


_PAGE = (
    select(
        journal.c.seq,
        journal.c.epoch,
        # A fork's holds a whole state, tens of MB for a large pool, and nothing that a page tells.
        case((journal.c.kind != KINDS[Fork], journal.c.body)).label("body"),
        journal.c.kind,
        journal.c.created_at,
        receipts.c.step,
        receipts.c.closed,
    )
    .join(receipts, (receipts.c.run_id == journal.c.run_id) & (receipts.c.seq == journal.c.seq))
    .where(journal.c.run_id == bindparam("run"), journal.c.seq < bindparam("before", type_=BigInteger))
    .order_by(journal.c.seq.desc())
    .limit(bindparam("most"))
)
_PAGE_OF_KINDS = _PAGE.where(journal.c.kind.in_(bindparam("kinds", expanding=True)))
_PAGE_OF_MARKS = _PAGE_OF_KINDS.where(text(IS_MARK))


def entries_before(
    connection: Connection, run_id: int, seq: int, limit: int, kinds: Sequence[EntryKind]
) -> list[LoggedEntry]:
    """Return what is known of the entries before `seq`, the newest first, at most `limit`; kinds: empty for all.

    Raises:
        DamagedStateError: a body can't be read.
    """
    spans = spans_of(connection, run_id)
    if not spans:
        return []
    # None beyond the head that the spans reach to: what others appended since may be a rewind, which hides more.
    values: dict[str, Any] = {"run": run_id, "before": min(seq, spans[-1].last + 1), "most": limit}
    page = _PAGE
    if kinds:
        values["kinds"] = list(kinds)
        page = _PAGE_OF_KINDS if KINDS[Report] in kinds else _PAGE_OF_MARKS
    return [
        LoggedEntry(
            seq=row.seq,
            epoch=row.epoch,
            kind=row.kind,
            step=row.step,
            closed=row.closed,
            is_hidden=not any(span.after < row.seq <= span.last for span in spans),
            created_at=row.created_at,
            **({} if row.body is None else _told(decode_body(row.body))),
        )
        for row in connection.execute(page, values)  # one by one: all their bodies may be tens of MB
    ]


def _told(body: Body) -> dict[str, Any]:
    """Return what a page tells of a body."""
    if isinstance(body, Report):
        seen, parts = body.evidence, body.parts
        rollouts = float(seen.successes.sum() + seen.failures.sum())
        rollouts += float(parts.successes.sum() + parts.failures.sum())
        tasks = len(seen) + len(np.unique(parts.tasks))
        return {"tasks": tasks, "effective": int(seen.effective.sum()), "rollouts": rollouts}
    if isinstance(body, Forget):
        return {"tasks": len(body.tasks)}
    if isinstance(body, Rewind):
        return {"to_step": body.to_step}
    return {"changed": body.values} if isinstance(body, SettingsChange) else {}


ENTRIES = 500  # read at most for one page: reports of 32 tasks take about 10 ms
CHUNK = 25  # entries at a time: a report's body may take MBs, and drivers fetch a whole result at once
BODY_CHARACTERS = 16 * 2**20  # of all entries of a page; the last chunk may exceed it

_PRUNED = select(runs.c.pruned).where(runs.c.id == bindparam("run"))
_REPORTS = (
    select(
        journal.c.seq,
        journal.c.body,
        journal.c.created_at,
        receipts.c.step,
        receipts.c.late,
        receipts.c.expired,
    )
    .join(receipts, (receipts.c.run_id == journal.c.run_id) & (receipts.c.seq == journal.c.seq))
    .where(
        journal.c.run_id == bindparam("run"),
        journal.c.kind == KINDS[Report],
        journal.c.seq > bindparam("after", type_=BigInteger),
        journal.c.seq < bindparam("before", type_=BigInteger),
    )
    .order_by(journal.c.seq.desc())
)


class _PartsTasks(msgspec.Struct):
    """Of parts of groups, the tasks alone."""

    tasks: list[int] = []


class _ReportedTasks(msgspec.Struct):
    """Of a report's body, the tasks alone: the rest of most bodies need not be read."""

    tasks: list[int]
    parts: _PartsTasks = msgspec.field(default_factory=_PartsTasks)


_reported = msgspec.json.Decoder(_ReportedTasks)


def visits_before(connection: Connection, run_id: int, task: int, seq: int, limit: int) -> VisitsPage:
    """Return what the reports before `seq` said of a task, the newest first.

    Raises:
        DamagedStateError: a body can't be read.
    """
    spans, pruned = spans_of(connection, run_id), connection.scalar(_PRUNED, {"run": run_id}) or 0
    if not spans:
        return VisitsPage([], None, pruned)
    # None beyond the head that the spans reach to: what others appended since may be a rewind, which hides more.
    before = min(seq, spans[-1].last + 1)
    oldest = max(pruned, before - 1 - ENTRIES)
    visits: list[LoggedVisit] = []
    characters = 0
    while before - 1 > oldest and len(visits) < limit and characters < BODY_CHARACTERS:
        after = max(oldest, before - 1 - CHUNK)
        rows = connection.execute(_REPORTS, {"run": run_id, "after": after, "before": before}).all()
        found = [visit for row in rows if (visit := _visit(row, task, spans)) is not None]
        characters += sum(len(row.body) for row in rows)
        rest = limit - len(visits)
        visits += found[:rest]
        before = visits[-1].seq if len(found) >= rest else after + 1
    return VisitsPage(visits, before if before - 1 > pruned else None, pruned)


def _visit(row: SqlRow, task: int, spans: list[SeqRange]) -> LoggedVisit | None:
    """Return what a report said of the task, None if nothing."""
    try:
        reported = _reported.decode(row.body)
        if task not in reported.tasks and task not in reported.parts.tasks:
            return None
    except msgspec.MsgspecError as error:
        raise DamagedStateError(f"a journal entry can't be read: {error}") from error
    body = decode_body(row.body)
    assert isinstance(body, Report)  # noqa: S101 - for the type checker
    seen, parts = sum_by_task(body.evidence.where(body.evidence.tasks == task)), body.parts
    parts = parts.where(parts.tasks == task)
    successes = float(seen.successes.sum() + parts.successes.sum())
    trials = successes + float(seen.failures.sum() + parts.failures.sum())
    if not trials:  # all of these were aborted
        return None
    return LoggedVisit(
        seq=row.seq,
        step=row.step,
        successes=successes,
        trials=trials,
        is_effective=bool(seen.effective.any()),
        group_size=None if len(seen) else float(parts.group_size[-1]),
        is_late=row.late + row.expired > 0,
        is_hidden=not any(span.after < row.seq <= span.last for span in spans),
        created_at=row.created_at,
    )


_NO_END = 2**62


class SqlHistory:
    """What runs did: the present history, and the whole journal, entry by entry."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def closing(self, run: RunRow, step: int) -> int | None:
        """Return the seq of the entry that closed `step` in the present history; None if there is none.

        Step 0 is seq 0 of a run that is not a fork; a fork begins with its parent's step, at seq 1.
        """
        return await self._database.read(lambda connection: closing_seq(connection, run, step))

    async def steps(self, run: RunRow, after_step: int, limit: int) -> list[StoredReceipt]:
        """Return closed steps of the present history in order, after `after_step`."""
        return await self._database.read(lambda connection: closed_steps(connection, run.id, after_step, limit))

    async def curve(self, run: RunRow, up_to: int, width: int) -> list[CurvePoint]:
        """Return the closed steps of the present history up to entry `up_to`, in order, `width` steps a point."""
        return await self._database.read(lambda connection: curve(connection, run, up_to, width))

    async def entries(
        self, run: RunRow, before: int | None, limit: int, kinds: Sequence[EntryKind] = ()
    ) -> list[LoggedEntry]:
        """Return what is known of entries before `before` (None: of all), hidden ones too, newest first."""
        seq = _NO_END if before is None else before
        return await self._database.read(lambda connection: entries_before(connection, run.id, seq, limit, kinds))

    async def visits(self, run: RunRow, task: int, before: int | None, limit: int) -> VisitsPage:
        """Return at most `limit` reports of a task before `before` (None: of all), hidden ones too, newest first."""
        seq = _NO_END if before is None else before
        return await self._database.read(lambda connection: visits_before(connection, run.id, task, seq, limit))
