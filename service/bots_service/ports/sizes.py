"""How much SQL holds of a run."""

from dataclasses import dataclass
from typing import Protocol

from bots_service.ports.records import RunRow


@dataclass(frozen=True, slots=True)
class RunSizes:
    """What a run takes. Times are seconds since 1970, UTC; None where there is nothing.

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

    async def of(self, run: RunRow) -> RunSizes:
        """Return what a run takes, in a few milliseconds however long it is.

        Raises:
            StorageUnavailableError: the database did not answer.
            UnknownRunError: the run is gone.
        """
        ...
