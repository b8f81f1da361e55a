"""What every Datasets owes of subsets."""

import numpy as np
import pytest

from bots_service.core.arrays import Tasks, frozen
from bots_service.errors import UnknownDatasetError
from bots_service.ports.catalog import MOST_SUBSETS
from bots_service.records import DatasetRow, Subset
from tests.storage import made
from tests.storage.made import Stores


async def keep(stores: Stores, row: DatasetRow, name: str, tasks: Tasks) -> Subset:
    subset = Subset(name, len(tasks), 0, 0, ())
    return await stores.datasets.keep_subset(row, subset, tasks)


def some(*tasks: int) -> Tasks:
    return frozen(np.array(tasks, np.int32))


class SubsetsContract:
    """For a fixture `stores`."""

    @pytest.mark.parametrize("tasks", [[0], [9], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 8], [7, 8]])
    async def test_a_subset_is_read_as_it_was_kept(self, stores: Stores, tasks: list[int]):
        row = await made.dataset(stores)
        kept = await keep(stores, row, "some", some(*tasks))
        assert kept.name == "some"
        found = await stores.datasets.subset(row.id, "some")
        assert found is not None
        assert found.tolist() == tasks

    async def test_a_name_that_is_not_known_has_no_subset(self, stores: Stores):
        row, other = await made.dataset(stores), await made.dataset(stores)
        await keep(stores, other, "some", some(1))
        assert await stores.datasets.subset(row.id, "some") is None

    async def test_a_dataset_that_is_gone_has_no_subsets(self, stores: Stores):
        row = await made.dataset(stores)
        await keep(stores, row, "some", some(1))
        await stores.datasets.delete(row)
        assert await stores.datasets.subset(row.id, "some") is None
        with pytest.raises(UnknownDatasetError):
            await keep(stores, row, "some", some(1))

    async def test_the_subsets_that_were_kept_last_stay(self, stores: Stores):
        row = await made.dataset(stores)
        for name in ("first", "second"):
            await keep(stores, row, name, some(1))
        for number in range(MOST_SUBSETS - 2):
            await keep(stores, row, f"more-{number}", some(2))
        await keep(stores, row, "first", some(1))
        await keep(stores, row, "last", some(3))
        found = [await stores.datasets.subset(row.id, name) is not None for name in ("first", "second", "last")]
        assert found == [True, False, True]
