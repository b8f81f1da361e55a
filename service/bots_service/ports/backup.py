"""Export of datasets and runs from a database, and import into another."""

from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from msgspec import Meta, Struct

from bots_service.core.arrays import Tasks
from bots_service.core.entries import Entry
from bots_service.core.predictions import Predictions
from bots_service.core.receipt import BINS, Receipt
from bots_service.ports.records import Beginning, DatasetFacts, DatasetRow, IdempotencyKey, RunRow, SnapshotRow

# A value that another database can't store is refused before it gets there.
Count = Annotated[int, Meta(ge=0, le=2**53)]
Small = Annotated[int, Meta(ge=0, lt=2**31)]
Moment = Annotated[float, Meta(ge=0, le=1e11)]  # seconds since 1970, UTC
Key = Annotated[str, Meta(pattern=r"^[ -~]{1,128}\Z")]
Text = Annotated[str, Meta(pattern=r"^[^\0]*\Z")]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")]
CalibrationBlob = Annotated[bytes, Meta(min_length=24 * BINS, max_length=24 * BINS)]
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
Uid = Annotated[str, Meta(pattern=r"^[0-9a-f]{16}\Z")]


class SavedParent(Struct, frozen=True):
    """The run that another one began from; the fields are those of `Parent`."""

    run: Name
    step: Small
    seq: Count
    how: Beginning = "fork"
    discount: Annotated[float, Meta(ge=0, le=1)] | None = None


class SavedRun(Struct, frozen=True):
    """A run as stored in SQL; the fields are those of `RunRow`.

    pruned: entries up to this seq were pruned; 0: the journal is whole.
    """

    name: Name
    uid: Uid
    settings: dict[str, Any]
    head: Count
    epoch: Small
    pruned: Count
    created_at: Moment
    parent: SavedParent | None = None
    predictions: tuple[tuple[Name, Digest], ...] = ()


class SavedEntry(Struct, frozen=True, array_like=True):
    """A journal entry as stored in SQL. body: the stored text; key, fingerprint: of its report."""

    seq: Count
    epoch: Small
    kind: Text
    profiles: Small
    body: Text
    key: Key | None
    fingerprint: Text | None
    created_at: Moment


class SavedReceipt(Struct, frozen=True, array_like=True):
    """What folding an entry did; the names are those of `Receipt` and `Tally`.

    created_at: when the entry was appended, where the entry itself was pruned.
    calibration: as storage wrote it.
    """

    seq: Count
    epoch: Small
    step: Small
    closed: bool
    reported: Small
    effective: Small
    all_solved: Small
    none_solved: Small
    rollouts: float
    successes: float
    mean_pass_rate: float | None
    capability: float | None
    late: Small
    expired: Small
    brier: float | None
    log_loss: float | None
    created_at: Moment | None
    calibration: CalibrationBlob | None
    new_tasks: Small
    distinct_tasks: Small
    tokens: float
    seconds: float
    skipped: Text | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """A consistent view of a dataset and its runs.

    retired: sorted tasks.
    runs: each with its row, for the other ports.
    predictions: all that new runs see and that a run knows, as stored, by digest.
    """

    dataset: DatasetRow
    retired: Tasks
    runs: list[tuple[RunRow, SavedRun]]
    predictions: dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import. runs: the new runs; replaced: an empty run that was replaced."""

    dataset: DatasetRow
    runs: list[RunRow]
    replaced: RunRow | None = None


class Exports(Protocol):
    """Reads the content of a backup. Every method may raise StorageUnavailableError."""

    async def cut(self, dataset: str) -> Cut:
        """Return a consistent view of the dataset and its runs.

        Raises:
            UnknownDatasetError: it does not exist.
        """
        ...

    async def entries(self, run: RunRow, seq: int, up_to: int) -> list[SavedEntry]:
        """Return the next entries after `seq` in order, up to `up_to`; as many as fit into a few megabytes."""
        ...

    async def receipts(self, run: RunRow, seq: int, up_to: int) -> list[SavedReceipt]:
        """Return the next receipts after `seq` in order, up to `up_to`."""
        ...


class Imports(Protocol):
    """Writes the content of a backup to a stage of `Datasets`, where it is invisible, and publishes it atomically.

    Every method may raise StorageUnavailableError, and BusyError: the stage is gone.
    """

    async def retire(self, stage: int, tasks: Tasks) -> None:
        """Retire tasks of the stage."""
        ...

    async def add_predictions(self, stage: int, content: bytes) -> Predictions:
        """Add predictions to the stage, and return them as they will be read, without a name.

        Raises:
            DamagedStateError: they can't be read.
        """
        ...

    async def add_run(self, stage: int, run: SavedRun) -> int:
        """Add a run to the stage and return its id."""
        ...

    async def add_entries(self, run_id: int, rows: list[SavedEntry]) -> list[Entry]:
        """Append entries to a staged run's journal, and return them as they will be read.

        Raises:
            DamagedStateError: an entry can't be read.
        """
        ...

    async def add_receipts(self, run_id: int, rows: list[SavedReceipt]) -> list[Receipt]:
        """Add receipts to a staged run's history, and return them as they will be read."""
        ...

    async def add_snapshot(self, run_id: int, row: SnapshotRow, blob: bytes) -> None:
        """Add a snapshot to a staged run."""
        ...

    async def taken(self, uids: list[str]) -> set[str]:
        """Return the uids that runs in the database already have."""
        ...

    async def finish_dataset(
        self,
        name: str,
        stage: int,
        saved: tuple[DatasetFacts, int, float],
        uids: dict[int, str],
        idempotency_key: IdempotencyKey | None,
    ) -> Imported:
        """Make the stage a dataset, in one transaction.

        Args:
            name: the dataset's.
            stage: its number.
            saved: facts, version, and when it was created.
            uids: of the staged runs, by number. A uid that another run has is replaced by a new one.
            idempotency_key: keeps the result.

        Raises:
            DatasetExistsError: the name is taken.
            LimitReachedError: there is no room for another dataset, or for so many tasks or runs in one.
        """
        ...

    async def finish_run(
        self,
        dataset: DatasetRow,
        name: str,
        stage: int,
        uids: dict[int, str],
        idempotency_key: IdempotencyKey | None,
    ) -> Imported:
        """Move the one staged run into a dataset, in place of an empty one of that name, in one transaction.

        Raises:
            RunHasHistoryError: a run of that name stands there, and is not empty.
            LimitReachedError: the dataset has no room for another run.
            BusyError: the dataset changed meanwhile.
        """
        ...
