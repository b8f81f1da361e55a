"""Keeps datasets open in memory, bounded."""

import asyncio
from collections import OrderedDict

from bots_service.metrics.caches import Cache
from bots_service.ports.catalog import Datasets
from bots_service.ports.records import DatasetRow, OpenDataset
from bots_service.usecases.dataset_builder import DatasetBuilder, DatasetHeader, opened


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
        _, ids, pool = await asyncio.to_thread(builder.build, row.facts.reference_order)
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
