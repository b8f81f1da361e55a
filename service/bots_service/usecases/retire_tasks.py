"""DELETE tasks: no longer hand them out; what is known of them stays. POST tasks/restore: hand them out again."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import numpy as np

from bots_service.core.arrays import Tasks, frozen
from bots_service.engine.dataset_builder import opened
from bots_service.engine.open_runs import OpenDatasets
from bots_service.engine.replicas import NotifyReplicas
from bots_service.errors import BusyError, Flaw, InvalidTasksError
from bots_service.ports.catalog import Datasets
from bots_service.ports.records import DatasetRow, IdempotencyKey, OpenDataset

Write = Callable[[DatasetRow, Tasks, IdempotencyKey | None], Awaitable[DatasetRow]]


@dataclass(frozen=True, slots=True)
class _ChangeRetired:
    """Change which tasks of a dataset are retired."""

    datasets: Datasets
    open_datasets: OpenDatasets
    notify_replicas: NotifyReplicas

    async def _changed(
        self,
        name: str,
        ids: list[str],
        idempotency_key: IdempotencyKey | None,
        write: Write,
        combined: Callable[[Tasks, Tasks], Tasks],
    ) -> DatasetRow:
        """Return the dataset after the change.

        Args:
            name: of the dataset.
            ids: of the tasks.
            idempotency_key: keeps the result.
            write: keeps the change.
            combined: returns the retired tasks, of those before and the given ones.

        Raises:
            UnknownDatasetError: there is no such dataset.
            InvalidTasksError: an id is unknown.
            BusyError: another request changed the dataset meanwhile.
        """
        dataset = await self.open_datasets.fresh(name)
        tasks = dataset.ids.find(ids)
        flaws = [Flaw(("ids", place), f"no task {ids[place][:80]!r}") for place in np.flatnonzero(tasks < 0).tolist()]
        if flaws:
            raise InvalidTasksError(f"dataset {name!r} has no such tasks", tuple(flaws[:20]))
        tasks = frozen(np.unique(tasks))
        retired = combined(dataset.pool.retired, tasks).astype(np.int32)
        # To the end even if the caller stops waiting, or the change would be known to some only.
        return await asyncio.shield(self._keep(dataset, retired, write(dataset.row, tasks, idempotency_key)))

    async def _keep(self, dataset: OpenDataset, retired: Tasks, written: Awaitable[DatasetRow]) -> DatasetRow:
        try:
            row = await written
        except BusyError:
            self.open_datasets.invalidate(dataset.row.name)
            raise
        self.open_datasets.keep(opened(row, dataset.ids, dataset.pool, retired))
        await self.notify_replicas.of_change(row)
        return row


@dataclass(frozen=True, slots=True)
class RetireTasks(_ChangeRetired):
    """Retire tasks; retiring one again is fine."""

    async def __call__(self, name: str, ids: list[str], idempotency_key: IdempotencyKey | None) -> DatasetRow:
        """Return the dataset without these tasks.

        Raises:
            UnknownDatasetError: there is no such dataset.
            InvalidTasksError: an id is unknown.
            BusyError: another request changed the dataset meanwhile.
        """
        return await self._changed(name, ids, idempotency_key, self.datasets.retire, np.union1d)


@dataclass(frozen=True, slots=True)
class RestoreTasks(_ChangeRetired):
    """Take a retirement back; restoring a task that is not retired is fine."""

    async def __call__(self, name: str, ids: list[str], idempotency_key: IdempotencyKey | None) -> DatasetRow:
        """Return the dataset with these tasks.

        Raises:
            UnknownDatasetError: there is no such dataset.
            InvalidTasksError: an id is unknown.
            BusyError: another request changed the dataset meanwhile.
        """
        return await self._changed(name, ids, idempotency_key, self.datasets.restore, np.setdiff1d)
