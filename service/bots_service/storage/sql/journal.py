"""Journals in SQL: each entry with what folding it did, committed together."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import BigInteger, Connection, bindparam, insert, select, update

from bots_service.core.entries import Entry
from bots_service.core.evidence import Costs
from bots_service.core.receipt import BINS, Calibration, Receipt, Tally
from bots_service.errors import KeyReusedError, UnknownRunError
from bots_service.records import Head, IdempotencyKey, RunRow
from bots_service.storage.sql.codecs import KINDS, decode_body, encode_body
from bots_service.storage.sql.database import Database, SqlRow
from bots_service.storage.sql.tables import datasets, journal, receipts, runs

_HEAD = select(runs.c.id, runs.c.uid, runs.c.head, runs.c.epoch, runs.c.pruned, datasets.c.version).select_from(
    runs.join(datasets)
)
# The lock makes seqs follow commit order on PostgreSQL. Snapshots and outlooks may refer to the run meanwhile.
_LOCKED_HEAD = _HEAD.where(runs.c.id == bindparam("run")).with_for_update(key_share=True, of=runs)
_HEADS = _HEAD.where(runs.c.id.in_(bindparam("ids", expanding=True)))
_BETWEEN = (
    select(journal.c.seq, journal.c.epoch, journal.c.profiles, journal.c.body)
    .where(
        journal.c.run_id == bindparam("run"),
        journal.c.seq > bindparam("after", type_=BigInteger),
        journal.c.seq <= bindparam("up_to", type_=BigInteger),
    )
    .order_by(journal.c.seq)
    .limit(bindparam("most"))
)
_BY_KEY = (
    select(journal.c.fingerprint, receipts)
    .join(receipts, (receipts.c.run_id == journal.c.run_id) & (receipts.c.seq == journal.c.seq))
    .where(journal.c.run_id == bindparam("run"), journal.c.key == bindparam("key"))
)
_RECEIPT = select(receipts).where(receipts.c.run_id == bindparam("run"), receipts.c.seq == bindparam("seq"))
_CREATED_AT = select(journal.c.created_at).where(
    journal.c.run_id == bindparam("run"), journal.c.seq == bindparam("seq")
)
_MOVE_HEAD = update(runs).where(runs.c.id == bindparam("run")).values(head=bindparam("to"), epoch=bindparam("now"))
_TALLY = tuple(Tally.__slots__)


class FoldedEntry(NamedTuple):
    """An entry and what folding it did, to be stored. key: of the request."""

    entry: Entry
    receipt: Receipt
    key: IdempotencyKey | None = None


def locked_head(connection: Connection, run: RunRow) -> Head:
    """Return where a run stands; nothing else is appended to it before the transaction ends.

    Raises:
        UnknownRunError: it was deleted or replaced.
    """
    return _of_run(connection.execute(_LOCKED_HEAD, {"run": run.id}).one_or_none(), run)


def entries_between(connection: Connection, run_id: int, after: int, up_to: int, limit: int) -> list[Entry]:
    """Return entries after + 1, after + 2, ... up to `up_to` in order, at most `limit`.

    Raises:
        DamagedStateError: an entry can't be read.
    """
    rows = connection.execute(_BETWEEN, {"run": run_id, "after": after, "up_to": up_to, "most": limit})
    return [Entry(row.seq, row.epoch, row.profiles, decode_body(row.body)) for row in rows]


def receipt_under(connection: Connection, run: RunRow, key: IdempotencyKey) -> Receipt | None:
    """Return what the entry did that was appended under this key; None if there is none.

    Raises:
        KeyReusedError: it was another request's.
    """
    row = connection.execute(_BY_KEY, {"run": run.id, "key": key.key}).one_or_none()
    if row is None:
        return None
    require_same(key, row.fingerprint)
    return receipt_of(row)


def require_same(key: IdempotencyKey, fingerprint: str | None) -> None:
    """Raise KeyReusedError if the key's first request had another fingerprint."""
    if fingerprint != key.fingerprint:
        raise KeyReusedError(f"idempotency key {key.key!r} was already used with a different request")


