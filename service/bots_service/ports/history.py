"""What SQL keeps of a run in addition to its journal: outlooks, sizes, and what is old enough to be deleted."""

from dataclasses import dataclass
from typing import Protocol

from bots_service.core.outlook import Outlook
from bots_service.ports.records import RunRow


@dataclass(frozen=True, slots=True)
class StoredOutlook:
    """What was expected when the service looked after entry `seq`, in step `step`.

    uniform_effective_task_ratio: the effective task ratio that uniform choice could expect;
    distribution: shares of the tasks by expected success probability, in equal bins, to 7 digits;
    created_at: when it looked, in seconds since 1970, UTC.
    """

    seq: int
    step: int
    uniform_effective_task_ratio: float
    distribution: tuple[float, ...]
    created_at: float


class Outlooks(Protocol):
    """Outlooks of runs. An observation, not the truth. Every method may raise StorageUnavailableError."""

    async def keep(self, run: RunRow, seq: int, step: int, outlook: Outlook) -> None:
        """Keep what is expected after entry `seq`; where something is kept for it, that stays.

        Raises:
            UnknownRunError: the run is gone.
        """
        ...

    async def read(self, run: RunRow, up_to: int, most: int) -> list[StoredOutlook]:
        """Return the outlooks of the present history up to entry `up_to`, in order: for each step the first.

        Where they are more than `most`, evenly spaced ones, with the first and the last; the last alone if one is
        wanted. A run that is gone has none.
        """
        ...


@dataclass(frozen=True, slots=True)
class RunSizes:
    """A run's sizes in SQL. Times are seconds since 1970, UTC; None if there is nothing.

    entries: of the journal, from where it begins;
    about_bytes: an estimate of their bodies' sizes, by the newest of them;
    oldest_entry_at: when the first of them was appended;
    snapshots, snapshot_bytes, last_snapshot_at: of the stored states.
    """

    entries: int
    about_bytes: int
    oldest_entry_at: float | None
    snapshots: int
    snapshot_bytes: int
    last_snapshot_at: float | None


class Sizes(Protocol):
    """Sizes of runs."""

    async def measure(self, run: RunRow) -> RunSizes:
        """Return the run's sizes, in a few milliseconds however long it is.

        Raises:
            StorageUnavailableError: the database did not answer.
            UnknownRunError: the run is gone.
        """
        ...


class Retention(Protocol):
    """Deletes what is old, a little at a time, so that nobody waits long for it.

    To truncate a run's journal is to let it begin after a snapshot: `truncation_points` finds where, `truncate` moves
    the beginning in one short transaction, `delete_entries` then deletes what lies before it. `retention.py` says how
    old is old. Every method may raise StorageUnavailableError, and those that write BusyError: another replica is
    deleting.
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
        """Let the journal begin after the snapshot at `seq`; return whether that was possible.

        It is not if the run or the snapshot is gone, an entry has no receipt, or a later rewind goes further back. The
        snapshot is not thinned away any more.
        """
        ...

    async def delete_entries(self, run: RunRow) -> int:
        """Delete some entries before the beginning of the journal and return how many; rewinds stay."""
        ...

    async def delete_answers(self, before: float) -> int:
        """Delete some answers that were kept before then and return how many."""
        ...

    async def delete_stages(self, before: float) -> int:
        """Delete some of the rows of stages that were begun before then and return how many rows."""
        ...
