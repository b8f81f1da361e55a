"""POST subsets: name some of a dataset's tasks once, to select among them ever after."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

import numpy as np

from bots_service.core.arrays import Tasks, contained, united
from bots_service.engine.open_runs import OpenDatasets
from bots_service.errors import InvalidTasksError
from bots_service.ports.catalog import Datasets
from bots_service.ports.records import OpenDataset, Subset, TaskBlock
from bots_service.usecases.import_dataset import KeyOfUpload


@dataclass(frozen=True, slots=True)
class MakeSubset:
    """Keep a subset of a dataset under a name that follows from its tasks: the same tasks have the same name."""

    datasets: Datasets
    open_datasets: OpenDatasets

    async def __call__(
        self, dataset_name: str, blocks: AsyncIterator[TaskBlock], idempotency_key: KeyOfUpload
    ) -> Subset:
        """Return the subset; it is not kept if the dataset does not have some of its tasks.

        Args:
            dataset_name: the dataset's.
            blocks: the tasks, of which only the ids count; a repeated one counts once.
            idempotency_key: called once all blocks came: only then is the request's fingerprint known.

        Raises:
            UnknownDatasetError: there is no such dataset.
            InvalidTasksError: there is no task.
        """
        dataset = await self.open_datasets.fresh(dataset_name)
        found = [await asyncio.to_thread(dataset.ids.find, block.ids) async for block in blocks]
        if not found:
            raise InvalidTasksError("a subset needs at least one task")
        subset, tasks = await asyncio.to_thread(_described, dataset, np.concatenate(found))
        if subset.missing:
            return subset
        return await self.datasets.keep_subset(dataset.row, subset, tasks, idempotency_key())


def _described(dataset: OpenDataset, found: Tasks) -> tuple[Subset, Tasks]:
    """Return a subset and its tasks. found: [n] the task of each id, -1 where there is none."""
    missing = np.flatnonzero(found < 0)
    tasks = united(found[found >= 0])
    retired = int(np.count_nonzero(contained(tasks, (dataset.pool.retired,))))
    name = None if len(missing) else hashlib.blake2b(tasks.astype("<i4").tobytes(), digest_size=16).hexdigest()
    return Subset(name, len(tasks), retired, len(dataset.pool) - len(tasks), tuple(missing.tolist())), tasks
