"""Runs as stores keep them, and the answers that are kept with writes."""

import asyncio
from typing import NamedTuple

import pytest

from bots_service.core.run_settings import RunSettings
from bots_service.errors import (
    BusyError,
    DamagedStateError,
    DatasetExistsError,
    KeyReusedError,
    UnknownRunError,
)
from bots_service.records import Answer, CreateDatasetResult, DatasetRow, RunPut, RunRow
from bots_service.storage.sql.stores import SqlStores
from tests.storage import made


class KeptPut(NamedTuple):
    """What is kept of a PUT here."""

    row: RunRow
    put: RunPut


async def test_a_run_reads_back_as_it_was_put(stores: SqlStores):
    row = await made.dataset(stores)
    settings = RunSettings(belief="bots", forgetting=0.1 + 0.2, prior=(0.5, 2.0), tasks_per_step=8, seed=2**63 - 1)
    run, put = await stores.runs.put(row.id, "mine", settings)
    assert put is RunPut.CREATED
    assert run == await stores.runs.get(row.id, "mine")
    assert (run.settings, run.head, run.epoch, run.parent) == (settings, 0, 0, None)


async def test_of_several_that_create_one_run_one_does_and_all_get_it(stores: SqlStores):
    row = await made.dataset(stores)
    outcomes = await asyncio.gather(*(stores.runs.put(row.id, "mine", RunSettings()) for _ in range(4)))
    assert len({run.uid for run, _ in outcomes}) == 1
    assert sorted(put.value for _, put in outcomes) == ["created", *["unchanged"] * 3]


async def test_a_fork_is_the_first_entry_of_its_run(stores: SqlStores):
    row = await made.dataset(stores)
    parent, first = made.fork()
    run, _ = await stores.runs.put(row.id, "forked", RunSettings(), fork=(parent, first))
    assert (run.head, run.parent) == (1, parent)
    assert await stores.journal.between(run, 0, 9) == [first.entry]
    assert await stores.journal.receipt(run, 1) == first.receipt


async def test_a_deleted_default_run_is_there_again_empty_under_another_uid(stores: SqlStores):
    row = await made.dataset(stores)
    old = await stores.runs.get(row.id, "default")
    await made.append(stores, old)
    await stores.runs.delete(None, old)
    await stores.runs.delete(None, old)
    new = await stores.runs.get(row.id, "default")
    assert (new.head, new.settings) == (0, RunSettings())
    assert new.uid != old.uid


async def test_what_a_write_came_to_is_kept_with_it(stores: SqlStores):
    row = await made.dataset(stores)
    assert await stores.answers.find("PUT /it", "k", KeptPut) is None
    put = await stores.runs.put(row.id, "mine", RunSettings(), idempotency_key=made.once("k"), result_of=KeptPut)
    answer = await stores.answers.find("PUT /it", "k", KeptPut)
    assert answer == Answer("same", KeptPut(*put))
    assert await stores.answers.find("PUT /other", "k", KeptPut) is None
    unchanged = await stores.runs.put(row.id, "mine", RunSettings(), idempotency_key=made.once("again"))
    assert unchanged == (put[0], RunPut.UNCHANGED)
    assert await stores.answers.find("PUT /it", "again", KeptPut) is None


async def test_of_results_kept_afterwards_the_first_stays(stores: SqlStores):
    results = [KeptPut(await made.run(stores), put) for put in (RunPut.UNCHANGED, RunPut.CREATED)]
    for result in results:
        assert await stores.answers.keep(made.once("k"), result) == results[0]
    assert await stores.answers.keep(made.once("k", scope="PUT /other"), results[1]) == results[1]
    with pytest.raises(KeyReusedError):
        await stores.answers.keep(made.once("k", fingerprint="other"), results[0])
    with pytest.raises(DamagedStateError):
        await stores.answers.find("PUT /it", "k", DatasetRow)


async def test_a_write_whose_key_is_known_changes_nothing(stores: SqlStores):
    row = await made.dataset(stores)
    await stores.runs.put(row.id, "one", RunSettings(), idempotency_key=made.once("k"))
    with pytest.raises(BusyError):
        await stores.runs.put(row.id, "two", RunSettings(), idempotency_key=made.once("k"))
    with pytest.raises(KeyReusedError):
        await stores.runs.put(row.id, "two", RunSettings(), idempotency_key=made.once("k", fingerprint="other"))
    with pytest.raises(UnknownRunError):
        await stores.runs.get(row.id, "two")


async def test_a_refused_write_keeps_no_answer(stores: SqlStores):
    row = await made.dataset(stores)
    with pytest.raises(DatasetExistsError):
        await stores.datasets.create(made.once("k"), row.name, await stores.datasets.stage(), made.facts(0))
    assert await stores.answers.find("PUT /it", "k", CreateDatasetResult) is None
