"""PUT a dataset: check its tasks as they stream in, then make them visible at once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import numpy as np
import structlog

from bots_service.engine.dataset_builder import DatasetBuilder, DatasetHeader, opened
from bots_service.engine.open_runs import OpenDatasets
from bots_service.engine.replicas import TellReplicas
from bots_service.errors import DatasetExistsError, StorageUnavailableError, UnknownDatasetError
from bots_service.ports.catalog import Datasets
from bots_service.ports.keys import EVERY_DATASET
from bots_service.ports.records import DatasetRow, KeptAnswer, TaskBlock

log = structlog.get_logger(__name__)

Keep = Callable[[], KeptAnswer[DatasetRow] | None]


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
    tell_replicas: TellReplicas

    async def __call__(
        self,
        name: str,
        header: DatasetHeader,
        blocks: AsyncIterator[TaskBlock],
        keep: Keep,
        *,
        within: tuple[str, ...] = (EVERY_DATASET,),
    ) -> tuple[DatasetRow, bool]:
        """Return the dataset, and whether it is new.

        Args:
            name: its name.
            header: what was said before the tasks.
            blocks: the tasks.
            keep: called once all blocks came: only then is the request's fingerprint known.
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
            standing = await self._standing(name)
            if standing is None:
                try:
                    row = await self.datasets.create(name, stage, facts, keep(), within=within)
                    self.open_datasets.keep(opened(row, ids, pool, np.empty(0, np.int32)))
                    await asyncio.shield(self.tell_replicas.of_new(row))
                    return row, True
                except DatasetExistsError:  # many workers that begin with the same import do so at the same time
                    standing = await self.datasets.get(name)
            if standing.facts.digest != facts.digest:
                raise DatasetExistsError(
                    f"dataset {name!r} exists with other content; delete it or choose another name"
                )
            return standing, False

    async def _standing(self, name: str) -> DatasetRow | None:
        try:
            return await self.datasets.get(name)
        except UnknownDatasetError:
            return None
