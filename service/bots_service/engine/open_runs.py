"""Caches of open datasets and runs, bounded in memory."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from bots_service.core.arrays import Tasks, last_of
from bots_service.core.predictions import PredictionsKey, seen_with
from bots_service.core.state import RunState
from bots_service.engine.dataset_builder import DatasetBuilder, DatasetHeader, opened
from bots_service.errors import Flaw, InvalidSelectionError, UnknownRunError
from bots_service.ports.catalog import Datasets, Runs
from bots_service.ports.records import DatasetRow, Head, OpenDataset, RunRow

MOST_VIEWS = 8  # of one dataset; each takes about as much memory as its tasks without their ids
# Tasks of a dataset or view, times its subsets that stay ready to select from; beyond it some are made again and again.
# A subset takes some 10 bytes for each task of the dataset, so all of them at most 320 MB.
SUBSET_TASKS = 32_000_000


class OpenDatasets:
    """A cache of datasets by name, loaded on first use; the least recently used are evicted."""

    def __init__(self, datasets: Datasets, *, max_bytes: int) -> None:
        """Create an empty cache.

        Args:
            datasets: the store.
            max_bytes: memory limit; the dataset used last always stays.
        """
        self._datasets = datasets
        self._max_bytes = max_bytes
        self._open: OrderedDict[str, OpenDataset] = OrderedDict()
        self._loading, self._viewing = asyncio.Lock(), asyncio.Lock()
        self._changed: set[str] = set()  # names that changed while a dataset was loading

    async def __call__(self, name: str) -> OpenDataset:
        """Return the dataset.

        Raises:
            UnknownDatasetError: it does not exist.
        """
        known = self._open.get(name)
        if known is not None:
            self._open.move_to_end(name)
            return known
        async with self._loading:
            while name not in self._open:
                self._changed.clear()
                loaded = await self._load(await self._datasets.get(name))
                if name not in self._changed:  # otherwise load again: it was changed or deleted
                    self.keep(loaded)
            return self._open[name]

    def known(self, name: str) -> OpenDataset | None:
        """Return the dataset if it is in the cache."""
        return self._open.get(name)

    async def opens_soon(self, name: str, tasks: int) -> bool:
        """Return whether the dataset is in the cache, or has no more than so many tasks.

        Raises:
            UnknownDatasetError: it does not exist.
        """
        return name in self._open or (await self._datasets.get(name)).facts.size <= tasks

    async def fresh(self, name: str) -> OpenDataset:
        """Return the dataset in its current version: another replica may have changed or replaced it.

        Raises:
            UnknownDatasetError: it does not exist.
        """
        row = await self._datasets.get(name)
        known = self._open.get(name)
        if known is not None and (known.row.id, known.row.version) != (row.id, row.version):
            self.invalidate(name)
        return await self(name)

    async def seen_with(self, dataset: OpenDataset, predictions: tuple[PredictionsKey, ...]) -> OpenDataset:
        """Return a dataset as runs see it that know these predictions; kept with the dataset for the next call.

        Raises:
            UnknownRunError: these predictions are not there any more, so no such run is.
        """
        if not predictions:
            return dataset
        async with self._viewing:
            if predictions not in dataset.views:
                columns = await self._datasets.predictions(dataset.row.id, predictions)
                pool = await asyncio.to_thread(seen_with, dataset.pool, columns)
                if len(dataset.views) == MOST_VIEWS:
                    dataset.views.pop(next(iter(dataset.views)))
                dataset.views[predictions] = replace(dataset, pool=pool, views={})
            return dataset.views[predictions]

    async def within(self, dataset: OpenDataset, subset: str) -> OpenDataset:
        """Return a dataset with all tasks outside a subset retired; kept with the dataset for the next call.

        Raises:
            InvalidSelectionError: it has no such subset.
        """
        async with self._viewing:
            if subset not in dataset.subsets:
                await self._add_subset(dataset, subset)
            pool = dataset.subsets[subset] = dataset.subsets.pop(subset)  # the one that was used last is dropped last
        return replace(dataset, pool=pool, views={}, subsets={})

    async def _add_subset(self, dataset: OpenDataset, subset: str) -> None:
        tasks = await self._datasets.subset(dataset.row.id, subset)
        if tasks is None or last_of(tasks) >= len(dataset.pool):  # the last: another replica appended tasks
            flaw = Flaw(("body", "subset"), f"no subset {subset!r}; post its tasks to the dataset's subsets")
            raise InvalidSelectionError("invalid selection", (flaw,))
        pool = await asyncio.to_thread(dataset.pool.only, subset, tasks)
        while len(dataset.subsets) >= max(1, SUBSET_TASKS // len(pool)):
            dataset.subsets.pop(next(iter(dataset.subsets)))
        dataset.subsets[subset] = pool

    async def _load(self, row: DatasetRow) -> OpenDataset:
        builder = await self.builder(row)
        _, ids, pool = await asyncio.to_thread(builder.build, row.facts)
        return opened(row, ids, pool, await self._datasets.retired(row.id))

    async def builder(self, row: DatasetRow) -> DatasetBuilder:
        """Return a builder that contains the dataset's tasks."""
        builder = DatasetBuilder(DatasetHeader(row.facts.reference_models, row.facts.description, row.facts.repeatable))
        async for block in self._datasets.blocks(row.id):
            await asyncio.to_thread(builder.add, block)
        return builder

    def keep(self, dataset: OpenDataset) -> None:
        """Add a dataset to the cache, replacing an older version."""
        self._changed.add(dataset.row.name)
        self._open[dataset.row.name] = dataset
        self._open.move_to_end(dataset.row.name)
        while len(self._open) > 1 and sum(other.nbytes for other in self._open.values()) > self._max_bytes:
            self._open.popitem(last=False)

    def invalidate_older(self, name: str, dataset_id: int, version: int) -> None:
        """Remove a dataset from the cache if its version is older than this one."""
        known = self._open.get(name)
        if known is not None and known.row.id == dataset_id and known.row.version < version:
            self.invalidate(name)

    def invalidate(self, name: str) -> None:
        """Remove a dataset from the cache, because it was changed or deleted."""
        self._changed.add(name)
        self._open.pop(name, None)


