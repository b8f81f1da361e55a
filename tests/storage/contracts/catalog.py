"""What every Datasets, Runs and Answers owes."""

import asyncio
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from bots_service.core.entries import Fork
from bots_service.core.run_settings import RunSettings
from bots_service.errors import (
    BusyError,
    DamagedStateError,
    DatasetExistsError,
    KeyReusedError,
    RunHasHistoryError,
    UnknownDatasetError,
    UnknownRunError,
)
from bots_service.records import (
    Answer,
    CreateDatasetResult,
    DatasetRow,
    Parent,
    RunPut,
    RunRow,
    TaskBlock,
)
from tests.storage import made
from tests.storage.made import Stores


class KeptPut(NamedTuple):
    """What is kept of a PUT here."""

    row: RunRow
    put: RunPut


async def tasks_of(stores: Stores, dataset_id: int) -> list[TaskBlock]:
    return [block async for block in stores.datasets.blocks(dataset_id)]


class DatasetsContract:
    async def test_a_dataset_reads_back_as_it_was_put(self, stores: Stores):
        stage = await stores.datasets.stage()
        blocks = [made.block(0, 7), made.block(7, 1), made.block(8, 5)]
        for block in blocks:
            await stores.datasets.add_block(stage, block)
        row, created = await stores.datasets.create("guru", stage, made.facts(13))
        assert created
        assert row == await stores.datasets.get("guru")
        assert (row.facts, row.retired, row.live) == (made.facts(13), 0, 13)
        read = await tasks_of(stores, row.id)
        assert [(block.ids, block.tags) for block in read] == [(block.ids, block.tags) for block in blocks]
        for one, other in zip(read, blocks, strict=True):
            np.testing.assert_array_equal(one.references, other.references)

    async def test_a_dataset_without_reference_models_reads_back(self, stores: Stores):
        stage = await stores.datasets.stage()
        await stores.datasets.add_block(stage, TaskBlock(["a", "b"], np.empty((2, 0)), [(), ("x",)]))
        row, _ = await stores.datasets.create("plain", stage, made.facts(2))
        (block,) = await tasks_of(stores, row.id)
        assert (block.ids, block.tags, block.references.shape) == (["a", "b"], [(), ("x",)], (2, 0))

    async def test_a_dataset_has_a_default_run_from_the_start(self, stores: Stores):
        row = await made.dataset(stores)
        assert (await stores.runs.get(row.id, "default")).settings == RunSettings()

    async def test_what_is_staged_is_not_seen(self, stores: Stores):
        stage = await stores.datasets.stage()
        await stores.datasets.add_block(stage, made.block(0, 3))
        assert await stores.datasets.after("", 100) == []
        await stores.datasets.drop_stage(stage)
        await stores.datasets.drop_stage(stage)

    async def test_dropping_a_stage_that_became_a_dataset_leaves_the_dataset(self, stores: Stores):
        row = await made.dataset(stores)
        await stores.datasets.drop_stage(row.id)
        assert await stores.datasets.get(row.name) == row

    async def test_a_name_is_taken_once_even_by_callers_at_the_same_time(self, stores: Stores):
        stages = [await stores.datasets.stage() for _ in range(5)]
        made_rows = await asyncio.gather(
            *(stores.datasets.create("guru", stage, made.facts(stage)) for stage in stages), return_exceptions=True
        )
        assert sum(isinstance(row, DatasetExistsError) for row in made_rows) == 4

    async def test_of_callers_that_create_the_same_dataset_at_the_same_time_one_does_and_all_get_it(
        self, stores: Stores
    ):
        stages = [await stores.datasets.stage() for _ in range(5)]
        results = await asyncio.gather(*(stores.datasets.create("guru", stage, made.facts(0)) for stage in stages))
        row = await stores.datasets.get("guru")
        assert sorted(results, key=lambda result: result.created) == [(row, False)] * 4 + [(row, True)]

    async def test_datasets_come_in_pages_by_name(self, stores: Stores):
        rows = [await made.dataset(stores) for _ in range(5)]
        by_name = sorted(row.name for row in rows)
        first = await stores.datasets.after("", 2)
        rest = await stores.datasets.after(first[-1].name, 100)
        assert [row.name for row in first + rest] == by_name

    async def test_appended_blocks_follow_the_old_ones_and_raise_the_version(self, stores: Stores):
        row = await made.dataset(stores, size=4)
        stage = await stores.datasets.stage()
        for start in (4, 6):
            await stores.datasets.add_block(stage, made.block(start, 2))
        grown, added = await stores.datasets.append(row, stage, made.facts(8))
        assert added == 4
        assert grown == replace(row, version=row.version + 1, facts=made.facts(8))
        ids = [task for block in await tasks_of(stores, row.id) for task in block.ids]
        assert ids == [f"task-{task}" for task in range(8)]
        with pytest.raises(BusyError):
            await stores.datasets.append(row, await stores.datasets.stage(), made.facts(9))

    async def test_a_stage_that_is_gone_becomes_nothing(self, stores: Stores):
        row, stage = await made.dataset(stores), await stores.datasets.stage()
        await stores.datasets.drop_stage(stage)
        with pytest.raises(BusyError):
            await stores.datasets.create("guru", stage, made.facts(0))
        with pytest.raises(BusyError):
            await stores.datasets.append(row, stage, made.facts(20))
        assert await stores.datasets.get(row.name) == row

    async def test_retired_tasks_stay_retired_and_count_once(self, stores: Stores):
        row = await made.dataset(stores)
        assert len(await stores.datasets.retired(row.id)) == 0
        once = await stores.datasets.retire(row, np.array([7, 2], np.int32))
        twice = await stores.datasets.retire(once, np.array([2, 3], np.int32))
        assert (await stores.datasets.retired(row.id)).tolist() == [2, 3, 7]
        assert (twice.retired, twice.live, twice.version) == (3, 7, row.version + 2)
        with pytest.raises(BusyError):
            await stores.datasets.retire(once, np.array([1], np.int32))

    async def test_restored_tasks_are_retired_no_longer(self, stores: Stores):
        row = await made.dataset(stores)
        retired = await stores.datasets.retire(row, np.array([2, 3, 7], np.int32))
        restored = await stores.datasets.restore(retired, np.array([7, 2, 5], np.int32))
        assert (await stores.datasets.retired(row.id)).tolist() == [3]
        assert (restored.retired, restored.live, restored.version) == (1, 9, row.version + 2)
        assert await stores.datasets.get(row.name) == restored
        with pytest.raises(BusyError):
            await stores.datasets.restore(retired, np.array([3], np.int32))
        none_left = await stores.datasets.restore(restored, np.array([3], np.int32))
        assert (none_left.retired, len(await stores.datasets.retired(row.id))) == (0, 0)
        again = await stores.datasets.retire(none_left, np.array([3], np.int32))
        assert (again.retired, (await stores.datasets.retired(row.id)).tolist()) == (1, [3])

    async def test_deleting_a_dataset_deletes_all_that_hangs_on_it(self, stores: Stores):
        row = await made.dataset(stores)
        run = await made.run(stores, row)
        await stores.journal.append(run, made.draft())
        await stores.journal.keep_receipts(run, [made.receipt(1, 1)])
        await stores.datasets.delete(row)
        with pytest.raises(UnknownDatasetError):
            await stores.datasets.get(row.name)
        with pytest.raises(UnknownDatasetError):
            await tasks_of(stores, row.id)
        with pytest.raises(UnknownRunError):
            await stores.journal.append(run, made.draft())
        assert await stores.journal.receipt(run, 1) is None


