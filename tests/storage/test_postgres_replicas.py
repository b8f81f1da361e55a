"""Two replicas on one PostgreSQL: what one does while the other does the same."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from bots_service.core.run_settings import RunSettings
from bots_service.errors import BotsError, BusyError, DatasetExistsError, StorageUnavailableError
from bots_service.records import RunPut, RunRow, SnapshotRow
from bots_service.storage.postgres import PostgresDatabase
from bots_service.storage.sql.append import PendingAppend, append_all
from tests.servers import wait_until
from tests.storage import made
from tests.storage.made import Stores

PUT = text("INSERT INTO answers VALUES (:scope, 'k', '', '', 0)")


@pytest.fixture
async def replicas(postgres_url: str) -> AsyncIterator[list[Stores]]:
    databases = [PostgresDatabase(postgres_url, pool_size=4, timeout_s=30) for _ in range(2)]
    yield [made.stores_over(database) for database in databases]
    for database in databases:
        await database.close()


async def by_both(replicas: list[Stores], act: Callable[[Stores], Awaitable[Any]]) -> list[Any]:
    """Return what each replica answered when both did the same at once, twice each."""
    return await asyncio.gather(*map(act, [*replicas, *replicas]), return_exceptions=True)


async def test_appends_by_both_to_the_same_runs_leave_no_gap_and_count_each_key_once(replicas: list[Stores]):
    runs = [await made.run(replicas[0]) for _ in range(6)]
    answers: list[tuple[int, str, int, bool]] = []

    async def append(caller: int) -> None:
        for turn in range(12):
            run, key = runs[(caller * 5 + turn) % len(runs)], f"{caller // 4}-{turn}"  # four callers send each key
            appended = await replicas[caller % 2].journal.append(run, made.draft(key, seed=turn))
            answers.append((run.id, key, appended.entry.seq, appended.duplicate))

    await asyncio.gather(*map(append, range(48)))
    for run in runs:
        own = [answer for answer in answers if answer[0] == run.id]
        keys = {key for _, key, _, _ in own}
        assert sorted(seq for _, _, seq, duplicate in own if not duplicate) == list(range(1, len(keys) + 1))
        assert len({(key, seq) for _, key, seq, _ in own}) == len(keys)
        for replica in replicas:
            assert [entry.seq for entry in await replica.journal.after(run, 0)] == list(range(1, len(keys) + 1))
            assert (await replica.journal.head(run)).seq == len(keys)


async def test_receipts_and_snapshots_do_not_wait_for_an_append(replicas: list[Stores]):
    run = await made.run(replicas[0])
    await replicas[0].journal.append(run, made.draft())
    appended, others_are_done = threading.Event(), threading.Event()

    def slow_append(connection: Connection) -> bool:
        append_all(connection, [PendingAppend(run, made.draft(), "{}")], 0.0)
        appended.set()
        return others_are_done.wait(20)

    slow = replicas[0].database.write(slow_append)
    await asyncio.to_thread(appended.wait, 20)
    await replicas[1].journal.keep_receipts(run, [made.receipt(1, 1)])
    await replicas[1].snapshots.save(run, SnapshotRow(1, 0, 1, 5, "sum", 1.0, False), b"state")
    others_are_done.set()
    assert await slow


async def test_receipts_by_both_in_any_order_are_kept_once(replicas: list[Stores]):
    run = await made.run(replicas[0])
    for _ in range(40):
        await replicas[0].journal.append(run, made.draft())
    receipts = [made.receipt(seq, seq) for seq in range(1, 41)]
    for start in range(0, 40, 10):
        part = receipts[start : start + 10]
        keeps = (replica.journal.keep_receipts(run, order) for replica in replicas for order in (part, part[::-1]))
        await asyncio.gather(*keeps)
    kept = [stored.receipt for stored in await replicas[1].journal.history(run, 0, 100)]
    assert kept == receipts


@pytest.mark.parametrize("keyed", [False, True])
async def test_of_several_that_create_one_dataset_one_does(replicas: list[Stores], keyed: bool):
    for size in range(5):

        async def create(replica: Stores, size: int = size) -> str:
            stage = await replica.datasets.stage()
            await replica.datasets.add_block(stage, made.block(0, size + 1))
            once = made.once(f"key-{size}") if keyed else None
            await replica.datasets.create(f"pool-{size}", stage, made.facts(stage), once)
            return f"pool-{size}"

        outcomes = await by_both(replicas, create)
        refused = [type(outcome) for outcome in outcomes if outcome != f"pool-{size}"]
        assert len(refused) == 3
        assert set(refused) <= ({BusyError, DatasetExistsError} if keyed else {DatasetExistsError})


async def test_of_several_that_create_one_run_one_does_and_all_get_it(replicas: list[Stores]):
    row = await made.dataset(replicas[0])
    for name in ("a", "b", "c", "d"):

        async def put(replica: Stores, name: str = name) -> tuple[RunRow, RunPut]:
            return await replica.runs.put(row.id, name, RunSettings())

        outcomes = await by_both(replicas, put)
        assert len({run.uid for run, _ in outcomes}) == 1
        assert sorted(put.value for _, put in outcomes) == ["created", *["unchanged"] * 3]


async def test_of_several_that_delete_a_default_run_one_does_and_it_is_there_again(replicas: list[Stores]):
    row = await made.dataset(replicas[0])
    old = await replicas[0].runs.get(row.id, "default")
    assert await by_both(replicas, lambda replica: replica.runs.delete(old)) == [None] * 4
    assert (await replicas[1].runs.get(row.id, "default")).uid != old.uid


async def test_of_several_that_save_one_snapshot_all_get_the_first(replicas: list[Stores]):
    run = await made.run(replicas[0])
    for seq in range(1, 6):
        row = SnapshotRow(seq, 0, seq, 5, "sum", 1.0, False)

        async def save(replica: Stores, row: SnapshotRow = row) -> SnapshotRow:
            return await replica.snapshots.save(run, row, b"state")

        assert await by_both(replicas, save) == [row] * 4


async def test_changes_of_one_dataset_at_once_are_done_or_refused(replicas: list[Stores]):
    row = await made.dataset(replicas[0])

    async def append(replica: Stores) -> int:
        stage = await replica.datasets.stage()
        await replica.datasets.add_block(stage, made.block(10, 5))
        return (await replica.datasets.append(row, stage, made.facts(15))).row.version

    outcomes = await by_both(replicas, append)
    assert sorted(map(str, map(type, outcomes))) == sorted(map(str, [int, BusyError, BusyError, BusyError]))
    assert sum([len(block) async for block in replicas[0].datasets.blocks(row.id)]) == 15


async def test_deleting_a_dataset_under_appends_hurts_nobody_else(replicas: list[Stores]):
    keeps, goes = await made.dataset(replicas[0]), await made.dataset(replicas[0])
    runs = [await made.run(replicas[0], of) for of in (goes, keeps) * 4]

    async def append(caller: int) -> int:
        done = 0
        for turn in range(10):
            for run in runs:
                try:
                    await replicas[caller % 2].journal.append(run, made.draft(f"{caller}-{turn}"))
                    done += run.dataset_id == keeps.id
                except BotsError:
                    assert run.dataset_id == goes.id
        return done

    *counts, _ = await asyncio.gather(*map(append, range(8)), replicas[1].datasets.delete(goes))
    assert counts == [4 * 10] * 8


async def test_a_key_that_another_took_meanwhile_is_looked_at_again(replicas: list[Stores], postgres_url: str):
    looks: list[int] = []

    def job(connection: Connection) -> str:
        looks.append(connection.scalar(text("SELECT count(*) FROM answers")))
        if looks[-1] == 0:
            connection.execute(PUT, {"scope": "s"})
        return f"found {looks[-1]}"

    with psycopg.connect(postgres_url) as other:
        other.execute("INSERT INTO answers VALUES ('s', 'k', '', '', 0)")
        future = replicas[0].database.write(job)
        await asyncio.to_thread(wait_until, lambda: waits_for_a_lock(postgres_url))
        other.commit()
    assert await future == "found 1"
    assert looks == [0, 1]


async def test_a_key_that_stays_taken_is_our_own_mistake(replicas: list[Stores]):
    runs: list[None] = []

    def job(connection: Connection) -> None:
        runs.append(None)
        connection.execute(PUT, {"scope": "s"})
        connection.execute(PUT, {"scope": "s"})

    with pytest.raises(IntegrityError):
        await replicas[0].database.write(job)
    assert len(runs) == 2


async def test_of_two_in_a_deadlock_both_are_done_in_the_end(replicas: list[Stores]):
    both, runs = threading.Barrier(2, timeout=20), []
    for scope in ("a", "b"):
        await replicas[0].database.write(
            lambda connection, scope=scope: connection.execute(PUT, {"scope": scope}).close()
        )

    def job(first: str, second: str) -> Callable[[Connection], None]:
        def lock(connection: Connection) -> None:
            runs.append(first)
            for scope in (first, second):
                connection.execute(text("SELECT 1 FROM answers WHERE scope = :scope FOR UPDATE"), {"scope": scope})
                if len(runs) <= 2 and scope == first:
                    both.wait()

        return lock

    await asyncio.gather(*(r.database.write(job(*pair)) for r, pair in zip(replicas, ["ab", "ba"], strict=True)))
    assert len(runs) == 3


@pytest.mark.parametrize(("refused", "succeeds"), [(5, True), (6, False)])
async def test_a_job_without_a_serial_order_is_tried_a_few_times(replicas: list[Stores], refused: int, succeeds: bool):
    runs: list[None] = []

    def job(connection: Connection) -> None:
        runs.append(None)
        if len(runs) <= refused:
            connection.execute(text("DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END $$"))

    outcome = (await asyncio.gather(replicas[0].database.write(job), return_exceptions=True))[0]
    assert (outcome is None, isinstance(outcome, StorageUnavailableError)) == (succeeds, not succeeds)
    assert len(runs) == 6


def waits_for_a_lock(url: str) -> bool:
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        ).fetchone()
    return found is not None and found[0] == 1
