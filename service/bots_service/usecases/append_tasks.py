"""POST tasks: put more tasks at the end of a dataset."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from bots_service.engine.dataset_builder import Built, opened
from bots_service.engine.open_runs import OpenDatasets
from bots_service.engine.replicas import NotifyReplicas
from bots_service.errors import BusyError, InvalidTasksError, TaskExistsError
from bots_service.ports.catalog import Datasets
from bots_service.ports.records import AppendTasksResult, IdempotencyKey, OpenDataset, TaskBlock
from bots_service.usecases.import_dataset import KeyOfUpload, open_stage


@dataclass(frozen=True, slots=True)
class AppendTasks:
    """Append tasks; those that were there keep their places and their beliefs."""

    datasets: Datasets
    open_datasets: OpenDatasets
    notify_replicas: NotifyReplicas

    async def __call__(
        self, name: str, blocks: AsyncIterator[TaskBlock], idempotency_key: KeyOfUpload
    ) -> AppendTasksResult:
        """Return the dataset with the tasks appended, and how many they were.

        Raises:
            UnknownDatasetError: there is no such dataset.
            InvalidTasksError: a task can't be true.
            TaskExistsError: a task's id is taken.
            BusyError: another request changed the dataset meanwhile.
            LimitReachedError: it would have more tasks than a dataset may have.
        """
        dataset = await self.open_datasets.fresh(name)
        builder = await self.open_datasets.builder(dataset.row)
        if builder.size != dataset.row.facts.size:  # the blocks are newer than the row: the same request may be at work
            self.open_datasets.invalidate(name)
            raise BusyError(f"dataset {name!r} was changed by another request at the same time; try again")
        async with open_stage(self.datasets) as stage:
            async for block in blocks:
                taken = dataset.ids.find(block.ids)
                if (taken >= 0).any():
                    raise TaskExistsError(f"task {dataset.ids[int(taken.max())]!r} is in dataset {name!r} already")
                await asyncio.to_thread(builder.add, block)
                await self.datasets.add_block(stage, block)
            if builder.size == dataset.row.facts.size:
                raise InvalidTasksError("there is no task to append")
            built = await asyncio.to_thread(builder.build, dataset.row.facts)
            # To the end even if the caller stops waiting, or the older version would stay in memory.
            return await asyncio.shield(self._append(dataset, stage, built, idempotency_key()))

    async def _append(
        self, dataset: OpenDataset, stage: int, built: Built, idempotency_key: IdempotencyKey | None
    ) -> AppendTasksResult:
        facts, ids, pool = built
        try:
            result = await self.datasets.append(dataset.row, stage, facts, idempotency_key)
        except BusyError:
            self.open_datasets.invalidate(dataset.row.name)
            raise
        self.open_datasets.keep(opened(result.row, ids, pool, dataset.pool.retired))
        await self.notify_replicas.of_change(result.row)
        return result
