"""The present history of a run in SQL: visible entries, receipts, curve. A rewind hides what stood before it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import BigInteger, Connection, Double, bindparam, cast, func, select, text

from bots_service.core.entries import Rewind
from bots_service.core.evidence import Costs
from bots_service.core.receipt import BINS, Calibration, Receipt, Tally
from bots_service.errors import BotsError
from bots_service.ports.courses import SeqRange
from bots_service.ports.records import CurvePoint, RunRow, StoredReceipt
from bots_service.storage.sql.answers import insert_missing
from bots_service.storage.sql.append import padded
from bots_service.storage.sql.codecs import KINDS, decode_body
from bots_service.storage.sql.database import SqlRow
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


# On PostgreSQL the lock keeps the runs from being deleted before their receipts are in.
_STANDING = (
    select(runs.c.id)
    .where(runs.c.id.in_(bindparam("ids", expanding=True)))
    .order_by(runs.c.id)
    .with_for_update(key_share=True, read=True)
)
_STEP = bindparam("step", type_=BigInteger)  # callers may ask for a step beyond those that the column holds
_ONE = select(receipts).where(receipts.c.run_id == bindparam("run"), receipts.c.seq == bindparam("seq"))
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
_KEPT = select(func.count()).where(receipts.c.run_id == bindparam("run"), receipts.c.seq <= bindparam("up_to"))
_WITHOUT = (
    select(journal.c.seq)
    .outerjoin(receipts, (receipts.c.run_id == journal.c.run_id) & (receipts.c.seq == journal.c.seq))
    .where(
        journal.c.run_id == bindparam("run"),
        journal.c.seq > bindparam("after"),
        journal.c.seq <= bindparam("up_to"),
        receipts.c.seq.is_(None),
    )
    .order_by(journal.c.seq)
    .limit(bindparam("most"))
)
_TAIL = 1000  # entries: about 1 ms to search; missing receipts are mostly those of the last few
_TALLY = tuple(Tally.__slots__)


@dataclass(frozen=True, slots=True)
class Kept:
    """A receipt that wants to be kept."""

    run: RunRow
    receipt: Receipt


def keep_all(connection: Connection, batch: Sequence[list[Kept]]) -> list[BotsError | None]:
    """Keep the receipts of runs that still stand; those that are kept already stay."""
    # In one order everywhere: two replicas that keep the same receipts wait for each other in no circle.
    wanted = sorted((kept for several in batch for kept in several), key=lambda kept: (kept.run.id, kept.receipt.seq))
    ids = padded(sorted({kept.run.id for kept in wanted}))
    standing = set(connection.execute(_STANDING, {"ids": ids}).scalars())
    rows = [_row(kept) for kept in wanted if kept.run.id in standing]
    if rows:
        connection.execute(insert_missing(connection, receipts), rows)
    return [None] * len(batch)


def receipt_at(connection: Connection, run_id: int, seq: int) -> Receipt | None:
    """Return what folding entry `seq` did, None if that is not kept."""
    row = connection.execute(_ONE, {"run": run_id, "seq": seq}).one_or_none()
    return None if row is None else receipt_of(row)


def first_without_receipt(connection: Connection, run_id: int, up_to: int) -> int | None:
    """Return the first seq up to `up_to` that has no receipt.

    Counting them is quick and mostly enough; otherwise the tail is, if it has all the missing ones.
    """
    values = {"run": run_id, "up_to": up_to}
    lacking = up_to - (connection.scalar(_KEPT, values) or 0)
    if lacking == 0:
        return None
    near = {**values, "after": max(0, up_to - _TAIL), "most": _TAIL}
    found = list(connection.execute(_WITHOUT, near).scalars())
    if len(found) < lacking:
        found = list(connection.execute(_WITHOUT, {**values, "after": 0, "most": 1}).scalars())
    return found[0] if found else None


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


def _row(kept: Kept) -> dict[str, Any]:
    receipt = kept.receipt
    return {
        "run_id": kept.run.id,
        "seq": receipt.seq,
        "epoch": receipt.epoch,
        "step": receipt.step,
        "closed": receipt.closed,
        "capability": receipt.capability,
        "late": receipt.late,
        "expired": receipt.expired,
        "brier": receipt.brier,
        "log_loss": receipt.log_loss,
        "calibration": _encoded(receipt.calibration),
        "new_tasks": receipt.new_tasks,
        "distinct_tasks": receipt.distinct_tasks,
        "skipped": receipt.skipped,
        "tokens": receipt.costs.tokens,
        "seconds": receipt.costs.seconds,
    } | {name: getattr(receipt.tally, name) for name in _TALLY}


def receipt_of(row: SqlRow) -> Receipt:
    """Return the receipt that a row holds."""
    return Receipt(
        seq=row.seq,
        epoch=row.epoch,
        step=row.step,
        closed=row.closed,
        tally=Tally(**{name: getattr(row, name) for name in _TALLY}),
        capability=row.capability,
        late=row.late,
        expired=row.expired,
        brier=row.brier,
        log_loss=row.log_loss,
        calibration=_decoded(row.calibration),
        new_tasks=row.new_tasks,
        distinct_tasks=row.distinct_tasks,
        costs=Costs(row.tokens, row.seconds),
        skipped=row.skipped,
    )


def _encoded(calibration: Calibration | None) -> bytes | None:
    if calibration is None:
        return None
    return np.array([calibration.rollouts, calibration.predicted, calibration.solved], "<f8").tobytes()


def _decoded(blob: bytes | None) -> Calibration | None:
    if blob is None:
        return None
    rollouts, predicted, solved = np.frombuffer(blob, "<f8").reshape(3, BINS).tolist()
    return Calibration(tuple(rollouts), tuple(predicted), tuple(solved))


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
