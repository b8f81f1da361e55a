"""What the engines of both products owe, and what each owes alone: SQLite its file, PostgreSQL its locks."""

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psycopg
import pytest
from sqlalchemy import Connection, text

from bots_service.core.entries import Entry
from bots_service.errors import DamagedStateError, DatasetExistsError, StorageUnavailableError
from bots_service.records import RunRow
from bots_service.storage.postgres import PostgresDatabase
from bots_service.storage.sql import stores as stores_module
from bots_service.storage.sql.journal import locked_head
from bots_service.storage.sql.stores import WRITE_EVERY_S, SqlHealth, SqlStores
from bots_service.storage.sqlite import SqliteDatabase
from tests.servers import wait_until
from tests.storage import made


def put(scope: str) -> Callable[[Connection], str]:
    def job(connection: Connection) -> str:
        connection.execute(text("INSERT INTO answers VALUES (:scope, 'k', '', '', 0)"), {"scope": scope})
        return scope

    return job


def scopes(connection: Connection) -> list[str]:
    return list(connection.execute(text("SELECT scope FROM answers ORDER BY scope")).scalars())


def refuse(connection: Connection) -> None:
    put("never")(connection)
    raise DatasetExistsError("on purpose")


async def test_one_bad_job_hurts_no_other_that_waits_with_it(stores: SqlStores):
    database = stores.database
    jobs = [put("a"), refuse, put("b"), put("a"), put("c")]
    outcomes = await asyncio.gather(*map(database.write, jobs), return_exceptions=True)
    assert sorted(outcome for outcome in outcomes if isinstance(outcome, str)) == ["a", "b", "c"]
    assert isinstance(outcomes[1], DatasetExistsError)
    assert await database.read(scopes) == ["a", "b", "c"]


async def test_a_job_whose_caller_stopped_waiting_is_done_all_the_same(stores: SqlStores):
    future = stores.database.write(put("a"))
    future.cancel()
    await stores.database.write(put("b"))
    async with asyncio.timeout(10):  # on PostgreSQL another thread does it
        while await stores.database.read(scopes) != ["a", "b"]:
            pass


async def test_a_read_sees_one_state_throughout_and_what_was_acknowledged_before(stores: SqlStores):
    looked, written = threading.Event(), threading.Event()

    def look_twice(connection: Connection) -> tuple[int, int]:
        first = len(scopes(connection))
        looked.set()
        written.wait(30)
        return first, len(scopes(connection))

    for number in range(20):
        await stores.database.write(put(f"{number:02}"))
        assert len(await stores.database.read(scopes)) == number + 1
    reading = stores.database.read(look_twice)
    await asyncio.to_thread(looked.wait, 30)
    await stores.database.write(put("meanwhile"))
    written.set()
    assert await reading == (20, 20)
    assert len(await stores.database.read(scopes)) == 21


async def test_readers_that_fail_read_again_and_none_can_write(stores: SqlStores):
    for number in range(6):
        with pytest.raises(StorageUnavailableError, match=r"read-?only"):
            await stores.database.read(put("never"))
        await stores.database.write(put(str(number)))
        assert len(await stores.database.read(scopes)) == number + 1


async def test_closing_does_what_waits_and_refuses_what_comes_later(stores: SqlStores):
    waiting = [stores.database.write(put(f"{number:03}")) for number in range(100)]
    await stores.database.close()
    await stores.database.close()
    assert len(await asyncio.gather(*waiting)) == 100
    for verb in (stores.database.write, stores.database.read):
        with pytest.raises(StorageUnavailableError, match="stopping"):
            verb(scopes)
    with pytest.raises(StorageUnavailableError):
        await SqlHealth(stores.database).check()


async def damage(stores: SqlStores, table: str, column: str) -> None:
    def job(connection: Connection) -> None:
        body = connection.scalar(text(f"SELECT {column} FROM {table}"))  # noqa: S608 - names from this file
        changed = body[:-1] + bytes([body[-1] ^ 1])
        connection.execute(text(f"UPDATE {table} SET {column} = :changed"), {"changed": changed})  # noqa: S608

    await stores.database.write(job)


