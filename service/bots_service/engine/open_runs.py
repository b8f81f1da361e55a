"""Open datasets and runs, kept in memory, bounded."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from bots_service.core.arrays import Tasks
from bots_service.core.state import RunState
from bots_service.engine.dataset_builder import DatasetBuilder, DatasetHeader, opened
from bots_service.errors import UnknownRunError
from bots_service.metrics.training import Cache
from bots_service.ports.catalog import Datasets, Runs
from bots_service.ports.records import DatasetRow, Head, OpenDataset, RunRow


class OpenDatasets:
    """Datasets by name, loaded when first asked for; the least recently used go when memory is short."""

    def __init__(self, datasets: Datasets, *, max_bytes: int, cache: Cache) -> None:
        """Open datasets from a store.

        Args:
            datasets: where they are kept.
            max_bytes: how much memory the open ones may take; the one in use always stays.
            cache: counts how often a dataset was open.
        """
        self._datasets = datasets
        self._max_bytes = max_bytes
        self._cache = cache
        self._open: OrderedDict[str, OpenDataset] = OrderedDict()
        self._loading = asyncio.Lock()
        self._changed: set[str] = set()  # while one was loading

    async def __call__(self, name: str) -> OpenDataset:
        """Return the dataset.

        Raises:
            UnknownDatasetError: there is none of that name.
        """
        known = self._open.get(name)
        self._cache.looked_up(found=known is not None)
        if known is not None:
            self._open.move_to_end(name)
            return known
        async with self._loading:
            while name not in self._open:
                self._changed.clear()
                loaded = await self._load(await self._datasets.get(name))
                if name not in self._changed:  # or an older version would stay, or a deleted dataset
                    self.keep(loaded)
            return self._open[name]

    def known(self, name: str) -> OpenDataset | None:
        """Return the dataset if it is open."""
        return self._open.get(name)

    async def fresh(self, name: str) -> OpenDataset:
        """Return the dataset as it stands in SQL, for another replica may have changed or replaced it.

        Raises:
            UnknownDatasetError: there is none of that name.
        """
        row = await self._datasets.get(name)
        known = self._open.get(name)
        if known is not None and (known.row.id, known.row.version) != (row.id, row.version):
            self.forget(name)
        return await self(name)

    async def _load(self, row: DatasetRow) -> OpenDataset:
        builder = await self.builder(row)
        _, ids, pool = await asyncio.to_thread(builder.build, row.facts)
        return opened(row, ids, pool, await self._datasets.retired(row.id))

    async def builder(self, row: DatasetRow) -> DatasetBuilder:
        """Return a builder that holds the dataset's tasks, as if they had just come."""
        builder = DatasetBuilder(DatasetHeader(row.facts.reference_models, row.facts.description))
        async for block in self._datasets.blocks(row.id):
            await asyncio.to_thread(builder.add, block)
        return builder

    def keep(self, dataset: OpenDataset) -> None:
        """Keep a dataset open, in place of an older version of it."""
        self._changed.add(dataset.row.name)
        self._open[dataset.row.name] = dataset
        self._open.move_to_end(dataset.row.name)
        while len(self._open) > 1 and sum(other.nbytes for other in self._open.values()) > self._max_bytes:
            self._open.popitem(last=False)

    def notice(self, name: str, dataset_id: int, version: int) -> None:
        """Close a dataset of which another replica made a newer version."""
        known = self._open.get(name)
        if known is not None and known.row.id == dataset_id and known.row.version < version:
            self.forget(name)

    def forget(self, name: str) -> None:
        """Close a dataset: it was deleted, or changed."""
        self._changed.add(name)
        self._open.pop(name, None)


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
