"""The journal in SQL."""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sqlalchemy import BigInteger, Connection, bindparam, case, select, text

from bots_service.core.entries import (
    Body,
    Entry,
    Forget,
    Fork,
    Report,
    Rewind,
    SettingsChange,
)
from bots_service.core.receipt import Receipt
from bots_service.errors import BotsError, UnknownRunError
from bots_service.ports.journal import EntryKind, LoggedEntry, VisitsPage
from bots_service.ports.records import AppendResult, CurvePoint, Head, IdempotencyKey, NewEntry, RunRow, StoredReceipt
from bots_service.storage.sql.append import Gathering, PendingAppend, append_all, entry_of, entry_under
from bots_service.storage.sql.codecs import KINDS, decode_body, encode_body
from bots_service.storage.sql.database import Database
from bots_service.storage.sql.history import (
    Kept,
    closed_steps,
    closing_seq,
    curve,
    first_without_receipt,
    keep_all,
    receipt_at,
    spans_of,
)
from bots_service.storage.sql.tables import IS_MARK, datasets, journal, receipts, runs
from bots_service.storage.sql.task_history import visits_before

ENTRY_BYTES = 840  # of an entry without what its arrays hold, as tracemalloc counts 20,000 reports of 32 tasks


class Tail:
    """Committed entries by run, without a gap from each run's oldest to its newest, within a number of bytes."""

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes
        self._bytes = 0
        self._runs: OrderedDict[int, OrderedDict[int, Entry]] = OrderedDict()

    def add(self, run_id: int, entry: Entry) -> None:
        """Add the run's next entry; if some in between are missing, earlier ones are dropped."""
        entries = self._runs.setdefault(run_id, OrderedDict())
        newest = next(reversed(entries), 0)
        if entry.seq <= newest:
            return
        if entries and entry.seq != newest + 1:
            self._bytes -= sum(map(_nbytes, entries.values()))
            entries.clear()
        entries[entry.seq] = entry
        self._bytes += _nbytes(entry)
        self._runs.move_to_end(run_id)
        self._shrink()

    def between(self, run_id: int, seq: int, up_to: int) -> list[Entry] | None:
        """Return entries seq + 1 to up_to, None if not all of them are here."""
        entries = self._runs.get(run_id)
        if entries is None or seq + 1 not in entries or up_to not in entries:
            return None
        return [entries[wanted] for wanted in range(seq + 1, up_to + 1)]

    def _shrink(self) -> None:
        while self._bytes > self._capacity_bytes:
            run_id, entries = next(iter(self._runs.items()))
            _, oldest = entries.popitem(last=False)
            self._bytes -= _nbytes(oldest)
            if not entries:
                del self._runs[run_id]


def _nbytes(entry: Entry) -> int:
    body = entry.body
    if isinstance(body, Report):
        return ENTRY_BYTES + body.evidence.nbytes + body.parts.nbytes
    return ENTRY_BYTES + (len(body.state) if isinstance(body, Fork) else 0)


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
        receipts.c.skipped,
    )
    .outerjoin(receipts, (receipts.c.run_id == journal.c.run_id) & (receipts.c.seq == journal.c.seq))
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
            skipped=row.skipped,
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


TAIL_BYTES = 64 * 2**20  # about 40,000 reports of 32 tasks

_VERSION = select(datasets.c.version).where(datasets.c.id == runs.c.dataset_id).scalar_subquery()
_HEADS = select(runs.c.id, runs.c.uid, runs.c.head, _VERSION.label("version")).where(
    runs.c.id.in_(bindparam("ids", expanding=True))
)
_AFTER = (
    select(journal.c.seq, journal.c.epoch, journal.c.profiles, journal.c.body)
    .where(
        journal.c.run_id == bindparam("run"),
        journal.c.seq > bindparam("after"),
        journal.c.seq <= bindparam("up_to"),
    )
    .order_by(journal.c.seq)
    .limit(bindparam("most"))
)
_PRUNED = select(runs.c.pruned).where(runs.c.id == bindparam("run"))
_NO_END = 2**62


