"""A run's journal on its way out of one database and into another."""

from typing import Annotated, NamedTuple, Protocol

from msgspec import Meta, Raw, Struct

from bots_service.core.entries import Entry
from bots_service.core.predictions import PredictionsKey
from bots_service.core.run_settings import RunSettings
from bots_service.ports.records import DatasetRow, IdempotencyKey, RunRow

# A value that another database can't store is refused before it gets there.
Count = Annotated[int, Meta(ge=0, le=2**53)]
Small = Annotated[int, Meta(ge=0, lt=2**31)]
Moment = Annotated[float, Meta(ge=0, le=1e11)]  # seconds since 1970, UTC
Key = Annotated[str, Meta(pattern=r"^[ -~]{1,128}\Z")]
Text = Annotated[str, Meta(pattern=r"^[^\0]*\Z")]


class SavedEntry(Struct, frozen=True, omit_defaults=True):
    """A journal entry as stored in SQL. body: as JSON, with its kind; key, fingerprint: of its report."""

    seq: Count
    epoch: Small
    profiles: Small
    created_at: Moment
    body: Raw
    key: Key | None = None
    fingerprint: Text | None = None


class Moved(NamedTuple):
    """The result of an import. replaced: the empty run in whose place it stands."""

    run: RunRow
    replaced: RunRow | None


class Transfers(Protocol):
    """Reads journals as they are stored, and writes them to a stage of `Datasets`, where they are invisible.

    Every method may raise StorageUnavailableError; those that write BusyError: the stage is gone.
    """

    async def entries(self, run: RunRow, seq: int, up_to: int) -> list[SavedEntry]:
        """Return the next entries after `seq` in order, up to `up_to`; as many as fit into a few megabytes."""
        ...

    async def add_run(self, stage: int, settings: RunSettings, predictions: tuple[PredictionsKey, ...]) -> RunRow:
        """Add a run with an empty journal to the stage."""
        ...

    async def add_entries(self, run: RunRow, rows: list[SavedEntry]) -> list[Entry]:
        """Append entries to a staged run's journal, and return them as they will be read.

        Raises:
            DamagedStateError: an entry can't be read, or a key occurs twice.
        """
        ...

    async def finish(
        self, dataset: DatasetRow, name: str, stage: int, run: RunRow, idempotency_key: IdempotencyKey | None
    ) -> Moved:
        """Move the staged run into a dataset, in place of an empty one of that name, in one transaction.

        Args:
            dataset: the dataset.
            name: the run's.
            stage: its number.
            run: with head and epoch of its journal.
            idempotency_key: keeps the result.

        Raises:
            RunHasHistoryError: a run of that name stands there, and is not empty.
            LimitReachedError: the dataset has no room for another run.
            BusyError: the dataset changed meanwhile.
        """
        ...
