"""A run's present history in few points: the database adds up, so that a long run is as quick to send as any."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import BigInteger, Connection, Double, bindparam, cast, func, select

from bots_service.ports.records import CurvePoint, RunRow
from bots_service.storage.append_batch import padded
from bots_service.storage.database import SqlRow
from bots_service.storage.lineage import spans_of
from bots_service.storage.tables import journal, receipts

_SUMS = ("reported", "effective", "all_solved", "none_solved", "rollouts", "successes", "late", "expired")
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
    seqs = padded([rows[-1].seq for rows in parts.values()])
    ends = {row.seq: row for row in connection.execute(_ENDS, {"run": run.id, "seqs": seqs})}
    return [_point(rows, ends[rows[-1].seq]) for rows in parts.values()]


def _point(rows: list[SqlRow], end: SqlRow) -> CurvePoint:
    """Return the point of some steps. rows: of the spans in which they closed, oldest first."""
    sums = {name: sum(getattr(row, name) for row in rows) for name in _SUMS}
    return CurvePoint(
        first_step=rows[0].first_step,
        last_step=rows[-1].last_step,
        capability=end.capability,
        brier=_mean((row.squared_error for row in rows), sums["rollouts"]),
        log_loss=_mean((row.log_loss for row in rows), sums["rollouts"]),
        time=end.time,
        **sums,
    )


def _mean(totals: Iterable[float | None], rollouts: float) -> float | None:
    """Return a mean over rollouts, None where no step had any."""
    known = [total for total in totals if total is not None]
    return sum(known) / rollouts if known and rollouts else None
