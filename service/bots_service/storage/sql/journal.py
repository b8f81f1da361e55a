"""Journals in SQL: each entry with what folding it did, in one row."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from sqlalchemy import BigInteger, Connection, and_, bindparam, insert, select, text, update

from bots_service.core.entries import Entry, Rewind
from bots_service.core.evidence import Costs
from bots_service.core.outlook import UniformEstimate
from bots_service.core.receipt import BINS, Calibration, Receipt, StepSums, TagCounts, Tally, added
from bots_service.core.summary.verdict import RunFindings
from bots_service.errors import KeyReusedError, UnknownRunError
from bots_service.records import Head, IdempotencyKey, RunRow
from bots_service.storage.sql.codecs import KINDS, decode_body, encode_body
from bots_service.storage.sql.database import UNANSWERED, Database, SqlRow
from bots_service.storage.sql.tables import IS_STEP, datasets, journal, runs

_ESTIMATE = (journal.c.uniform, journal.c.expected)
_HEAD = select(
    runs.c.id, runs.c.uid, runs.c.head, runs.c.epoch, runs.c.pruned, datasets.c.version, *_ESTIMATE
).select_from(runs.join(datasets).outerjoin(journal, and_(journal.c.run_id == runs.c.id, journal.c.seq == runs.c.head)))
# The lock makes seqs follow commit order on PostgreSQL. Snapshots may refer to the run meanwhile.
_LOCKED_HEAD = _HEAD.where(runs.c.id == bindparam("run")).with_for_update(key_share=True, of=runs)
_HEADS = _HEAD.where(runs.c.id.in_(bindparam("ids", expanding=True)))
_THIS = (journal.c.run_id == bindparam("run"), journal.c.seq == bindparam("seq"))
_BETWEEN = (
    select(journal.c.seq, journal.c.epoch, journal.c.profiles, journal.c.body)
    .where(
        journal.c.run_id == bindparam("run"),
        journal.c.seq > bindparam("after", type_=BigInteger),
        journal.c.seq <= bindparam("up_to", type_=BigInteger),
        journal.c.body.is_not(None),
    )
    .order_by(journal.c.seq)
    .limit(bindparam("most"))
)
_BY_KEY = select(journal).where(journal.c.run_id == bindparam("run"), journal.c.key == bindparam("key"))
_RECEIPT = select(journal).where(*_THIS)
_CALIBRATIONS = select(journal.c.calibration).where(
    journal.c.run_id == bindparam("run"), text(IS_STEP), journal.c.step > bindparam("step")
)
_CREATED_AT = select(journal.c.created_at).where(*_THIS)
_APPEND = insert(journal).execution_options(**UNANSWERED)
_MOVE_HEAD = (
    update(runs)
    .where(runs.c.id == bindparam("run"))
    .values(head=bindparam("to"), epoch=bindparam("now"))
    .execution_options(**UNANSWERED)
)
_HIDE = (
    update(journal)
    .where(
        journal.c.run_id == bindparam("run"),
        journal.c.seq > bindparam("to_seq"),
        journal.c.seq < bindparam("rewind_seq"),
    )
    .values(hidden=True)
)
_TALLY = tuple(Tally.__slots__)
_tags = msgspec.json.Decoder(dict[str, TagCounts])
_TOTALS = ("reported", "effective", "rollouts")


class FoldedEntry(NamedTuple):
    """An entry and what folding it did, to be stored.

    key: of the request.
    uniform: of uniform sampling by then.
    findings: what the journal says against the run by then; None where the service did not look.
    """

    entry: Entry
    receipt: Receipt
    key: IdempotencyKey | None = None
    uniform: UniformEstimate = UniformEstimate()
    findings: RunFindings | None = None


def locked_head(connection: Connection, run: RunRow) -> Head:
    """Return where a run stands; nothing else is appended to it before the transaction ends.

    Raises:
        UnknownRunError: it was deleted or replaced.
    """
    return _of_run(connection.execute(_LOCKED_HEAD, {"run": run.id}).one_or_none(), run)


def calibration_of(connection: Connection, run_id: int, after_step: int, folded: Sequence[FoldedEntry]) -> Calibration:
    """Return predicted and observed success of the closed steps behind one, those that are about to be stored too."""
    stored = connection.execute(_CALIBRATIONS, {"run": run_id, "step": after_step}).scalars()
    known = [*map(_calibration, stored), *(one.receipt.calibration for one in folded)]
    return added([one for one in known if one is not None])


def estimate_at(connection: Connection, run_id: int, seq: int) -> UniformEstimate:
    """Return the estimate of uniform sampling after entry `seq`."""
    row = connection.execute(_RECEIPT, {"run": run_id, "seq": seq}).one_or_none()
    return UniformEstimate() if row is None else UniformEstimate(row.uniform, row.expected)


def entries_between(connection: Connection, run_id: int, after: int, up_to: int, limit: int) -> list[Entry]:
    """Return entries after + 1, after + 2, ... up to `up_to` in order, at most `limit`.

    Raises:
        DamagedStateError: an entry can't be read.
    """
    rows = connection.execute(_BETWEEN, {"run": run_id, "after": after, "up_to": up_to, "most": limit})
    return list(map(_entry, rows))


def _entry(row: SqlRow) -> Entry:
    return Entry(row.seq, row.epoch, row.profiles, decode_body(row.body))


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
    """Store the next entries of a run whose head is locked, and move its head; a rewind hides what it undoes."""
    if not folded:
        return
    connection.execute(_APPEND, [_row(run_id, one, now) for one in folded])
    for one in folded:
        hide(connection, run_id, one.entry)
    last = folded[-1].entry
    connection.execute(_MOVE_HEAD, {"run": run_id, "to": last.seq, "now": last.epoch})


def hide(connection: Connection, run_id: int, entry: Entry) -> None:
    """Hide the entries that an entry undoes, if it is a rewind."""
    if isinstance(entry.body, Rewind):
        connection.execute(_HIDE, {"run": run_id, "to_seq": entry.body.to_seq, "rewind_seq": entry.seq})


def _row(run_id: int, folded: FoldedEntry, now: float) -> dict[str, Any]:
    entry, key, uniform = folded.entry, folded.key, folded.uniform
    return {
        "run_id": run_id,
        "profiles": entry.profiles,
        "kind": KINDS[type(entry.body)],
        "body": encode_body(entry.body),
        "key": None if key is None else key.key,
        "fingerprint": None if key is None else key.fingerprint,
        "created_at": now,
        "hidden": False,
        "uniform": uniform.ratio,
        "expected": uniform.expected,
        "findings": None if folded.findings is None else msgspec.json.encode(folded.findings).decode(),
        "distribution": None if uniform.distribution is None else np.array(uniform.distribution, "<f4").tobytes(),
    } | receipt_columns(folded.receipt)


def receipt_columns(receipt: Receipt) -> dict[str, Any]:
    """Return the columns of a receipt."""
    shown = receipt.calibration
    return (
        {
            "seq": receipt.seq,
            "epoch": receipt.epoch,
            "step": receipt.step,
            "closed": receipt.closed,
            "strategy": receipt.strategy,
            "capability": receipt.capability,
            "late": receipt.late,
            "expired": receipt.expired,
            "brier": receipt.brier,
            "log_loss": receipt.log_loss,
            "calibration": None
            if shown is None
            else np.array([shown.rollouts, shown.predicted, shown.solved], "<f8").tobytes(),
            "tags": msgspec.json.encode(receipt.tags).decode() if receipt.tags else None,
            "new_tasks": receipt.new_tasks,
            "distinct_tasks": receipt.distinct_tasks,
            "tokens": receipt.costs.tokens,
            "seconds": receipt.costs.seconds,
        }
        | {name: getattr(receipt.tally, name) for name in _TALLY}
        | {f"total_{name}": getattr(receipt.totals, name) for name in _TOTALS}
    )


def receipt_of(row: SqlRow) -> Receipt:
    """Return the receipt that a row holds."""
    return Receipt(
        seq=row.seq,
        epoch=row.epoch,
        step=row.step,
        closed=row.closed,
        strategy=row.strategy,
        tags={} if row.tags is None else _tags.decode(row.tags),
        tally=Tally(**{name: getattr(row, name) for name in _TALLY}),
        capability=row.capability,
        late=row.late,
        expired=row.expired,
        brier=row.brier,
        log_loss=row.log_loss,
        calibration=_calibration(row.calibration),
        new_tasks=row.new_tasks,
        distinct_tasks=row.distinct_tasks,
        totals=StepSums(row.total_reported, row.total_effective, row.total_rollouts),
        costs=Costs(row.tokens, row.seconds),
    )


def distribution_of(blob: bytes) -> tuple[float, ...]:
    """Return the shares of a pool that a row holds."""
    return tuple(np.frombuffer(blob, "<f4").tolist())


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
    uniform = UniformEstimate(row.uniform, row.expected)
    return Head(row.uid, row.head, row.epoch, row.pruned, row.version, uniform)


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

    async def estimate(self, run: RunRow, seq: int) -> UniformEstimate:
        """Return the estimate of uniform sampling after entry `seq`."""
        return await self._database.read(lambda connection: estimate_at(connection, run.id, seq))

    async def receipt(self, run: RunRow, seq: int) -> Receipt | None:
        """Return what folding entry `seq` did; None if there is no such entry."""
        row = await self._database.read(
            lambda connection: connection.execute(_RECEIPT, {"run": run.id, "seq": seq}).one_or_none()
        )
        return None if row is None else receipt_of(row)