Result = TypeVar("Result")

KEPT_ROWS = 65_536  # about 30 MB


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run with its open dataset. The row's head and epoch may be outdated: they are from the first read."""

    dataset: OpenDataset
    row: RunRow


class OpenRuns:
    """A cache of runs by name."""

    def __init__(self, runs: Runs, open_datasets: OpenDatasets) -> None:
        self._runs = runs
        self._open_datasets = open_datasets
        self._rows: OrderedDict[tuple[int, str], RunRow] = OrderedDict()
        self._used: dict[tuple[int, str], str] = {}  # -> name of the dataset
        self._invalidations = 0

    async def __call__(self, dataset_name: str, run_name: str) -> OpenRun:
        """Return the run.

        Raises:
            UnknownDatasetError, UnknownRunError: the dataset or the run does not exist.
        """
        dataset = await self._open_datasets(dataset_name)
        key = (dataset.row.id, run_name)
        while key not in self._rows:
            invalidations = self._invalidations
            row = await self._runs.get(*key)
            if invalidations == self._invalidations:  # otherwise read again: a run was deleted or replaced meanwhile
                self._rows[key] = row
                self._drop_oldest()
        self._used[key] = dataset_name
        return await self.of(dataset, self._rows[key])

    async def of(self, dataset: OpenDataset, row: RunRow) -> OpenRun:
        """Return a run with the dataset as it sees it.

        Args:
            dataset: without predictions.
            row: the run's.

        Raises:
            UnknownRunError: it was deleted or replaced.
        """
        try:
            return OpenRun(await self._open_datasets.seen_with(dataset, row.predictions), row)
        except UnknownRunError:
            self.invalidate(row)
            raise

    async def within(self, run: OpenRun, subset: str) -> OpenRun:
        """Return a run with a dataset of whose tasks only those of a subset are handed out.

        Raises:
            InvalidSelectionError: its dataset has no such subset.
        """
        return OpenRun(await self._open_datasets.within(run.dataset, subset), run.row)

    def used_recently(self) -> list[OpenRun]:
        """Return the runs used since the last call that are still in the cache, with their datasets as these are."""
        used, self._used = self._used, {}
        rows = ((self._open_datasets.known(name), self._rows.get(key)) for key, name in used.items())
        return [
            OpenRun(dataset, row)
            for dataset, row in rows
            if dataset is not None and row is not None and row.dataset_id == dataset.row.id
        ]

    async def using(self, dataset_name: str, run_name: str, work: Callable[[OpenRun], Awaitable[Result]]) -> Result:
        """Return the result of `work` on the run; repeat it if another replica replaced the run or its dataset.

        Raises:
            UnknownDatasetError, UnknownRunError: the dataset or the run does not exist.
        """
        run = None
        try:
            run = await self(dataset_name, run_name)
            return await work(run)
        except UnknownRunError:
            await self._open_datasets.fresh(dataset_name)
            if run is not None:
                self.invalidate(run.row)
            again = await self(dataset_name, run_name)
            if run is not None and (again.row.id, again.row.uid) == (run.row.id, run.row.uid):
                raise
            return await work(again)

    async def with_tasks(self, run: OpenRun, tasks: Tasks) -> OpenRun:
        """Return the run; with a newly loaded dataset if the open one does not have all of these tasks."""
        if len(tasks) and int(tasks.max()) >= len(run.dataset.ids):
            self._open_datasets.invalidate(run.dataset.row.name)
            return await self.refreshed(run)
        return run

    async def fresh(self, dataset_name: str, run_name: str) -> OpenRun:
        """Return the run in its current version from SQL.

        Raises:
            UnknownDatasetError, UnknownRunError: the dataset or the run does not exist.
        """
        dataset = await self._open_datasets.fresh(dataset_name)
        return await self.of(dataset, await self._runs.get(dataset.row.id, run_name))

    def invalidate_changed_dataset(self, run: OpenRun, head: Head) -> None:
        """Remove the run's dataset from the cache if another replica changed it."""
        self._open_datasets.invalidate_older(run.dataset.row.name, run.row.dataset_id, head.dataset_version)

    async def matching(self, run: OpenRun, state: RunState) -> OpenRun:
        """Return the run with the current version of its dataset, which has all tasks that the state knows.

        Raises:
            UnknownDatasetError, UnknownRunError: the dataset was deleted.
        """
        refreshed = await self.refreshed(run)
        if state.fits(refreshed.dataset.pool):
            return refreshed
        self._open_datasets.invalidate(run.dataset.row.name)  # reports refer to tasks that another replica appended
        return await self.refreshed(run)

    async def refreshed(self, run: OpenRun) -> OpenRun:
        """Return the run with the cached version of its dataset, which may have more tasks than the run's own.

        Raises:
            UnknownDatasetError, UnknownRunError: the dataset was deleted.
        """
        dataset = await self._open_datasets(run.dataset.row.name)
        if dataset.row.id != run.row.dataset_id:
            raise UnknownRunError(f"run {run.row.name!r} was deleted or replaced")
        return await self.of(dataset, run.row)

    def invalidate(self, row: RunRow) -> None:
        """Remove a run from the cache, because it was deleted or replaced."""
        self._rows.pop((row.dataset_id, row.name), None)
        self._invalidations += 1

    def _drop_oldest(self) -> None:
        if len(self._rows) > KEPT_ROWS:
            self._rows.popitem(last=False)
