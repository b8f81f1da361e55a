"""DELETE a dataset or a run, with all that hangs on it."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

from bots_service.engine.open_runs import OpenDatasets, OpenRun, OpenRuns
from bots_service.engine.replicas import all_runs
from bots_service.errors import UnknownRunError
from bots_service.metrics.run_series import RunsAtWork
from bots_service.ports.catalog import Datasets, Runs
from bots_service.ports.hot import Leases, States
from bots_service.ports.records import DatasetRow, IdempotencyKey


@dataclass(frozen=True, slots=True)
class DeleteDataset:
    """Delete a dataset with its runs, journals and snapshots."""

    datasets: Datasets
    open_datasets: OpenDatasets
    runs: Runs
    states: States
    leases: Leases
    at_work: RunsAtWork

    async def __call__(self, name: str, idempotency_key: IdempotencyKey | None) -> None:
        """Delete the dataset.

        Raises:
            UnknownDatasetError: there is none of that name.
        """
        # To the end even if the caller stops waiting, or what is deleted would stay in memory.
        await asyncio.shield(self._delete(await self.datasets.get(name), idempotency_key))

    async def _delete(self, row: DatasetRow, idempotency_key: IdempotencyKey | None) -> None:
        rows = [run async for run in all_runs(self.runs, row.id)]
        await self.datasets.delete(row, idempotency_key)
        self.open_datasets.invalidate(row.name)
        self.at_work.forget(row.name)
        for run in rows:
            await self.states.delete(run)
            await self.leases.clear(run)


@dataclass(frozen=True, slots=True)
class DeleteRun:
    """Delete a run with its journal and snapshots; a `default` run is there again at once, empty."""

    runs: Runs
    open_runs: OpenRuns
    states: States
    leases: Leases
    at_work: RunsAtWork

    async def __call__(self, dataset: str, run: str, idempotency_key: IdempotencyKey | None) -> None:
        """Delete the run.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """
        opened = await self.open_runs.fresh(dataset, run)
        await asyncio.shield(self._delete(opened, idempotency_key))

    async def _delete(self, run: OpenRun, idempotency_key: IdempotencyKey | None) -> None:
        row = run.row
        await self.runs.delete(row, idempotency_key)
        self.open_runs.invalidate(row)
        self.at_work.forget(run.dataset.row.name, row.name)
        await self.states.delete(row)
        await self.leases.clear(row)
        with suppress(UnknownRunError):  # a `default` run is there again
            await self.states.register(await self.runs.get(row.dataset_id, row.name))
