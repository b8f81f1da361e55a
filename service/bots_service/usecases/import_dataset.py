"""PUT a dataset: check its tasks as they stream in, then make them visible at once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import numpy as np
import structlog

from bots_service.engine.dataset_builder import DatasetBuilder, DatasetHeader, opened
from bots_service.engine.open_runs import OpenDatasets
from bots_service.engine.replicas import NotifyReplicas
from bots_service.errors import StorageUnavailableError
from bots_service.ports.catalog import Datasets
from bots_service.ports.keys import EVERY_DATASET
from bots_service.ports.records import CreateDatasetResult, IdempotencyKey, TaskBlock

log = structlog.get_logger(__name__)

KeyOfUpload = Callable[[], IdempotencyKey | None]  # called once all came: only then is the fingerprint known


@asynccontextmanager
async def open_stage(datasets: Datasets) -> AsyncIterator[int]:
    """Open a stage for an upload, and drop it at the end; once it is a dataset, dropping it changes nothing.

    Where SQL can't drop it, what the upload came to stands: pruning drops the stage a day later.
    """
    stage = await datasets.stage()
    try:
        yield stage
    finally:
        try:
            await asyncio.shield(datasets.drop_stage(stage))
        except StorageUnavailableError as error:
            log.warning("stage_not_dropped", stage=stage, reason=str(error))


@dataclass(frozen=True, slots=True)
class ImportDataset:
    """Create a dataset from a stream of blocks; nothing is visible until all of it was good."""

    datasets: Datasets
    open_datasets: OpenDatasets
    notify_replicas: NotifyReplicas

    async def __call__(
        self,
        name: str,
        header: DatasetHeader,
        blocks: AsyncIterator[TaskBlock],
        idempotency_key: KeyOfUpload,
        *,
        within: tuple[str, ...] = (EVERY_DATASET,),
    ) -> CreateDatasetResult:
        """Return the dataset, and whether it is new.

        Args:
            name: its name.
            header: what was said before the tasks.
            blocks: the tasks.
            idempotency_key: called once all blocks came: only then is the request's fingerprint known.
            within: patterns of names that the caller's key reaches.

        Raises:
            InvalidTasksError: a task can't be true.
            LimitReachedError: there is no room for another dataset, or for so many tasks in one.
            DatasetExistsError: the name is taken by other content.
        """
        async with open_stage(self.datasets) as stage:
            builder = DatasetBuilder(header)
            async for block in blocks:
                await asyncio.to_thread(builder.add, block)
                await self.datasets.add_block(stage, block)
            facts, ids, pool = await asyncio.to_thread(builder.build)
            result = await self.datasets.create(name, stage, facts, idempotency_key(), within=within)
            if result.created:
                self.open_datasets.keep(opened(result.row, ids, pool, np.empty(0, np.int32)))
                await asyncio.shield(self.notify_replicas.of_new(result.row))
            return result
