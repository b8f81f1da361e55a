"""Tells other replicas of a dataset that changed, or is new."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from bots_service.ports.catalog import Runs
from bots_service.ports.hot import States
from bots_service.ports.records import DatasetRow, RunRow

PAGE = 1000


async def all_runs(runs: Runs, dataset_id: int) -> AsyncIterator[RunRow]:
    """Yield every run of a dataset."""
    page = await runs.after(dataset_id, "", PAGE)
    while page:
        for row in page:
            yield row
        page = await runs.after(dataset_id, page[-1].name, PAGE)


@dataclass(frozen=True, slots=True)
class TellReplicas:
    """Tells other replicas, through the hot store, before a change is acknowledged."""

    runs: Runs
    states: States

    async def of_change(self, dataset: DatasetRow) -> None:
        """Make every replica look at SQL before it goes on with a run of the dataset, and so at the dataset too.

        Those that can't be told notice by themselves within seconds.
        """
        async for run in all_runs(self.runs, dataset.id):
            await self.states.doubt(run)

    async def of_new(self, dataset: DatasetRow) -> None:
        """Say that the dataset's runs are new."""
        async for run in all_runs(self.runs, dataset.id):
            await self.states.created(run)
