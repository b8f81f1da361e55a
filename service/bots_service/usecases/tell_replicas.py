"""Tells other replicas that a dataset changed: what they hold of its runs must be asked for anew."""

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
    """Makes every replica look at SQL before it goes on with a run of the dataset, and so at the dataset too."""

    runs: Runs
    states: States

    async def __call__(self, dataset: DatasetRow) -> None:
        """Tell the others; they notice by themselves within seconds if they can't be told."""
        async for run in all_runs(self.runs, dataset.id):
            await self.states.doubt(run)