def append(connection: Connection, run_id: int, folded: Sequence[FoldedEntry], now: float) -> None:
    """Store the next entries of a run whose head is locked, and move its head."""
    if not folded:
        return
    connection.execute(insert(journal), [_entry_row(run_id, one, now) for one in folded])
    connection.execute(insert(receipts), [receipt_row(run_id, one.receipt) for one in folded])
    last = folded[-1].entry
    connection.execute(_MOVE_HEAD, {"run": run_id, "to": last.seq, "now": last.epoch})


def _entry_row(run_id: int, folded: FoldedEntry, now: float) -> dict[str, Any]:
    entry, key = folded.entry, folded.key
    return {
        "run_id": run_id,
        "seq": entry.seq,
        "epoch": entry.epoch,
        "kind": KINDS[type(entry.body)],
        "profiles": entry.profiles,
        "body": encode_body(entry.body),
        "key": None if key is None else key.key,
        "fingerprint": None if key is None else key.fingerprint,
        "created_at": now,
    }


def receipt_row(run_id: int, receipt: Receipt) -> dict[str, Any]:
    """Return the columns of a receipt."""
    shown = receipt.calibration
    return {
        "run_id": run_id,
        "seq": receipt.seq,
        "epoch": receipt.epoch,
        "step": receipt.step,
        "closed": receipt.closed,
        "capability": receipt.capability,
        "late": receipt.late,
        "expired": receipt.expired,
        "brier": receipt.brier,
        "log_loss": receipt.log_loss,
        "calibration": None
        if shown is None
        else np.array([shown.rollouts, shown.predicted, shown.solved], "<f8").tobytes(),
        "new_tasks": receipt.new_tasks,
        "distinct_tasks": receipt.distinct_tasks,
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
        calibration=_calibration(row.calibration),
        new_tasks=row.new_tasks,
        distinct_tasks=row.distinct_tasks,
        costs=Costs(row.tokens, row.seconds),
    )


def _calibration(blob: bytes | None) -> Calibration | None:
    if blob is None:
        return None
    rollouts, predicted, solved = np.frombuffer(blob, "<f8").reshape(3, BINS).tolist()
    return Calibration(tuple(rollouts), tuple(predicted), tuple(solved))


def _of_run(row: SqlRow | None, run: RunRow) -> Head:
    if row is None or row.uid != run.uid:
        raise UnknownRunError(f"run {run.name!r} was deleted or replaced")
    return _head(row)


def _head(row: SqlRow) -> Head:
    return Head(row.uid, row.head, row.epoch, row.pruned, row.version)


class SqlJournal:
    """Reads of journals."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def head(self, run: RunRow) -> Head:
        """Return where a run stands.

        Raises:
            UnknownRunError: it was deleted or replaced.
        """
        row = await self._database.read(lambda connection: connection.execute(_HEADS, {"ids": [run.id]}).one_or_none())
        return _of_run(row, run)

    async def heads(self, run_ids: list[int]) -> dict[int, Head]:
        """Return where these runs stand, by id, without deleted ones."""
        rows = await self._database.read(lambda connection: connection.execute(_HEADS, {"ids": run_ids}).all())
        return {row.id: _head(row) for row in rows}

    async def between(self, run: RunRow, after: int, up_to: int, limit: int = 1000) -> list[Entry]:
        """Return entries after + 1, after + 2, ... up to `up_to` in order, at most `limit`.

        Raises:
            DamagedStateError: an entry can't be read.
        """
        return await self._database.read(lambda connection: entries_between(connection, run.id, after, up_to, limit))

    async def created_at(self, run: RunRow, seq: int) -> float | None:
        """Return when an entry was appended, in seconds since 1970, UTC; None if it is not there."""
        values = {"run": run.id, "seq": seq}
        return await self._database.read(lambda connection: connection.scalar(_CREATED_AT, values))

    async def receipt(self, run: RunRow, seq: int) -> Receipt | None:
        """Return what folding entry `seq` did; None if there is no such entry."""
        row = await self._database.read(
            lambda connection: connection.execute(_RECEIPT, {"run": run.id, "seq": seq}).one_or_none()
        )
        return None if row is None else receipt_of(row)
