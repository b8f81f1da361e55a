"""The journal in SQL."""

import time
from collections.abc import Callable

from sqlalchemy import Connection, bindparam, select

from bots_service.core.entries import Entry
from bots_service.core.receipt import Receipt
from bots_service.errors import BotsError, UnknownRunError
from bots_service.ports.journal_records import LoggedEntry
from bots_service.ports.records import Appended, CurvePoint, Draft, Head, Once, RunRow, StoredReceipt
from bots_service.storage.append_batch import Encoded, append_all, encoded, entry_of, entry_under
from bots_service.storage.curves import curve
from bots_service.storage.database import Database
from bots_service.storage.gathering import Gathering
from bots_service.storage.journal_pages import entries_before
from bots_service.storage.receipt_rows import (
    Kept,
    closed_steps,
    closing_seq,
    first_without_receipt,
    keep_all,
    receipt_at,
)
from bots_service.storage.tables import datasets, journal, runs
from bots_service.storage.tail import Tail

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

    async def append(self, run: RunRow, draft: Draft) -> Appended:
        """Append an entry; when this returns, it is committed to stable storage."""
        _, appended = await self._appends.add(encoded(run, draft))
        return appended

    async def find(self, run: RunRow, once: Once) -> Entry | None:
        """Return the entry that was appended under this key, None if none was."""
        return await self._database.read(lambda connection: entry_under(connection, run, once))

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

    async def before(self, run: RunRow, seq: int | None, limit: int) -> list[LoggedEntry]:
        """Return what is known of entries before `seq` (None: all), hidden ones too, newest first; unless pruned."""
        before = _NO_END if seq is None else seq
        return await self._database.read(lambda connection: entries_before(connection, run.id, before, limit))

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

    def _append_all(self, connection: Connection, drafts: list[Encoded]) -> list[tuple[int, Appended] | BotsError]:
        outcomes = append_all(connection, drafts, self._clock())
        return [
            outcome if isinstance(outcome, BotsError) else (draft.run.id, outcome)
            for draft, outcome in zip(drafts, outcomes, strict=True)
        ]

    def _remember(self, outcomes: list[tuple[int, Appended] | BotsError]) -> None:
        for outcome in outcomes:
            if not isinstance(outcome, BotsError) and not outcome[1].duplicate:
                self._tail.add(outcome[0], outcome[1].entry)