async def test_damaged_tasks_are_noticed(stores: SqlStores):
    row = await made.dataset(stores)
    await stores.datasets.set_retired(None, row, np.array([1], np.int32))
    await damage(stores, "task_blocks", "body")
    await damage(stores, "datasets", "retired_tasks")
    with pytest.raises(DamagedStateError):
        [block async for block in stores.datasets.blocks(row.id)]
    with pytest.raises(DamagedStateError):
        await stores.datasets.retired(row.id)


async def test_a_full_disk_is_reported_and_the_writer_goes_on_when_there_is_room(sqlite_stores: SqlStores):
    def fill(connection: Connection) -> None:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")  # SQLite then says that the disk is full
        connection.execute(text("INSERT INTO answers VALUES ('x', 'k', '', zeroblob(1000000), 0)"))

    with pytest.raises(StorageUnavailableError, match="full"):
        await sqlite_stores.database.write(fill)
    await sqlite_stores.database.write(put("a"))
    assert await sqlite_stores.database.read(scopes) == ["a"]


async def test_a_locked_database_is_reported_to_all_who_wait(sqlite_stores: SqlStores, tmp_path: Path):
    database = sqlite_stores.database
    await database.write(lambda connection: connection.exec_driver_sql("PRAGMA busy_timeout = 10").close())
    script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('BEGIN IMMEDIATE'); print(); input()"
    with subprocess.Popen(  # noqa: ASYNC220 - it is up at once
        [sys.executable, "-uc", script, tmp_path / "bots.db"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        outcomes = await asyncio.gather(*map(database.write, [put("a"), put("b")]), return_exceptions=True)
        other.communicate(b"\n")
    assert [type(outcome) for outcome in outcomes] == [StorageUnavailableError] * 2
    assert outcomes[0] is not outcomes[1]
    assert await database.write(put("c")) == "c"


async def test_whether_it_can_be_read_is_known_while_a_writer_hangs(sqlite_stores: SqlStores):
    hanging = sqlite_stores.database.write(lambda _connection: time.sleep(0.5))
    await sqlite_stores.health.check()
    assert not hanging.done()


async def test_a_row_is_written_now_and_then_and_at_each_look_once_that_failed(
    sqlite_stores: SqlStores, monkeypatch: pytest.MonkeyPatch
):
    database, looks = sqlite_stores.database, iter((0.0, 0.5, WRITE_EVERY_S, *[3 * WRITE_EVERY_S] * 2))
    monkeypatch.setattr(stores_module, "monotonic", lambda: next(looks))
    health = SqlHealth(database)

    async def changes() -> int:
        return int(await database.write(lambda connection: connection.scalar(text("SELECT total_changes()"))))

    seen = [await changes()]
    for _ in range(3):
        await health.check_writes()
        seen.append(await changes())
    assert seen[0] < seen[1] == seen[2] < seen[3]
    await database.write(lambda connection: connection.exec_driver_sql("PRAGMA query_only = ON").close())
    with pytest.raises(StorageUnavailableError):
        await health.check_writes()
    await health.check_writes()  # by another connection
    assert await changes() > 0


async def test_a_second_process_is_refused_and_told_who_has_the_file(sqlite_stores: SqlStores, url: str):
    script = "import sys; from bots_service.storage.sqlite import SqliteDatabase; SqliteDatabase(sys.argv[1])"
    second = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", script, url], capture_output=True, text=True, check=False
    )
    assert second.returncode != 0
    assert "is in use by process" in second.stderr
    with pytest.raises(StorageUnavailableError):
        SqliteDatabase(url)
    await SqlHealth(sqlite_stores.database).check()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:////proc/none/bots.db"])
def test_a_database_that_can_not_last_is_refused(url: str):
    with pytest.raises(StorageUnavailableError):
        SqliteDatabase(url)


async def test_the_server_limits_what_a_connection_may_wait_for(postgres_url: str):
    database = PostgresDatabase(f"{postgres_url}?options=-c%20lock_timeout%3D7000", pool_size=1, timeout_s=8.5)
    names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "application_name")

    def look(connection: Connection) -> list[str]:
        return [str(connection.scalar(text(f"SHOW {name}"))) for name in names]

    assert await database.read(look) == ["8500ms", "7s", "8500ms", "bots"]
    await database.close()


