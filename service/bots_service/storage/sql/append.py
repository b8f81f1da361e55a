"""Group commit: appends many entries to many journals in one transaction, by four statements."""

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from functools import cache, partial
from threading import Lock
from typing import Any, Generic, TypeVar

from sqlalchemy import BigInteger, Connection, Text, TextClause, bindparam, func, insert, select, text, update

from bots_service.core.entries import Entry, Report, Rewind
from bots_service.errors import (
    BotsError,
    BusyError,
    KeyReusedError,
    StaleEpochError,
    StorageUnavailableError,
    UnknownRunError,
)
from bots_service.ports.records import AppendResult, IdempotencyKey, NewEntry, RunRow
from bots_service.storage.sql.codecs import KINDS, decode_body
from bots_service.storage.sql.database import Database, SqlRow, for_another
from bots_service.storage.sql.tables import IS_MARK, journal, runs

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

MOST_ITEMS = 500  # in one job; more would make the first wait long for the last


class _Batch(Generic[Item, Outcome]):
    def __init__(self) -> None:
        self.items: list[Item] = []
        self.sealed = False
        self.outcomes: asyncio.Future[list[Outcome | BotsError]] = asyncio.get_running_loop().create_future()

    @property
    def is_open(self) -> bool:
        """Whether the writer will still come for more: not if it came, nor if it could not even begin."""
        return not self.sealed and not self.outcomes.done() and len(self.items) < MOST_ITEMS


class Gathering(Generic[Item, Outcome]):
    """Collects items until the writer comes for them, one batch after another. Belongs to one event loop."""

    def __init__(
        self,
        database: Database,
        work: Callable[[Connection, list[Item]], list[Outcome | BotsError]],
        committed: Callable[[list[Item], list[Outcome | BotsError]], None] | None = None,
    ) -> None:
        """Collect for one kind of work.

        Args:
            database: where the work is done.
            work: does all items in one go and returns, for each, its outcome or why it was refused.
            committed: called with each batch's items and outcomes in the order of commits, before any caller continues.
        """
        self._database = database
        self._work = work
        self._committed = committed
        self._lock = Lock()
        self._batch: _Batch[Item, Outcome] | None = None

    async def add(self, item: Item) -> Outcome:
        """Return the item's outcome once it is committed; a caller that no longer waits changes nothing."""
        with self._lock:
            if self._batch is None or not self._batch.is_open:
                self._batch = _Batch()
                # Not at once: under load, several callers come in one turn of the event loop.
                asyncio.get_running_loop().call_soon(self._submit, self._batch, context=Context())
            batch = self._batch
            place = len(batch.items)
            batch.items.append(item)
        try:
            outcome = (await asyncio.shield(batch.outcomes))[place]
        except StorageUnavailableError as error:
            raise for_another(error) from error.__cause__
        if isinstance(outcome, BotsError):
            raise outcome
        return outcome

    def _submit(self, batch: _Batch[Item, Outcome]) -> None:
        def job(connection: Connection) -> list[Outcome | BotsError]:
            with self._lock:
                batch.sealed = True
            return self._work(connection, batch.items)

        try:
            written = self._database.write(job, lane=self)
        except Exception as error:  # its callers wait for this alone
            batch.outcomes.set_exception(error)
        else:
            written.add_done_callback(partial(self._settle, batch))

    def _settle(self, batch: _Batch[Item, Outcome], written: asyncio.Future[list[Outcome | BotsError]]) -> None:
        error = written.exception()
        if error is not None:
            batch.outcomes.set_exception(error)
            return
        batch.outcomes.set_result(written.result())  # the callers continue in the event loop's next turn
        if self._committed is not None:
            self._committed(batch.items, written.result())


# On PostgreSQL the lock makes seqs follow commit order; the order of ids keeps two batches from a deadlock. It lets
# receipts and snapshots refer to the run meanwhile.
_HEADS = (
    select(runs.c.id, runs.c.uid, runs.c.head, runs.c.epoch, runs.c.pruned)
    .where(runs.c.id.in_(bindparam("ids", expanding=True)))
    .order_by(runs.c.id)
    .with_for_update(key_share=True)
)
_CHANGES = (
    select(journal.c.run_id, func.max(journal.c.seq))
    .where(journal.c.run_id.in_(bindparam("ids", expanding=True)), text(IS_MARK))
    .group_by(journal.c.run_id)
)
_INSERT = insert(journal)
_MOVE_HEAD = update(runs).where(runs.c.id == bindparam("run")).values(head=bindparam("to"), epoch=bindparam("now"))


@dataclass(frozen=True, slots=True)
class PendingAppend:
    """An entry that waits for the writer. text: its body as it will stand in SQL."""

    run: RunRow
    new_entry: NewEntry
    text: str


@dataclass(slots=True)
class _Head:
    uid: str
    seq: int
    epoch: int
    pruned: int
    changed: int = 0  # seq of the last entry that is no report, where an entry asks for it
    moved: bool = False


_Known = dict[tuple[int, str], tuple[str | None, SqlRow]]


