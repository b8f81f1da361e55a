"""The SQLite engine: group commit, its errors, its lock, its end; and damage on the disk."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Connection, text

from bots_service.core.codec import decode_state, encode_state
from bots_service.core.run_settings import RunSettings
from bots_service.core.state import fresh_state
from bots_service.errors import DamagedStateError, DatasetExistsError, StorageUnavailableError
from bots_service.records import SnapshotRow
from bots_service.retention import STAGES_S
from bots_service.storage.sql.datasets import SqlDatasets
from bots_service.storage.sql.health import WRITE_EVERY_S, SqlHealth, SqlWriteHealth
from bots_service.storage.sqlite import SqliteDatabase
from tests.storage import made
from tests.storage.contracts.hot import POOL, Clock
from tests.storage.made import Stores


def put(scope: str) -> Callable[[Connection], str]:
    def job(connection: Connection) -> str:
        row = {"scope": scope, "key": "k", "fingerprint": "", "result": "", "created_at": 0.0}
        connection.execute(text("INSERT INTO answers VALUES (:scope, :key, :fingerprint, :result, :created_at)"), row)
        return scope

    return job


def scopes(connection: Connection) -> list[str]:
    return list(connection.execute(text("SELECT scope FROM answers ORDER BY scope")).scalars())


def refuse(connection: Connection) -> None:
    put("never")(connection)
    raise DatasetExistsError("on purpose")


async def test_one_bad_job_hurts_no_other_of_its_batch(stores: Stores):
    database = stores.database
    jobs = [put("a"), refuse, put("b"), put("a"), put("c")]
    outcomes = await asyncio.gather(*map(database.write, jobs), return_exceptions=True)
    assert [outcome for outcome in outcomes if isinstance(outcome, str)] == ["a", "b", "c"]
    assert isinstance(outcomes[1], DatasetExistsError)
    assert await database.read(scopes) == ["a", "b", "c"]


async def test_a_job_whose_caller_stopped_waiting_is_done_all_the_same(stores: Stores):
    future = stores.database.write(put("a"))
    future.cancel()
    await stores.database.write(put("b"))
    assert await stores.database.read(scopes) == ["a", "b"]


async def test_a_full_disk_is_reported_and_the_writer_goes_on_when_there_is_room(stores: Stores):
    database = stores.database

    def fill(connection: Connection) -> None:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")  # SQLite then says that the disk is full
        connection.execute(text("INSERT INTO answers VALUES ('x', 'k', '', zeroblob(1000000), 0)"))

    with pytest.raises(StorageUnavailableError, match="full") as caught:
        await database.write(fill)
    assert caught.value.__cause__ is not None
    await database.write(put("a"))
    assert await database.read(scopes) == ["a"]


async def test_a_locked_database_is_reported_to_all_who_wait(stores: Stores, tmp_path: Path):
    database = stores.database
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


async def test_appends_that_could_not_be_committed_are_told_so_and_may_come_again(stores: Stores):
    run = await made.run(stores)
    await stores.database.write(lambda connection: connection.exec_driver_sql("PRAGMA query_only = ON").close())
    appends = (stores.journal.append(run, made.draft(key)) for key in ("a", "b"))
    outcomes = await asyncio.gather(*appends, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StorageUnavailableError] * 2
    assert outcomes[0] is not outcomes[1]
    again = await stores.journal.append(run, made.draft("b"))
    assert (again.entry.seq, again.duplicate) == (1, False)


async def test_health_does_not_wait_for_a_writer_that_hangs(stores: Stores):
    stores.database.write(lambda _connection: time.sleep(0.5))
    with pytest.raises(StorageUnavailableError):
        await SqlWriteHealth(stores.database, timeout_s=0.05).check()
    assert await SqlHealth(stores.database).check() == {"sql": "ok"}


async def test_a_row_is_written_now_and_then_and_at_each_look_once_that_failed(stores: Stores):
    looks = iter((0.0, 0.5, WRITE_EVERY_S, 3 * WRITE_EVERY_S, 3 * WRITE_EVERY_S + 0.5))
    health = SqlWriteHealth(stores.database, clock=lambda: next(looks))
    written = text("SELECT written_at FROM write_probe")

    async def last() -> float:
        return float(await stores.database.read(lambda connection: connection.scalar(written)))

    seen = []
    for _ in range(3):
        assert await health.check() == {"sql_writes": "ok"}
        seen.append(await last())
    assert seen[0] == seen[1] < seen[2]
    await stores.database.write(lambda connection: connection.exec_driver_sql("PRAGMA query_only = ON").close())
    with pytest.raises(StorageUnavailableError):
        await health.check()
    assert await health.check() == {"sql_writes": "ok"}  # by another connection
    assert await last() > seen[2]


async def test_a_reader_that_failed_reads_again(stores: Stores):
    for _ in range(10):
        with pytest.raises(StorageUnavailableError):
            await stores.database.read(lambda connection: connection.execute(text("SELECT * FROM nothing")))
        assert await stores.database.read(scopes) == []


async def test_readers_can_not_write(stores: Stores):
    with pytest.raises(StorageUnavailableError, match="readonly"):
        await stores.database.read(put("a"))


async def test_a_read_sees_what_was_acknowledged_before(stores: Stores):
    for number in range(50):
        await stores.database.write(put(f"{number:02}"))
        assert len(await stores.database.read(scopes)) == number + 1


async def test_closing_does_what_waits_and_refuses_what_comes_later(url: str):
    database = SqliteDatabase(url)
    waiting = [database.write(put(f"{number:03}")) for number in range(300)]
    await database.close()
    await database.close()
    assert len(await asyncio.gather(*waiting)) == 300
    for verb in (database.write, database.read):
        with pytest.raises(StorageUnavailableError, match="stopping"):
            verb(scopes)
    again = SqliteDatabase(url)
    assert len(await again.read(scopes)) == 300
    await again.close()


async def test_a_second_process_is_refused_and_told_who_has_the_file(stores: Stores, url: str):
    script = "import sys; from bots_service.storage.sqlite import SqliteDatabase; SqliteDatabase(sys.argv[1])"
    second = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", script, url], capture_output=True, text=True, check=False
    )
    assert second.returncode != 0
    assert "is in use by process" in second.stderr
    with pytest.raises(StorageUnavailableError):
        SqliteDatabase(url)
    await stores.health.check()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:////proc/none/bots.db"])
def test_a_database_that_can_not_last_is_refused(url: str):
    with pytest.raises(StorageUnavailableError):
        SqliteDatabase(url)


async def test_health_says_ok_and_then_what_is_wrong(stores: Stores):
    assert await stores.health.check() == {"sql": "ok"}
    await stores.database.close()
    with pytest.raises(StorageUnavailableError):
        await stores.health.check()


async def damage(stores: Stores, table: str, column: str) -> None:
    """Change the last byte of a column, as a failing disk might."""

    def job(connection: Connection) -> None:
        body = connection.scalar(text(f"SELECT {column} FROM {table}"))  # noqa: S608 - names from this file
        changed = body[:-1] + bytes([body[-1] ^ 1])
        connection.execute(text(f"UPDATE {table} SET {column} = :changed"), {"changed": changed})  # noqa: S608

    await stores.database.write(job)


async def test_a_damaged_block_is_reported(stores: Stores):
    row = await made.dataset(stores)
    await damage(stores, "task_blocks", "body")
    with pytest.raises(DamagedStateError):
        [block async for block in stores.datasets.blocks(row.id)]


async def test_damaged_retirements_are_reported(stores: Stores):
    row = await made.dataset(stores)
    await stores.datasets.retire(row, np.array([1], np.int32))
    await damage(stores, "retired_tasks", "tasks")
    with pytest.raises(DamagedStateError):
        await stores.datasets.retired(row.id)


async def test_decoding_a_damaged_snapshot_reports_the_damage(stores: Stores):
    run, blob = await made.run(stores), encode_state(fresh_state(RunSettings(), POOL))
    await stores.snapshots.save(run, SnapshotRow(1, 0, 1, len(blob), "", 0.0, False), blob)
    await damage(stores, "snapshots", "blob")
    found = await stores.snapshots.newest(run, 1)
    assert found is not None
    with pytest.raises(DamagedStateError):
        decode_state(found[1])


async def test_a_damaged_entry_is_reported(stores: Stores):
    run = await made.run(stores)
    await stores.journal.append(run, made.draft("key"))
    await stores.database.write(lambda connection: connection.execute(text("UPDATE journal SET body = '{'")).close())
    with pytest.raises(DamagedStateError):
        await stores.journal.after(run, 0)
    appends = (stores.journal.append(run, made.draft(key)) for key in ("key", "other"))
    outcomes = await asyncio.gather(*appends, return_exceptions=True)
    assert [isinstance(outcome, DamagedStateError) for outcome in outcomes] == [True, False]


async def test_stages_of_uploads_that_died_are_dropped_a_day_later(url: str):
    clock = Clock()
    database = SqliteDatabase(url)
    datasets = SqlDatasets(database, clock=clock)
    old = await datasets.stage()
    await datasets.add_block(old, made.block(0, 3))
    clock.now = STAGES_S + 1
    new = await datasets.stage()
    stages = await database.read(lambda connection: connection.execute(text("SELECT id FROM datasets")).scalars().all())
    assert stages == [new]
    await database.close()
