"""Datasets as stores keep them: tasks, retired ones, subsets; and how much they may keep."""

import asyncio
from collections.abc import Awaitable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bots_service.core.arrays import Tasks, frozen
from bots_service.core.run_settings import RunSettings
from bots_service.errors import BusyError, DatasetExistsError, LimitReachedError, UnknownDatasetError, UnknownRunError
from bots_service.records import Capacity, DatasetRow, Subset, TaskBlock
from bots_service.storage.sql.datasets import MOST_SUBSETS, SqlDatasets
from bots_service.storage.sql.runs import SqlRuns
from bots_service.storage.sql.stores import SqlStores
from bots_service.storage.sql.transfer import Moved, SqlTransfers
from tests.storage import made

ALL = ("*",)
SMALL = Capacity(tasks=10, datasets=3, datasets_per_key=2, runs=3)


async def tasks_of(stores: SqlStores, dataset_id: int) -> list[TaskBlock]:
    return [block async for block in stores.datasets.blocks(dataset_id)]


async def test_a_dataset_reads_back_as_it_was_put(stores: SqlStores):
    stage = await stores.datasets.stage()
    blocks = [made.block(0, 7), made.block(7, 1), made.block(8, 5)]
    for block in blocks:
        await stores.datasets.add_block(stage, block)
    row, created = await stores.datasets.create(None, "guru", stage, made.facts(13))
    assert created
    assert row == await stores.datasets.get("guru")
    assert (await stores.runs.get(row.id, "default")).settings == RunSettings()
    assert (row.facts, row.retired, row.live) == (made.facts(13), 0, 13)
    read = await tasks_of(stores, row.id)
    assert [(block.ids, block.tags) for block in read] == [(block.ids, block.tags) for block in blocks]
    for one, other in zip(read, blocks, strict=True):
        np.testing.assert_array_equal(one.references, other.references)


async def test_what_is_staged_is_not_seen_until_it_becomes_a_dataset(stores: SqlStores):
    stage = await stores.datasets.stage()
    await stores.datasets.add_block(stage, made.block(0, 3))
    assert await stores.datasets.after("", 100) == []
    for _ in range(2):
        await stores.datasets.drop_stage(stage)
    row = await made.dataset(stores)
    await stores.datasets.drop_stage(row.id)
    assert await stores.datasets.after("", 100) == [row]


async def test_of_callers_that_create_one_dataset_at_once_one_does_and_those_with_the_same_content_get_it(
    stores: SqlStores,
):
    stages = [await stores.datasets.stage() for _ in range(9)]
    creates = (stores.datasets.create(None, "guru", stage, made.facts(stage % 2)) for stage in stages)
    results = await asyncio.gather(*creates, return_exceptions=True)
    row = await stores.datasets.get("guru")
    same = [result for result in results if isinstance(result, tuple)]
    assert {type(result) for result in results} <= {tuple, DatasetExistsError}
    assert sorted(same, key=lambda result: result[1]) == [(row, False)] * (len(same) - 1) + [(row, True)]
    assert len(same) == sum(stage % 2 == row.facts.size for stage in stages)


async def test_appended_blocks_follow_the_old_ones_and_raise_the_version(stores: SqlStores):
    row = await made.dataset(stores, size=4)
    stage = await stores.datasets.stage()
    for start in (4, 6):
        await stores.datasets.add_block(stage, made.block(start, 2))
    grown = await stores.datasets.append(None, row, stage, made.facts(8))
    assert grown == replace(row, version=row.version + 1, facts=made.facts(8))
    ids = [task for block in await tasks_of(stores, row.id) for task in block.ids]
    assert ids == [f"task-{task}" for task in range(8)]
    with pytest.raises(BusyError):
        await stores.datasets.append(None, row, await stores.datasets.stage(), made.facts(9))


async def test_a_stage_that_is_gone_becomes_nothing(stores: SqlStores):
    row, stage = await made.dataset(stores), await stores.datasets.stage()
    await stores.datasets.drop_stage(stage)
    with pytest.raises(BusyError):
        await stores.datasets.create(None, "guru", stage, made.facts(0))
    with pytest.raises(BusyError):
        await stores.datasets.append(None, row, stage, made.facts(20))
    assert await stores.datasets.get(row.name) == row


async def test_the_retired_tasks_are_those_that_were_set_last(stores: SqlStores):
    row = await made.dataset(stores)
    assert len(await stores.datasets.retired(row.id)) == 0
    once = await stores.datasets.set_retired(None, row, some(2, 7))
    assert (once.retired, once.live, once.version) == (2, 8, row.version + 1)
    assert (await stores.datasets.retired(row.id)).tolist() == [2, 7]
    with pytest.raises(BusyError):
        await stores.datasets.set_retired(None, row, some(3))
    none_left = await stores.datasets.set_retired(None, once, some())
    assert (none_left.retired, len(await stores.datasets.retired(row.id))) == (0, 0)


async def test_deleting_a_dataset_deletes_all_that_hangs_on_it(stores: SqlStores):
    row = await made.dataset(stores)
    run = await made.run(stores, row)
    await made.append(stores, run)
    await stores.datasets.delete(None, row)
    with pytest.raises(UnknownDatasetError):
        await stores.datasets.get(row.name)
    with pytest.raises(UnknownDatasetError):
        await tasks_of(stores, row.id)
    with pytest.raises(UnknownRunError):
        await made.append(stores, run)
    assert await made.receipt_of_entry(stores, run, 1) is None