class RunsContract:
    async def test_a_run_reads_back_as_it_was_put(self, stores: Stores):
        row = await made.dataset(stores)
        settings = RunSettings(belief="bots", forgetting=0.1 + 0.2, prior=(0.5, 2.0), tasks_per_step=8, seed=2**63 - 1)
        run, put = await stores.runs.put(row.id, "mine", settings)
        assert put is RunPut.CREATED
        assert run == await stores.runs.get(row.id, "mine")
        assert (run.settings, run.head, run.epoch, run.parent) == (settings, 0, 0, None)

    async def test_settings_of_an_empty_run_are_replaced(self, stores: Stores):
        run = await made.run(stores)
        replaced, put = await stores.runs.put(run.dataset_id, run.name, RunSettings(target=0.3))
        assert put is RunPut.REPLACED
        assert (replaced.id, replaced.settings.target) == (run.id, 0.3)
        assert replaced.uid != run.uid

    async def test_the_same_settings_again_change_nothing(self, stores: Stores):
        run = await made.run(stores)
        assert await stores.runs.put(run.dataset_id, run.name, run.settings) == (run, RunPut.UNCHANGED)

    async def test_settings_of_a_run_with_history_stay(self, stores: Stores):
        run = await made.run(stores)
        await stores.journal.append(run, made.draft())
        with pytest.raises(RunHasHistoryError):
            await stores.runs.put(run.dataset_id, run.name, RunSettings(target=0.3))
        assert (await stores.runs.get(run.dataset_id, run.name)).settings == run.settings

    async def test_a_fork_is_the_first_entry_of_its_run(self, stores: Stores):
        row = await made.dataset(stores)
        origin = (Parent("default", 12, 14), Fork("default", 14, bytes(range(256))), 3)
        run, _ = await stores.runs.put(row.id, "forked", RunSettings(), fork=origin)
        assert (run.head, run.parent) == (1, origin[0])
        (entry,) = await stores.journal.after(run, 0)
        assert (entry.seq, entry.epoch, entry.profiles, entry.body) == (1, 0, 3, origin[1])

    async def test_runs_come_in_pages_by_name(self, stores: Stores):
        row = await made.dataset(stores)
        by_name = sorted(["default"] + [(await made.run(stores, row)).name for _ in range(4)])
        first = await stores.runs.after(row.id, "", 3)
        rest = await stores.runs.after(row.id, first[-1].name, 100)
        assert [run.name for run in first + rest] == by_name

    async def test_a_deleted_run_is_gone_with_its_journal(self, stores: Stores):
        run = await made.run(stores)
        await stores.journal.append(run, made.draft())
        await stores.runs.delete(run)
        with pytest.raises(UnknownRunError):
            await stores.runs.get(run.dataset_id, run.name)
        again, _ = await stores.runs.put(run.dataset_id, run.name, run.settings)
        assert again.id != run.id
        assert await stores.journal.after(again, 0) == []

    async def test_a_deleted_default_run_is_there_again_empty_under_another_uid(self, stores: Stores):
        row = await made.dataset(stores)
        old = await stores.runs.get(row.id, "default")
        await stores.journal.append(old, made.draft())
        await stores.runs.delete(old)
        await stores.runs.delete(old)
        new = await stores.runs.get(row.id, "default")
        assert (new.head, new.settings) == (0, RunSettings())
        assert new.uid != old.uid