class SqlJournal:
    """A Journal. Callers that wait at the same time share statements, transaction and wait for the disk."""

    def __init__(
        self, database: Database, *, tail_bytes: int = TAIL_BYTES, clock: Callable[[], float] = time.time
    ) -> None:
        """Keep journals in a database.

        Args:
            database: where.
            tail_bytes: memory for the newest entries.
            clock: seconds since 1970, UTC.
        """
        self._database = database
        self._clock = clock
        self._tail = Tail(tail_bytes)
        self._appends = Gathering(database, self._append_all, self._remember)
        self._receipts = Gathering(database, keep_all)

    async def append(self, run: RunRow, new_entry: NewEntry) -> AppendResult:
        """Append an entry; when this returns, it is committed to stable storage."""
        return await self._appends.add(PendingAppend(run, new_entry, encode_body(new_entry.body)))

    async def find(self, run: RunRow, idempotency_key: IdempotencyKey) -> Entry | None:
        """Return the entry that was appended under this key, None if none was."""
        return await self._database.read(lambda connection: entry_under(connection, run, idempotency_key))

    async def after(self, run: RunRow, seq: int, up_to: int | None = None, limit: int = 1000) -> list[Entry]:
        """Return entries seq + 1, seq + 2, ... in order, at most `limit`, none beyond `up_to`."""
        last = _NO_END if up_to is None else up_to
        if last <= seq:
            return []
        # Without an end, only SQL knows where the journal ends: another process may have appended.
        near = self._tail.between(run.id, seq, min(last, seq + limit))
        if near is not None:
            return near
        values = {"run": run.id, "after": seq, "up_to": last, "most": limit}
        return await self._database.read(lambda connection: list(map(entry_of, connection.execute(_AFTER, values))))

    async def before(
        self, run: RunRow, seq: int | None, limit: int, kinds: Sequence[EntryKind] = ()
    ) -> list[LoggedEntry]:
        """Return what is known of entries before `seq` (None: all), hidden ones too, newest first; unless pruned."""
        before = _NO_END if seq is None else seq
        return await self._database.read(lambda connection: entries_before(connection, run.id, before, limit, kinds))

    async def visits(self, run: RunRow, task: int, before: int | None, limit: int) -> VisitsPage:
        """Return at most `limit` reports of a task before `before` (None: of all), including hidden ones."""
        seq = _NO_END if before is None else before
        return await self._database.read(lambda connection: visits_before(connection, run.id, task, seq, limit))

    async def head(self, run: RunRow) -> Head:
        """Return where the run stands."""
        head = (await self.heads([run.id])).get(run.id)
        if head is None or head.uid != run.uid:
            raise UnknownRunError(f"run {run.name!r} was deleted or replaced")
        return head

    async def begins(self, run: RunRow) -> int:
        """Return the seq behind which the journal begins: earlier entries were pruned. 0 where it is whole."""
        return await self._database.read(lambda connection: connection.scalar(_PRUNED, {"run": run.id}) or 0)

    async def heads(self, run_ids: list[int]) -> dict[int, Head]:
        """Return where these runs stand, by id; those that are gone are left out."""
        values = {"ids": run_ids}
        rows = await self._database.read(lambda connection: connection.execute(_HEADS, values).all())
        return {row.id: Head(row.uid, row.head, row.version) for row in rows}

    async def keep_receipts(self, run: RunRow, receipts: list[Receipt]) -> None:
        """Keep what folding did. The same receipt again changes nothing: it follows from the journal."""
        if receipts:
            await self._receipts.add([Kept(run, receipt) for receipt in receipts])

    async def receipt(self, run: RunRow, seq: int) -> Receipt | None:
        """Return what folding entry `seq` did, None if that was not kept yet."""
        return await self._database.read(lambda connection: receipt_at(connection, run.id, seq))

    async def first_without_receipt(self, run: RunRow, up_to: int) -> int | None:
        """Return the first seq, up to `up_to`, of which no receipt was kept; None if all were."""
        return await self._database.read(lambda connection: first_without_receipt(connection, run.id, up_to))

    async def closing(self, run: RunRow, step: int) -> int | None:
        """Return the seq of the entry that closed `step` in the run's present history, None if no entry did."""
        return await self._database.read(lambda connection: closing_seq(connection, run, step))

    async def history(self, run: RunRow, after_step: int, limit: int) -> list[StoredReceipt]:
        """Return closed steps of the present history in order, beginning behind `after_step`."""
        return await self._database.read(lambda connection: closed_steps(connection, run.id, after_step, limit))

    async def curve(self, run: RunRow, up_to: int, width: int) -> list[CurvePoint]:
        """Return the closed steps of the present history up to entry `up_to`, in order, some of them a point."""
        return await self._database.read(lambda connection: curve(connection, run, up_to, width))

    def _append_all(self, connection: Connection, pending: list[PendingAppend]) -> list[AppendResult | BotsError]:
        return append_all(connection, pending, self._clock())

    def _remember(self, pending: list[PendingAppend], results: list[AppendResult | BotsError]) -> None:
        for item, result in zip(pending, results, strict=True):
            if not isinstance(result, BotsError) and not result.duplicate:
                self._tail.add(item.run.id, result.entry)
