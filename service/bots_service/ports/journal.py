"""The journal of a run, receipts of its entries, and stored states."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from bots_service.core.entries import Entry
from bots_service.core.receipt import Receipt
from bots_service.ports.records import (
    AppendResult,
    CurvePoint,
    Head,
    IdempotencyKey,
    NewEntry,
    RunRow,
    SnapshotRow,
    StoredReceipt,
)

EntryKind = Literal["report", "settings", "forget", "rewind", "fork"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEntry:
    """A summary of an entry, whose full content may be large.

    seq, epoch: of the entry.
    kind: of the entry, as stored in the journal.
    step: number of closed steps after it, in the history at that time; None if its receipt is not stored yet.
    closed: whether it closed a step; None as above.
    is_hidden: whether a later rewind undid it.
    created_at: when it was appended (seconds since 1970, UTC).
    tasks, rollouts: numbers in a report; effective: number of its groups that give a gradient.
    to_step: target of a rewind.
    changed: names and values of changed settings.
    skipped: why the fold skipped it; None if it did not.
    """

    seq: int
    epoch: int
    kind: EntryKind
    step: int | None
    closed: bool | None
    is_hidden: bool
    created_at: float
    tasks: int | None = None
    effective: int | None = None
    rollouts: float | None = None
    to_step: int | None = None
    changed: dict[str, Any] | None = None
    skipped: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedVisit:
    """What one report said of one task.

    seq: of its entry.
    step: number of closed steps after it, in the history at that time; None if its receipt is not stored yet.
    successes, trials: sums over the task's rollouts in the report.
    is_effective: whether they have a gradient; False for a part of a group, of which the whole group tells.
    group_size: how many rollouts the group has, of which these are a part; None for a whole one.
    is_late: whether it came after its step had closed; None as above.
    is_hidden: whether a later rewind undid it.
    created_at: when it was appended (seconds since 1970, UTC).
    """

    seq: int
    step: int | None
    successes: float
    trials: float
    is_effective: bool
    group_size: float | None
    is_late: bool | None
    is_hidden: bool
    created_at: float


@dataclass(frozen=True, slots=True)
class VisitsPage:
    """A part of a task's history.

    visits: newest first; there may be none, although older entries have some.
    next: entries before this seq are still to be read; None if no older one is kept.
    pruned: the last pruned seq: nothing is known of entries up to it. 0 if nothing was pruned.
    """

    visits: list[LoggedVisit]
    next: int | None
    pruned: int


class Journal(Protocol):
    """The ordered list of everything that ever changed a run. Every method may raise StorageUnavailableError."""

    async def append(self, run: RunRow, new_entry: NewEntry) -> AppendResult:
        """Append an entry; when this returns, it is committed to stable storage.

        The seq comes from the run's row in the same transaction, so seqs follow commit order without a gap. A rewind
        raises the run's epoch. Callers that wait at the same time share one transaction.

        Raises:
            UnknownRunError: the run was deleted.
            StaleEpochError: the new entry's epoch is not the run's.
            BusyError: another change came after the state that the entry was checked against.
            KeyReusedError: the key is known with another fingerprint.
        """
        ...

    async def find(self, run: RunRow, idempotency_key: IdempotencyKey) -> Entry | None:
        """Return the entry that was appended under this key, None if none was.

        Raises:
            KeyReusedError: the key is known with another fingerprint.
        """
        ...

    async def after(self, run: RunRow, seq: int, up_to: int | None = None, limit: int = 1000) -> list[Entry]:
        """Return entries seq + 1, seq + 2, ... in order, at most `limit`, none beyond `up_to`."""
        ...

    async def before(
        self, run: RunRow, seq: int | None, limit: int, kinds: Sequence[EntryKind] = ()
    ) -> list[LoggedEntry]:
        """Return summaries of the entries before `seq` (None: of all), newest first, including hidden ones.

        Only entries of these kinds, unless there are none.
        """
        ...

    async def visits(self, run: RunRow, task: int, before: int | None, limit: int) -> VisitsPage:
        """Return at most `limit` reports of a task before `before` (None: of all), including hidden ones.

        Reads a bounded number of entries, whatever is found in them.
        """
        ...

    async def head(self, run: RunRow) -> Head:
        """Return the run's head.

        Raises:
            UnknownRunError: the run was deleted.
        """
        ...

    async def begins(self, run: RunRow) -> int:
        """Return the last pruned seq; the journal begins after it. 0 if nothing was pruned."""
        ...

    async def heads(self, run_ids: list[int]) -> dict[int, Head]:
        """Return the heads of these runs by id, without deleted runs."""
        ...

    async def keep_receipts(self, run: RunRow, receipts: list[Receipt]) -> None:
        """Store receipts. Storing one again changes nothing, because it follows from the journal."""
        ...

    async def receipt(self, run: RunRow, seq: int) -> Receipt | None:
        """Return the receipt of entry `seq`; None if it is not stored yet."""
        ...

    async def first_without_receipt(self, run: RunRow, up_to: int) -> int | None:
        """Return the first seq up to `up_to` without a stored receipt; None if all have one."""
        ...

    async def closing(self, run: RunRow, step: int) -> int | None:
        """Return the seq of the entry that closed `step` in the run's current history; None if there is none.

        Searches backwards, because a rewind hides the entries between its target and itself. Step 0 is seq 0 of a run
        that is not a fork; a fork begins with its parent's step, at seq 1.
        """
        ...

    async def history(self, run: RunRow, after_step: int, limit: int) -> list[StoredReceipt]:
        """Return closed steps of the current history in order, after `after_step`."""
        ...

    async def curve(self, run: RunRow, up_to: int, width: int) -> list[CurvePoint]:
        """Return the closed steps of the current history up to entry `up_to`, aggregated to points, in order.

        Each point has `width` steps, counted from the run's first step; the last point may have fewer.
        """
        ...


class Snapshots(Protocol):
    """Stored states of runs, so that a replay need not read the whole journal. May raise StorageUnavailableError."""

    async def save(
        self, run: RunRow, row: SnapshotRow, blob: bytes, idempotency_key: IdempotencyKey | None = None
    ) -> SnapshotRow:
        """Store a state's bytes. An existing snapshot of this seq is kept, and becomes wanted if this one is.

        Raises:
            UnknownRunError: the run was deleted.
        """
        ...

    async def newest(self, run: RunRow, up_to: int) -> tuple[SnapshotRow, bytes] | None:
        """Return the newest snapshot with a seq of at most `up_to`; None if there is none."""
        ...

    async def after(self, run: RunRow, seq: int, limit: int) -> list[SnapshotRow]:
        """Return snapshots in order of seq, after `seq`."""
        ...

    async def drop(self, run: RunRow, seqs: list[int]) -> None:
        """Delete snapshots; their states can still be replayed from the journal."""
        ...