class AnswersContract:
    async def test_what_a_write_came_to_is_kept_with_it(self, stores: Stores):
        row = await made.dataset(stores)
        assert await stores.answers.find("PUT /it", "k", KeptPut) is None
        put = await stores.runs.put(row.id, "mine", RunSettings(), idempotency_key=made.once("k"), result_of=KeptPut)
        answer = await stores.answers.find("PUT /it", "k", KeptPut)
        assert answer == Answer("same", KeptPut(*put))
        assert await stores.answers.find("PUT /other", "k", KeptPut) is None

    async def test_a_run_that_stays_as_it_is_keeps_nothing(self, stores: Stores):
        run = await made.run(stores)
        _, put = await stores.runs.put(run.dataset_id, run.name, run.settings, idempotency_key=made.once("k"))
        assert put is RunPut.UNCHANGED
        assert await stores.answers.find("PUT /it", "k", KeptPut) is None

    async def test_of_results_kept_afterwards_the_first_stays(self, stores: Stores):
        once = made.once("k")
        first, second = (
            KeptPut(await made.run(stores), RunPut.UNCHANGED),
            KeptPut(await made.run(stores), RunPut.CREATED),
        )
        assert await stores.answers.keep(once, first) == first
        assert await stores.answers.keep(once, second) == first
        assert await stores.answers.find("PUT /it", "k", KeptPut) == Answer("same", first)
        assert await stores.answers.keep(made.once("k", scope="PUT /other"), second) == second
        with pytest.raises(KeyReusedError):
            await stores.answers.keep(made.once("k", fingerprint="other"), first)

    async def test_without_a_key_nothing_is_kept(self, stores: Stores):
        result = KeptPut(await made.run(stores), RunPut.CREATED)
        assert await stores.answers.keep(None, result) is result

    async def test_a_kept_result_of_another_kind_is_refused_as_damaged(self, stores: Stores):
        await stores.answers.keep(made.once("k"), await made.run(stores))
        with pytest.raises(DamagedStateError):
            await stores.answers.find("PUT /it", "k", DatasetRow)

    async def test_a_write_whose_key_is_known_changes_nothing(self, stores: Stores):
        row = await made.dataset(stores)
        await stores.runs.put(row.id, "one", RunSettings(), idempotency_key=made.once("k"))
        with pytest.raises(BusyError):
            await stores.runs.put(row.id, "two", RunSettings(), idempotency_key=made.once("k"))
        with pytest.raises(KeyReusedError):
            await stores.runs.put(row.id, "two", RunSettings(), idempotency_key=made.once("k", fingerprint="other"))
        with pytest.raises(UnknownRunError):
            await stores.runs.get(row.id, "two")

    async def test_a_refused_write_keeps_no_answer(self, stores: Stores):
        row = await made.dataset(stores)
        with pytest.raises(DatasetExistsError):
            await stores.datasets.create(row.name, await stores.datasets.stage(), made.facts(0), made.once("k"))
        assert await stores.answers.find("PUT /it", "k", CreateDatasetResult) is None

    async def test_every_kind_of_write_keeps_what_it_came_to(self, stores: Stores):
        datasets, runs = stores.datasets, stores.runs

        async def require_kept(key: str, result: object) -> None:
            assert await stores.answers.find("PUT /it", key, type(result)) == Answer("same", result)

        created = await datasets.create("guru", await datasets.stage(), made.facts(0), made.once("create"))
        await require_kept("create", created)
        again = await datasets.create("guru", await datasets.stage(), made.facts(0), made.once("create again"))
        await require_kept("create again", again)
        assert (created.created, again) == (True, CreateDatasetResult(created.row, created=False))
        appended = await datasets.append(created.row, await datasets.stage(), made.facts(0), made.once("append"))
        await require_kept("append", appended)
        retired = await datasets.retire(appended.row, np.array([0], np.int32), made.once("retire"))
        await require_kept("retire", retired)
        restored = await datasets.restore(retired, np.array([0], np.int32), made.once("restore"))
        await require_kept("restore", restored)
        await runs.delete(await runs.get(restored.id, "default"), made.once("delete run"))
        await require_kept("delete run", None)
        await datasets.delete(restored, made.once("delete"))
        await require_kept("delete", None)
