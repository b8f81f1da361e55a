"""Data of a run in SQL other than its journal: outlooks, sizes, and retention."""

from dataclasses import dataclass
from typing import Protocol

from bots_service.core.coverage import Coverage
from bots_service.core.outlook import Outlook
from bots_service.ports.records import RunRow


@dataclass(frozen=True, slots=True)
class StoredOutlook:
    """An estimate for the whole pool, made after entry `seq`, in step `step`.

    uniform_effective_task_ratio: estimate for uniform sampling;
    distribution: shares of the tasks by expected success probability, in equal bins, to 7 digits;
    coverage: how the visits spread over the pool by then;
    created_at: when it was made, in seconds since 1970, UTC.
    """

    seq: int
    step: int
    uniform_effective_task_ratio: float
    distribution: tuple[float, ...]
    coverage: Coverage
    created_at: float


class Outlooks(Protocol):
    """Outlooks of runs: estimates that nothing depends on. Every method may raise StorageUnavailableError."""

    async def keep(self, run: RunRow, seq: int, step: int, outlook: Outlook, coverage: Coverage) -> None:
        """Store the estimate made after entry `seq` and the coverage by then, unless they are stored.

        Raises:
            UnknownRunError: the run was deleted.
        """
        ...

    async def read(self, run: RunRow, up_to: int, most: int) -> list[StoredOutlook]:
        """Return the outlooks of the current history up to entry `up_to`, in order: the first one of each step.

        If there are more than `most`, return evenly spaced ones, including the first and the last; only the last if
        `most` is 1. A deleted run has none.
        """
        ...


class Retention(Protocol):
    """Deletes old data in small batches, so that other writes never wait long.

    A truncated journal begins after a snapshot: `truncation_points` finds candidates, `truncate` moves the beginning in
    one short transaction, and `delete_entries` deletes the entries before it. `retention.py` defines the ages. Every
    method may raise StorageUnavailableError, and those that write BusyError: another replica is deleting.
    """

    async def truncation_points(self, run: RunRow, before: float) -> list[int]:
        """Return the seqs of snapshots up to which the journal can be truncated, newest first.

        Args:
            run: the run.
            before: seconds since 1970, UTC; later entries stay.
        """
        ...

    async def count_entries(self, run: RunRow, seq: int) -> int:
        """Return how many entries a truncation up to `seq` deletes."""
        ...

    async def truncate(self, run: RunRow, seq: int) -> bool:
        """Truncate the journal up to the snapshot at `seq`; return whether that was possible.

        It is impossible if the run or the snapshot was deleted, an entry has no receipt, or a later rewind goes back
        before `seq`. The snapshot is then exempt from thinning.
        """
        ...

    async def delete_entries(self, run: RunRow) -> int:
        """Delete a batch of entries before the beginning of the journal, except rewinds; return how many."""
        ...

    async def delete_answers(self, before: float) -> int:
        """Delete a batch of answers that were stored before then; return how many."""
        ...

    async def delete_stages(self, before: float) -> int:
        """Delete a batch of rows of stages that were created before then; return how many."""
        ...