def append_all(connection: Connection, pending: Sequence[PendingAppend], now: float) -> list[AppendResult | BotsError]:
    """Append the entries in order; return the result of each, or why it was refused."""
    heads = {
        row.id: _Head(row.uid, row.head, row.epoch, row.pruned)
        for row in connection.execute(_HEADS, {"ids": padded(sorted({item.run.id for item in pending}))})
    }
    if checked := sorted({item.run.id for item in pending if item.new_entry.checked_at is not None}):
        for run_id, seq in connection.execute(_CHANGES, {"ids": padded(checked)}):
            heads[run_id].changed = seq
    keys = [(item.run.id, item.new_entry.idempotency_key) for item in pending]
    known = _known(connection, [(run_id, key.key) for run_id, key in keys if key is not None])
    results: list[AppendResult | BotsError] = []
    rows: list[dict[str, Any]] = []
    for item in pending:
        try:
            result = _append(item, heads, known)
        except BotsError as error:
            results.append(error)
            continue
        results.append(result)
        if not result.duplicate:
            rows.append(_row(item, result.entry, now))
    if rows:
        connection.execute(_INSERT, rows)
        moved = [{"run": run, "to": head.seq, "now": head.epoch} for run, head in heads.items() if head.moved]
        connection.execute(_MOVE_HEAD, moved)
    return results


def entry_under(connection: Connection, run: RunRow, idempotency_key: IdempotencyKey) -> Entry | None:
    """Return the entry that was appended under this key, None if none was.

    Raises:
        KeyReusedError: the key is known with another fingerprint.
    """
    known = _known(connection, [(run.id, idempotency_key.key)])
    return _first(known, run, idempotency_key)


def padded(items: list[Item]) -> list[Item]:
    """Return the items, and the last one again up to a power of two: a few sizes make a few statements to prepare."""
    return items + items[-1:] * ((1 << (len(items) - 1).bit_length()) - len(items))


def entry_of(row: SqlRow) -> Entry:
    """Return the entry that a row of the journal holds.

    Raises:
        DamagedStateError: its body can't be read.
    """
    return Entry(row.seq, row.epoch, row.profiles, decode_body(row.body))


def _known(connection: Connection, keys: Sequence[tuple[int, str]]) -> _Known:
    """Return the entries that have these keys of these runs already."""
    pairs = list(set(keys))
    if not pairs:
        return {}
    values: dict[str, int | str] = {}
    for place, (run_id, key) in enumerate(padded(pairs)):
        values[f"run_{place}"], values[f"key_{place}"] = run_id, key
    rows = connection.execute(_known_statement(len(values) // 2), values)
    return {(row.run_id, row.key): (row.fingerprint, row) for row in rows}


@cache
def _known_statement(pairs: int) -> TextClause:
    """Return the look-up of so many keys. SQLite would scan the whole journal for (run_id, key) IN (...)."""
    wanted = ", ".join(f"(:run_{place}, :key_{place})" for place in range(pairs))
    run_ids = [bindparam(f"run_{place}", type_=BigInteger) for place in range(pairs)]
    keys = [bindparam(f"key_{place}", type_=Text) for place in range(pairs)]
    statement = text(
        f"WITH wanted (run_id, key) AS (VALUES {wanted}) "  # noqa: S608 - names of parameters
        "SELECT j.run_id, j.key, j.fingerprint, j.seq, j.epoch, j.profiles, j.body "
        "FROM wanted JOIN journal j ON j.run_id = wanted.run_id AND j.key = wanted.key"
    )
    return statement.bindparams(*run_ids, *keys)


def _append(item: PendingAppend, heads: dict[int, _Head], known: _Known) -> AppendResult:
    run, new, body, key = item.run, item.new_entry, item.new_entry.body, item.new_entry.idempotency_key
    head = heads.get(run.id)
    if head is None or head.uid != run.uid:
        raise UnknownRunError(f"run {run.name!r} was deleted or replaced")
    first = None if key is None else _first(known, run, key)
    if first is not None:
        return AppendResult(first, duplicate=True)
    if new.epoch is not None and new.epoch != head.epoch:
        raise StaleEpochError(f"evidence of epoch {new.epoch}; run {run.name!r} was rewound to epoch {head.epoch}")
    if new.checked_at is not None and new.checked_at < head.changed:
        raise BusyError(f"run {run.name!r} was changed by another request at the same time; try again")
    if isinstance(body, Rewind) and body.to_seq < head.pruned:
        raise BusyError(f"run {run.name!r} was pruned meanwhile; check that step {body.to_step} still exists")
    head.seq, head.epoch, head.moved = head.seq + 1, head.epoch + isinstance(body, Rewind), True
    if not isinstance(body, Report):
        head.changed = head.seq
    entry = Entry(head.seq, head.epoch, new.profiles, body)
    if key is not None:
        known[run.id, key.key] = (key.fingerprint, entry)
    return AppendResult(entry, duplicate=False)


def _first(known: _Known, run: RunRow, idempotency_key: IdempotencyKey) -> Entry | None:
    """Return the entry that has this key of the run."""
    key = idempotency_key.key
    if (run.id, key) not in known:
        return None
    fingerprint, first = known[run.id, key]
    if fingerprint != idempotency_key.fingerprint:
        raise KeyReusedError(f"idempotency key {key!r} was already used with a different request")
    return first if isinstance(first, Entry) else entry_of(first)


def _row(item: PendingAppend, entry: Entry, now: float) -> dict[str, Any]:
    key = item.new_entry.idempotency_key
    return {
        "run_id": item.run.id,
        "seq": entry.seq,
        "epoch": entry.epoch,
        "kind": KINDS[type(entry.body)],
        "profiles": entry.profiles,
        "body": item.text,
        "key": None if key is None else key.key,
        "fingerprint": None if key is None else key.fingerprint,
        "created_at": now,
    }
