"""The catalog of datasets and runs."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Protocol, TypeVar

from bots_service.core.arrays import Tasks
from bots_service.core.entries import Fork
from bots_service.core.predictions import Predictions, PredictionsKey
from bots_service.core.run_settings import RunSettings
from bots_service.ports.keys import EVERY_DATASET
from bots_service.ports.records import (
    Answer,
    AppendTasksResult,
    CreateDatasetResult,
    DatasetFacts,
    DatasetRow,
    IdempotencyKey,
    Parent,
    RunPut,
    RunRow,
    Subset,
    TaskBlock,
)

Result = TypeVar("Result")

MOST_SUBSETS = 1000  # of a dataset: a job has one, and each change of its training data makes another


class Datasets(Protocol):
    """The store of datasets. Every method may raise StorageUnavailableError.

    A write under an idempotency key keeps what it returns as the key's first answer, in its own transaction; here, and
    in the other ports. It raises KeyReusedError where the key came with another request before, and BusyError where the
    same request was answered meanwhile: the answer can be found then.
    """

    async def get(self, name: str) -> DatasetRow:
        """Return the dataset of that name.

        Raises:
            UnknownDatasetError: there is none.
        """
        ...

    async def after(self, name: str, limit: int) -> list[DatasetRow]:
        """Return up to `limit` datasets in order of name, after `name` ("": from the first)."""
        ...

    async def stage(self) -> int:
        """Create a stage for blocks that belong to no dataset yet, and return its id."""
        ...

    async def add_block(self, stage: int, block: TaskBlock) -> None:
        """Add the next block to the stage.

        Raises:
            LimitReachedError: the stage would have more tasks than a dataset may have.
        """
        ...

    async def drop_stage(self, stage: int) -> None:
        """Delete the stage and its blocks, if it exists."""
        ...

    async def create(
        self,
        name: str,
        stage: int,
        facts: DatasetFacts,
        idempotency_key: IdempotencyKey | None = None,
        *,
        within: tuple[str, ...] = (EVERY_DATASET,),
    ) -> CreateDatasetResult:
        """Make the staged blocks a dataset, with its run `default` on default settings, in one transaction.

        Where a dataset of the name has the same content, that one is returned; the stage stays.

        Args:
            name: its name.
            stage: the number of the stage.
            facts: what is true of the blocks.
            idempotency_key: keeps the result.
            within: patterns of names that the caller's key reaches.

        Raises:
            DatasetExistsError: the name is taken by other content.
            LimitReachedError: the service, or the caller's key, has no room for another dataset.
            BusyError: the stage is gone.
        """
        ...

    async def append(
        self, row: DatasetRow, stage: int, facts: DatasetFacts, idempotency_key: IdempotencyKey | None = None
    ) -> AppendTasksResult:
        """Move the staged blocks to the end of the dataset and set its facts, in one transaction.

        Raises:
            BusyError: the dataset is no longer at the row's version, or the stage is gone.
            LimitReachedError: it would have more tasks than a dataset may have.
        """
        ...

    async def retire(self, row: DatasetRow, tasks: Tasks, idempotency_key: IdempotencyKey | None = None) -> DatasetRow:
        """Mark tasks as retired (those that are already stay so).

        Raises:
            BusyError: the dataset is no longer at the row's version.
        """
        ...

    async def restore(self, row: DatasetRow, tasks: Tasks, idempotency_key: IdempotencyKey | None = None) -> DatasetRow:
        """Mark tasks as not retired (those that are not stay so).

        Raises:
            BusyError: the dataset is no longer at the row's version.
        """
        ...

    async def put_predictions(
        self,
        row: DatasetRow,
        facts: DatasetFacts,
        column: Predictions | None,
        idempotency_key: IdempotencyKey | None = None,
    ) -> tuple[DatasetRow, list[RunRow]]:
        """Set the predictions that new runs see, and give them to the runs whose journal is empty, in one transaction.

        Args:
            row: of the dataset.
            facts: with the predictions that it has from now on.
            column: those of them that are new; None if there are none.
            idempotency_key: keeps the row.

        Returns:
            The row, and the runs with an empty journal as they were; each has a new uid now.

        Raises:
            BusyError: the dataset is no longer at the row's version.
        """
        ...

    async def predictions(self, dataset_id: int, keys: Sequence[PredictionsKey]) -> list[Predictions]:
        """Return predictions that new runs see or that a run knows, in the order of the keys.

        Raises:
            UnknownRunError: they are not there any more: the run that knew them, or the dataset, was deleted.
            DamagedStateError: the bytes don't match their checksum.
        """
        ...

    async def keep_subset(
        self, row: DatasetRow, subset: Subset, tasks: Tasks, idempotency_key: IdempotencyKey | None = None
    ) -> Subset:
        """Keep a subset under its name, in one transaction; one that is kept already counts as kept now.

        A dataset keeps the MOST_SUBSETS that were kept last.

        Args:
            row: of the dataset.
            subset: with its name.
            tasks: of the subset, sorted and distinct.
            idempotency_key: keeps the subset as the result.

        Raises:
            UnknownDatasetError: the dataset was deleted meanwhile.
        """
        ...

    async def subset(self, dataset_id: int, name: str) -> Tasks | None:
        """Return a subset's tasks, sorted; None if there is no such subset.

        Raises:
            DamagedStateError: the bytes can't be read.
        """
        ...

    async def delete(self, row: DatasetRow, idempotency_key: IdempotencyKey | None = None) -> None:
        """Delete the dataset with its runs, journals and snapshots."""
        ...

    def blocks(self, dataset_id: int) -> AsyncIterator[TaskBlock]:
        """Yield the dataset's blocks in order.

        Raises:
            UnknownDatasetError: the dataset was deleted meanwhile.
            DamagedStateError: a block does not match its checksum.
        """
        ...

    async def retired(self, dataset_id: int) -> Tasks:
        """Return the retired tasks, sorted."""
        ...


class Runs(Protocol):
    """The store of runs. Every method may raise StorageUnavailableError."""

    async def get(self, dataset_id: int, name: str) -> RunRow:
        """Return the run of that name.

        Raises:
            UnknownRunError: there is none.
        """
        ...

    async def after(self, dataset_id: int, name: str, limit: int) -> list[RunRow]:
        """Return up to `limit` runs in order of name, after `name` ("": from the first)."""
        ...

    async def put(
        self,
        dataset_id: int,
        name: str,
        settings: RunSettings,
        *,
        fork: tuple[Parent, Fork, int] | None = None,
        predictions: tuple[PredictionsKey, ...] = (),
        idempotency_key: IdempotencyKey | None = None,
        result_of: Callable[[RunRow, RunPut], object] = lambda row, put: (row, put),
    ) -> tuple[RunRow, RunPut]:
        """Create the run, or replace the settings of one whose journal is empty, in one transaction.

        Args:
            dataset_id: the dataset.
            name: the run's name.
            settings: the run's first settings.
            fork: where it comes from, the journal's first entry, and the pool's profiles then.
            predictions: those that it knows; without a fork, those of the dataset.
            idempotency_key: keeps the result of a run that was created or replaced; of an unchanged one, nothing.
            result_of: makes the result to keep of the row and of what was done to it.

        Returns:
            The row, and what was done to it.

        Raises:
            RunHasHistoryError: the run's journal is not empty.
            LimitReachedError: the dataset has no room for another run.
            BusyError: the predictions were replaced meanwhile.
        """
        ...

    async def note_refused_report(self, row: RunRow, reason: str) -> None:
        """Count a report of the run that was refused as invalid, and why.

        Raises:
            UnknownRunError: it was deleted or replaced.
        """
        ...

    async def delete(self, row: RunRow, idempotency_key: IdempotencyKey | None = None) -> None:
        """Delete the run with its journal and snapshots; a `default` run is created again, empty."""
        ...


class Answers(Protocol):
    """The first answers of writes that carried an idempotency key.

    Results are plain values: dataclasses and named tuples of what JSON can hold. They come back equal.
    """

    async def find(self, scope: str, key: str, kind: type[Result]) -> Answer[Result] | None:
        """Return what was answered under this key, None if it is new.

        Args:
            scope: what the key is good for.
            key: as the client sent it.
            kind: the class of the result.

        Raises:
            DamagedStateError: what was kept is of another kind.
        """
        ...

    async def keep(self, idempotency_key: IdempotencyKey | None, result: Result) -> Result:
        """Keep the result of a committed write before anybody gets it; return the one that is kept.

        For writes that happen once without this. Of several callers at once all get the result of the first. Without a
        key, nothing is kept.

        Raises:
            KeyReusedError: the key came with another request before.
        """
        ...


class Health(Protocol):
    """Whether the truth can be reached."""

    async def check(self) -> dict[str, Any]:
        """Return what was found, as in {"sql": "ok"}.

        Raises:
            OutdatedTablesError: its tables are too old for this version of the service.
            StorageUnavailableError: it can't be reached.
        """
        ...
