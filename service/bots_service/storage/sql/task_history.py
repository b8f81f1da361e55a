"""What a run's reports said of one task: read backward from the newest entry, a part of the journal at a time."""

import msgspec
from sqlalchemy import BigInteger, Connection, bindparam, select

from bots_service.core.entries import Report
from bots_service.core.evidence import sum_by_task
from bots_service.errors import DamagedStateError
from bots_service.ports.courses import SeqRange
from bots_service.ports.journal import LoggedVisit, VisitsPage
from bots_service.storage.sql.codecs import KINDS, decode_body
from bots_service.storage.sql.database import SqlRow
from bots_service.storage.sql.history import spans_of
from bots_service.storage.sql.tables import journal, receipts, runs

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
    .outerjoin(receipts, (receipts.c.run_id == journal.c.run_id) & (receipts.c.seq == journal.c.seq))
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
        is_late=None if row.step is None else row.late + row.expired > 0,
        is_hidden=not any(span.after < row.seq <= span.last for span in spans),
        created_at=row.created_at,
    )
