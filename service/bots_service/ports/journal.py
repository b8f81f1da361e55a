"""The journal of a run, receipts of its entries, and stored states."""

from dataclasses import dataclass
from typing import Any, Protocol

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


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEntry:
    """What is known of an entry, in a few words: what it holds may be large.

    seq, epoch: as the entry has them.
    kind: as the journal calls it.
    step: how many steps had closed after it, in the history as it then was; None where its receipt was not kept yet.
    closed: whether it closed a step, None as above.
    is_hidden: whether a later rewind took it out of the present history.
    created_at: when it was appended (seconds since 1970, UTC).
    tasks, rollouts: how many a report tells of; effective: how many of the tasks have a gradient.
    to_step: the step that a rewind went back to.
    changed: what a change of settings changed, names and values.
    """

    seq: int
    epoch: int
    kind: str
    step: int | None
    closed: bool | None
    is_hidden: bool
    created_at: float
    tasks: int | None = None
    effective: int | None = None
    rollouts: float | None = None
    to_step: int | None = None
    changed: dict[str, Any] | None = None


class Journal(Protocol):
    """The ordered list of everything that ever changed a run. Every method may raise StorageUnavailableError."""

    async def append(self, run: RunRow, new_entry: NewEntry) -> AppendResult:
        """Append an entry; when this returns, it is committed to stable storage.

        The seq comes from the run's row in the same transaction, so seqs follow commit order without a gap. A rewind
        raises the run's epoch. Callers that wait at the same time share one transaction.

        Raises:
            UnknownRunError: the run is gone.
            StaleEpochError: the new entry's epoch is not the run's.
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

    async def before(self, run: RunRow, seq: int | None, limit: int) -> list[LoggedEntry]:
        """Return what is known of entries before `seq` (None: all), hidden ones too, newest first; unless pruned."""
        ...

    async def head(self, run: RunRow) -> Head:
        """Return where the run stands.

        Raises:
            UnknownRunError: the run is gone.
        """
        ...

    async def begins(self, run: RunRow) -> int:
        """Return the seq behind which the journal begins: earlier entries were pruned. 0 where it is whole."""
        ...

    async def heads(self, run_ids: list[int]) -> dict[int, Head]:
        """Return where these runs stand, by id; those that are gone are left out."""
        ...

    async def keep_receipts(self, run: RunRow, receipts: list[Receipt]) -> None:
        """Keep what folding did. The same receipt again changes nothing: it follows from the journal."""
        ...

    async def receipt(self, run: RunRow, seq: int) -> Receipt | None:
        """Return what folding entry `seq` did, None if that was not kept yet."""
        ...

    async def first_without_receipt(self, run: RunRow, up_to: int) -> int | None:
        """Return the first seq, up to `up_to`, of which no receipt was kept; None if all were."""
        ...

    async def closing(self, run: RunRow, step: int) -> int | None:
        """Return the seq of the entry that closed `step` in the run's present history, None if no entry did.

        Looks backwards: a rewind hides what stood between its target and itself. Step 0 is seq 0 of a run that was
        not forked; a forked run begins with its parent's step, at seq 1.
        """
        ...

    async def history(self, run: RunRow, after_step: int, limit: int) -> list[StoredReceipt]:
        """Return closed steps of the present history in order, beginning behind `after_step`."""
        ...

    async def curve(self, run: RunRow, up_to: int, width: int) -> list[CurvePoint]:
        """Return the closed steps of the present history up to entry `up_to`, in order, some of them a point.

        Beginning with the run's first step, each point holds `width` of them, but for the last one.
        """
        ...


class Snapshots(Protocol):
    """Stored states of runs: a shorter way to a state than the whole journal. May raise StorageUnavailableError."""

    async def save(
        self, run: RunRow, row: SnapshotRow, blob: bytes, idempotency_key: IdempotencyKey | None = None
    ) -> SnapshotRow:
        """Store a state's bytes; one that is there for this seq stays, and becomes wanted if this one is.

        Raises:
            UnknownRunError: the run is gone.
        """
        ...

    async def newest(self, run: RunRow, up_to: int) -> tuple[SnapshotRow, bytes] | None:
        """Return the snapshot with the greatest seq that is not beyond `up_to`."""
        ...

    async def after(self, run: RunRow, seq: int, limit: int) -> list[SnapshotRow]:
        """Return snapshots in order of seq, beginning behind `seq`."""
        ...

    async def drop(self, run: RunRow, seqs: list[int]) -> None:
        """Drop some snapshots; the journal still leads to their states."""
        ...
