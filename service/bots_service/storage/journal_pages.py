"""The whole journal of a run in SQL, newest entry first, what rewinds hid included."""

from sqlalchemy import BigInteger, Connection, bindparam, select

from bots_service.ports.journal_records import LoggedEntry
from bots_service.storage.append_batch import entry_of
from bots_service.storage.lineage import spans_of
from bots_service.storage.tables import journal, receipts

_PAGE = (
    select(
        journal.c.seq,
        journal.c.epoch,
        journal.c.profiles,
        journal.c.body,
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
    """Return the entries before `seq`, the newest first, at most `limit`."""
    rows = connection.execute(_PAGE, {"run": run_id, "before": seq, "most": limit}).all()
    spans = spans_of(connection, run_id)  # afterwards, so that they reach to the newest of these entries at least
    return [
        LoggedEntry(
            entry=entry_of(row),
            kind=row.kind,
            step=row.step,
            closed=row.closed,
            is_hidden=not any(span.after < row.seq <= span.last for span in spans),
            created_at=row.created_at,
        )
        for row in rows
    ]
