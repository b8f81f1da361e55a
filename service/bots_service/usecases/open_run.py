"""Finds a run by the names of its dataset and its own."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from bots_service.core.arrays import Tasks
from bots_service.core.state import RunState
from bots_service.errors import UnknownRunError
from bots_service.ports.catalog import Runs
from bots_service.ports.records import Head, OpenDataset, RunRow
from bots_service.usecases.open_dataset import OpenDatasets

Result = TypeVar("Result")

KEPT_ROWS = 65_536  # run rows are small; this many take about 30 MB


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run with its dataset in memory. The row's head and epoch are those of when it was first read."""

    dataset: OpenDataset
    row: RunRow


class OpenRuns:
    """Runs by name, read from SQL once."""

    def __init__(self, runs: Runs, open_datasets: OpenDatasets) -> None:
        self._runs = runs
        self._open_datasets = open_datasets
        self._rows: OrderedDict[tuple[int, str], RunRow] = OrderedDict()
        self._used: dict[tuple[int, str], str] = {}  # -> the name of the dataset
        self._forgotten = 0

    async def __call__(self, dataset_name: str, run_name: str) -> OpenRun:
        """Return the run.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """
        dataset = await self._open_datasets(dataset_name)
        key = (dataset.row.id, run_name)
        while key not in self._rows:
            forgotten = self._forgotten
            row = await self._runs.get(*key)
            if forgotten == self._forgotten:  # or a row that was deleted or replaced meanwhile would stay
                self._rows[key] = row
                self._drop_oldest()
        self._used[key] = dataset_name
        return OpenRun(dataset, self._rows[key])

    def used_lately(self) -> list[OpenRun]:
        """Return the runs that were asked for since the last call of this, and are still in memory."""
        used, self._used = self._used, {}
        rows = ((self._open_datasets.known(name), self._rows.get(key)) for key, name in used.items())
        return [
            OpenRun(dataset, row)
            for dataset, row in rows
            if dataset is not None and row is not None and row.dataset_id == dataset.row.id
        ]

    async def using(self, dataset_name: str, run_name: str, work: Callable[[OpenRun], Awaitable[Result]]) -> Result:
        """Return what the work makes of the run; a second time where another replica replaced the run or its dataset.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """
        run = None
        try:
            run = await self(dataset_name, run_name)
            return await work(run)
        except UnknownRunError:
            await self._open_datasets.fresh(dataset_name)
            if run is not None:
                self.forget(run.row)
            again = await self(dataset_name, run_name)
            if run is not None and (again.row.id, again.row.uid) == (run.row.id, run.row.uid):
                raise
            return await work(again)

    async def knowing(self, run: OpenRun, tasks: Tasks) -> OpenRun:
        """Return the run with its dataset as it stands by now if some of these tasks are newer than what is open."""
        if len(tasks) and int(tasks.max()) >= len(run.dataset.ids):
            self._open_datasets.forget(run.dataset.row.name)
            return await self.again(run)
        return run

    async def fresh(self, dataset_name: str, run_name: str) -> OpenRun:
        """Return the run as it stands in SQL.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """
        dataset = await self._open_datasets.fresh(dataset_name)
        return OpenRun(dataset, await self._runs.get(dataset.row.id, run_name))

    def notice(self, run: OpenRun, head: Head) -> None:
        """Read the run's dataset anew next time if another replica changed it."""
        self._open_datasets.notice(run.dataset.row.name, run.row.dataset_id, head.dataset_version)

    async def fitting(self, run: OpenRun, state: RunState) -> OpenRun:
        """Return the run with its dataset as it stands by now, and with all tasks that the state knows.

        Raises:
            UnknownDatasetError, UnknownRunError: the run is gone, for its dataset was deleted.
        """
        again = await self.again(run)
        if state.fits(again.dataset.pool):
            return again
        self._open_datasets.forget(run.dataset.row.name)  # another replica appended tasks, and they were reported
        return await self.again(run)

    async def again(self, run: OpenRun) -> OpenRun:
        """Return the run with its dataset as it stands by now: tasks may have been appended since it was opened.

        Raises:
            UnknownDatasetError, UnknownRunError: the run is gone, for its dataset was deleted.
        """
        dataset = await self._open_datasets(run.dataset.row.name)
        if dataset.row.id != run.row.dataset_id:
            raise UnknownRunError(f"run {run.row.name!r} was deleted or replaced")
        return OpenRun(dataset, run.row)

    def forget(self, row: RunRow) -> None:
        """Read the run anew next time: it was deleted or replaced."""
        self._rows.pop((row.dataset_id, row.name), None)
        self._forgotten += 1

    def _drop_oldest(self) -> None:
        if len(self._rows) > KEPT_ROWS:
            self._rows.popitem(last=False)
