"""What every store owes that must not keep more than it may."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any

import pytest

from bots_service.core.run_settings import RunSettings
from bots_service.errors import LimitReachedError
from bots_service.records import Capacity, DatasetRow, RunPut
from bots_service.storage.sql.datasets import SqlDatasets
from bots_service.storage.sql.runs import SqlRuns
from bots_service.storage.sql.transfer import Moved, SqlTransfers
from tests.storage import made
from tests.storage.made import Stores

ALL = ("*",)
SMALL = Capacity(tasks=10, datasets=3, datasets_per_key=2, runs=3)


async def make(stores: Stores, name: str, within: tuple[str, ...] = ALL) -> DatasetRow:
    datasets = SqlDatasets(stores.database, SMALL)
    return (await datasets.create(name, await datasets.stage(), made.facts(0), within=within)).row


async def made_of(attempts: Iterable[Awaitable[Any]]) -> int:
    """Return how many attempts at the same time succeed; the others must be refused for want of room."""
    results = await asyncio.gather(*attempts, return_exceptions=True)
    refused = [result for result in results if isinstance(result, BaseException)]
    assert all(isinstance(error, LimitReachedError) for error in refused), refused
    return len(results) - len(refused)


class CapacityContract:
    async def test_a_dataset_has_at_most_so_many_tasks(self, stores: Stores):
        datasets = SqlDatasets(stores.database, SMALL)
        stage = await datasets.stage()
        await datasets.add_block(stage, made.block(0, 10))
        with pytest.raises(
            LimitReachedError, match=r"too many tasks: 11, and a dataset can have 10 \(BOTS_MAX_TASKS\)"
        ):
            await datasets.add_block(stage, made.block(10, 1))
        row, _ = await datasets.create("full", stage, made.facts(10))

        with pytest.raises(LimitReachedError, match="BOTS_MAX_TASKS"):
            await datasets.append(row, await datasets.stage(), made.facts(11))
        assert await datasets.get("full") == row

    async def test_there_are_at_most_so_many_datasets_also_of_callers_at_the_same_time(self, stores: Stores):
        assert await made_of(make(stores, f"d{number}") for number in range(6)) == SMALL.datasets
        with pytest.raises(LimitReachedError, match=r"there are 3 already \(BOTS_MAX_DATASETS\)"):
            await make(stores, "more")
        await stores.datasets.delete((await stores.datasets.after("", 1))[0])
        await make(stores, "more")

    async def test_a_key_reaches_at_most_so_many_datasets(self, stores: Stores):
        assert await made_of(make(stores, f"a-{number}", ("a-*", "c")) for number in range(5)) == SMALL.datasets_per_key
        with pytest.raises(LimitReachedError, match=r"it can access 2 already \(BOTS_MAX_DATASETS_PER_KEY\)"):
            await make(stores, "c", ("a-*", "c"))
        await make(stores, "b-0", ("b-*",))

    async def test_a_dataset_has_at_most_so_many_runs_also_of_callers_at_the_same_time(self, stores: Stores):
        row, runs = await make(stores, "d"), SqlRuns(stores.database, SMALL)
        puts = (runs.put(row.id, f"r{number}", RunSettings()) for number in range(6))
        assert await made_of(puts) == SMALL.runs - len(["default"])
        with pytest.raises(LimitReachedError, match=r"has 3, and can have 3 \(BOTS_MAX_RUNS\)"):
            await runs.put(row.id, "more", RunSettings())
        full = await runs.after(row.id, "", 10)

        changed, put = await runs.put(row.id, full[0].name, RunSettings(target=0.3))  # no new run
        await runs.delete(full[1])
        await runs.put(row.id, "more", RunSettings())

        assert (changed.settings.target, put) == (0.3, RunPut.REPLACED)

    async def test_imports_make_no_more_runs_than_there_is_room_for(self, stores: Stores):
        transfers, row = SqlTransfers(stores.database, SMALL), await make(stores, "d")

        async def imported(name: str) -> Moved:
            stage = await stores.datasets.stage()
            return await transfers.finish(row, name, stage, await transfers.add_run(stage, RunSettings(), ()), None)

        assert await made_of(imported(f"r{number}") for number in range(5)) == SMALL.runs - len(["default"])
        assert (await imported("default")).replaced is not None  # in place of the empty one
