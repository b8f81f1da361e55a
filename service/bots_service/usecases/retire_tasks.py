"""DELETE tasks: no longer hand them out. What is known of them stays."""

import asyncio
from dataclasses import dataclass

import numpy as np

from bots_service.core.arrays import Tasks, frozen
from bots_service.engine.dataset_builder import opened
from bots_service.engine.open_runs import OpenDatasets
from bots_service.engine.replicas import NotifyReplicas
from bots_service.errors import BusyError, Flaw, InvalidTasksError
from bots_service.ports.catalog import Datasets
from bots_service.ports.records import DatasetRow, IdempotencyKey, OpenDataset


@dataclass(frozen=True, slots=True)
class RetireTasks:
    """Retire tasks; retiring one again is fine."""

    datasets: Datasets
    open_datasets: OpenDatasets
    notify_replicas: NotifyReplicas

    async def __call__(self, name: str, ids: list[str], idempotency_key: IdempotencyKey | None) -> DatasetRow:
        """Return the dataset without these tasks.

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
        # To the end even if the caller stops waiting, or these tasks would be handed out on.
        return await asyncio.shield(self._retire(dataset, frozen(np.unique(tasks)), idempotency_key))

    async def _retire(self, dataset: OpenDataset, tasks: Tasks, idempotency_key: IdempotencyKey | None) -> DatasetRow:
        retired = np.union1d(dataset.pool.retired, tasks).astype(np.int32)
        try:
            row = await self.datasets.retire(dataset.row, tasks, idempotency_key)
        except BusyError:
            self.open_datasets.invalidate(dataset.row.name)
            raise
        self.open_datasets.keep(opened(row, dataset.ids, dataset.pool, retired))
        await self.notify_replicas.of_change(row)
        return row