async def test_a_key_that_another_took_meanwhile_is_looked_at_again(postgres_stores: SqlStores, postgres_url: str):
    looks: list[int] = []

    def job(connection: Connection) -> None:
        looks.append(len(scopes(connection)))
        if looks[-1] == 0:
            put("s")(connection)

    with psycopg.connect(postgres_url) as other:
        other.execute("INSERT INTO answers VALUES ('s', 'k', '', '', 0)")
        future = postgres_stores.database.write(job)
        await asyncio.to_thread(wait_until, lambda: waits_for_a_lock(postgres_url))
        other.commit()
    await future
    assert looks == [0, 1]


async def test_of_two_in_a_deadlock_both_are_done_in_the_end(postgres_stores: SqlStores):
    both, runs = threading.Barrier(2, timeout=20), []
    for scope in "ab":
        await postgres_stores.database.write(put(scope))

    def job(first: str, second: str) -> Callable[[Connection], None]:
        def lock(connection: Connection) -> None:
            runs.append(first)
            for scope in (first, second):
                connection.execute(text("SELECT 1 FROM answers WHERE scope = :scope FOR UPDATE"), {"scope": scope})
                if len(runs) <= 2 and scope == first:
                    both.wait()

        return lock

    await asyncio.gather(*(postgres_stores.database.write(job(*pair)) for pair in ("ab", "ba")))
    assert len(runs) >= 3  # the one that began again may meet the other once more


async def test_a_snapshot_does_not_wait_for_an_append(postgres_stores: SqlStores):
    run = await made.run(postgres_stores)
    locked, ended = threading.Event(), threading.Event()

    def slow_append(connection: Connection) -> bool:
        locked_head(connection, run)
        locked.set()
        return ended.wait(20)

    slow = postgres_stores.database.write(slow_append)
    await asyncio.to_thread(locked.wait, 20)
    await postgres_stores.snapshots.save(run, 1, b"state")
    ended.set()
    assert await slow


async def test_a_run_that_another_holds_stalls_no_report_of_others(postgres_stores: SqlStores, postgres_url: str):
    held, free = [await made.run(postgres_stores) for _ in range(2)]
    for run in (held, free):
        await made.append(postgres_stores, run)

    async def append(run: RunRow) -> int:
        entry = made.folded_entry(Entry(2, 0, 3, made.report(2)), key=made.once("key"))
        before = await postgres_stores.journal.created_at(run, 1)
        return await postgres_stores.journal.append_next(run, [entry], (None, before or 0.0), 1.0)

    with psycopg.connect(postgres_url) as other:
        other.execute("SELECT id FROM runs WHERE id = %s FOR NO KEY UPDATE", [held.id])
        assert list(await asyncio.gather(append(held), append(free))) == [0, 1]
    assert await append(held) == 1


async def test_a_head_that_was_waited_for_is_whole(postgres_stores: SqlStores, postgres_url: str):
    run = await made.run(postgres_stores)
    await made.append(postgres_stores, run)
    locked, ended = threading.Event(), threading.Event()

    def slow_append(connection: Connection) -> None:
        head, _ = locked_head(connection, run)
        locked.set()
        ended.wait(20)
        made.append_to(connection, run, head)

    slow = postgres_stores.database.write(slow_append)
    await asyncio.to_thread(locked.wait, 20)
    waiting = postgres_stores.database.write(lambda connection: locked_head(connection, run))
    await asyncio.to_thread(wait_until, lambda: waits_for_a_lock(postgres_url))
    ended.set()
    await slow
    assert await waiting == (await postgres_stores.journal.head(run), set())


def waits_for_a_lock(url: str) -> bool:
    with psycopg.connect(url) as connection:
        waits = "wait_event_type = 'Lock' AND datname = current_database()"
        return connection.execute(f"SELECT 1 FROM pg_stat_activity WHERE {waits}").fetchone() is not None  # noqa: S608
