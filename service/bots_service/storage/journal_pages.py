"""The whole journal of a run in SQL, newest entry first, what rewinds hid included."""

from typing import Any

from sqlalchemy import BigInteger, Connection, bindparam, case, select

from bots_service.core.entries import Body, Fork, Report, Rewind, SettingsChange
from bots_service.ports.journal_records import LoggedEntry
from bots_service.storage.entries_codec import KINDS, decode_body
from bots_service.storage.lineage import spans_of
from bots_service.storage.tables import journal, receipts

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
    .outerjoin(receipts, (receipts.c.run_id == journal.c.run_id) & (receipts.c.seq == journal.c.seq))
    .where(journal.c.run_id == bindparam("run"), journal.c.seq < bindparam("before", type_=BigInteger))
    .order_by(journal.c.seq.desc())
    .limit(bindparam("most"))
)


def entries_before(connection: Connection, run_id: int, seq: int, limit: int) -> list[LoggedEntry]:
    """Return what is known of the entries before `seq`, the newest first, at most `limit`.

    Raises:
        DamagedStateError: a body can't be read.
    """
    spans = spans_of(connection, run_id)
    if not spans:
        return []
    # None beyond the head that the spans reach to: what others appended since may be a rewind, which hides more.
    values = {"run": run_id, "before": min(seq, spans[-1].last + 1), "most": limit}
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
        for row in connection.execute(_PAGE, values)  # one by one: all their bodies may be tens of MB
    ]


def _told(body: Body) -> dict[str, Any]:
    """Return what a page tells of a body."""
    if isinstance(body, Report):
        seen = body.evidence
        rollouts = float(seen.successes.sum() + seen.failures.sum())
        return {"tasks": len(seen), "effective": int(seen.effective.sum()), "rollouts": rollouts}
    if isinstance(body, Rewind):
        return {"to_step": body.to_step}
    return {"changed": body.values} if isinstance(body, SettingsChange) else {}
