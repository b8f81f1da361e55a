"""Receipts in SQL: kept many at a time, and read along the run's present history."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import BigInteger, Connection, bindparam, func, select

from bots_service.core.receipt import BINS, Calibration, Receipt, Tally
from bots_service.errors import BotsError
from bots_service.ports.records import RunRow, StoredReceipt
from bots_service.storage.append_batch import padded
from bots_service.storage.database import SqlRow
from bots_service.storage.insert_missing import insert_missing
from bots_service.storage.lineage import spans_of
from bots_service.storage.tables import journal, receipts, runs

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
_TAIL = 1000  # entries: about 1 ms to look through; what lacks is mostly the receipts of the last few
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

    Counting them is quick and mostly enough; else the tail is, where as many lack as in all.
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
    start = (0, 0) if run.parent is None else (run.parent.step, 1)
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
