"""Finds a run by the names of its dataset and its own."""

from collections import OrderedDict
from dataclasses import dataclass

from bots_service.errors import UnknownRunError
from bots_service.ports.catalog import Runs
from bots_service.ports.records import OpenDataset, RunRow
from bots_service.usecases.open_dataset import OpenDatasets

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
        return OpenRun(dataset, self._rows[key])

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