async def keep(stores: SqlStores, row: DatasetRow, name: str, tasks: Tasks) -> Subset:
    subset = Subset(row.name, name, len(tasks), 0, 0, ())
    return await stores.datasets.keep_subset(None, row, subset, tasks)


def some(*tasks: int) -> Tasks:
    return frozen(np.array(tasks, np.int32))


@pytest.mark.parametrize("tasks", [[0], [9], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 8], [7, 8]])
async def test_a_subset_is_read_as_it_was_kept(stores: SqlStores, tasks: list[int]):
    row = await made.dataset(stores)
    kept = await keep(stores, row, "some", some(*tasks))
    assert kept.name == "some"
    found = await stores.datasets.subset(row.id, "some")
    assert found is not None
    assert found.tolist() == tasks


async def test_a_dataset_without_a_subset_of_that_name_or_that_is_gone_has_none(stores: SqlStores):
    row, other = await made.dataset(stores), await made.dataset(stores)
    await keep(stores, other, "some", some(1))
    assert await stores.datasets.subset(row.id, "some") is None
    await stores.datasets.delete(None, other)
    assert await stores.datasets.subset(other.id, "some") is None
    with pytest.raises(UnknownDatasetError):
        await keep(stores, other, "some", some(1))


async def test_the_subsets_that_were_kept_last_stay(stores: SqlStores):
    row = await made.dataset(stores)
    for name in ("first", "second"):
        await keep(stores, row, name, some(1))
    for number in range(MOST_SUBSETS - 2):
        await keep(stores, row, f"more-{number}", some(2))
    await keep(stores, row, "first", some(1))
    await keep(stores, row, "last", some(3))
    found = [await stores.datasets.subset(row.id, name) is not None for name in ("first", "second", "last")]
    assert found == [True, False, True]


async def make(stores: SqlStores, name: str, within: tuple[str, ...] = ALL) -> DatasetRow:
    datasets = SqlDatasets(stores.database, SMALL)
    return (await datasets.create(None, name, await datasets.stage(), made.facts(0), within=within))[0]


async def made_of(attempts: Iterable[Awaitable[Any]]) -> int:
    """Return how many attempts at the same time succeed; the others must be refused for want of room."""
    results = await asyncio.gather(*attempts, return_exceptions=True)
    refused = [result for result in results if isinstance(result, BaseException)]
    assert all(isinstance(error, LimitReachedError) for error in refused), refused
    return len(results) - len(refused)


async def test_a_dataset_has_at_most_so_many_tasks(stores: SqlStores):
    datasets = SqlDatasets(stores.database, SMALL)
    stage = await datasets.stage()
    await datasets.add_block(stage, made.block(0, 10))
    with pytest.raises(LimitReachedError, match=r"too many tasks: 11, and a dataset can have 10 \(BOTS_MAX_TASKS\)"):
        await datasets.add_block(stage, made.block(10, 1))
    row, _ = await datasets.create(None, "full", stage, made.facts(10))

    with pytest.raises(LimitReachedError, match="BOTS_MAX_TASKS"):
        await datasets.append(None, row, await datasets.stage(), made.facts(11))
    assert await datasets.get("full") == row


async def test_there_are_at_most_so_many_datasets_also_of_callers_at_the_same_time(stores: SqlStores):
    assert await made_of(make(stores, f"d{number}") for number in range(6)) == SMALL.datasets
    with pytest.raises(LimitReachedError, match="there are 3 already; delete some"):
        await make(stores, "more")
    await stores.datasets.delete(None, (await stores.datasets.after("", 1))[0])
    await make(stores, "more")


async def test_a_key_reaches_at_most_so_many_datasets(stores: SqlStores):
    assert await made_of(make(stores, f"a-{number}", ("a-*", "c")) for number in range(5)) == SMALL.datasets_per_key
    with pytest.raises(LimitReachedError, match="it can access 2 already; delete some"):
        await make(stores, "c", ("a-*", "c"))
    await make(stores, "b-0", ("b-*",))


async def test_a_dataset_has_at_most_so_many_runs_also_of_callers_at_the_same_time(stores: SqlStores):
    row, runs = await make(stores, "d"), SqlRuns(stores.database, SMALL)
    puts = (runs.put(row.id, f"r{number}", RunSettings()) for number in range(6))
    assert await made_of(puts) == SMALL.runs - len(["default"])
    with pytest.raises(LimitReachedError, match="has 3, and can have 3; delete some"):
        await runs.put(row.id, "more", RunSettings())
    full = await runs.all(row.id)

    changed, before = await runs.put(row.id, full[0].name, RunSettings(target=0.3))  # no new run
    await runs.delete(None, full[1])
    await runs.put(row.id, "more", RunSettings())

    assert (changed.settings.target, before) == (0.3, full[0])


async def test_imports_make_no_more_runs_than_there_is_room_for(stores: SqlStores):
    transfers, row = SqlTransfers(stores.database, SMALL), await make(stores, "d")

    async def imported(name: str) -> Moved:
        stage = await stores.datasets.stage()
        return await transfers.finish(None, row, name, stage, await transfers.add_run(stage, RunSettings()))

    assert await made_of(imported(f"r{number}") for number in range(5)) == SMALL.runs - len(["default"])
    assert (await imported("default")).replaced is not None  # in place of the empty one
