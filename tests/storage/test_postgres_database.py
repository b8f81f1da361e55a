"""The PostgreSQL engine: lanes, reads, its end, and what its connections are like."""

import asyncio
import threading
from collections.abc import Callable

import pytest
from sqlalchemy import Connection, text

from bots_service.errors import DatasetExistsError, StorageUnavailableError
from bots_service.storage.postgres import PoolUse, PostgresDatabase
from tests.servers import wait_until
from tests.storage.made import Stores

COUNT = text("SELECT count(*) FROM answers")


def put(scope: str) -> Callable[[Connection], str]:
    def job(connection: Connection) -> str:
        connection.execute(text("INSERT INTO answers VALUES (:scope, 'k', '', '', 0)"), {"scope": scope})
        return scope

    return job


def count(connection: Connection) -> int:
    return int(connection.scalar(COUNT))


async def test_jobs_of_a_lane_are_done_one_after_another_in_their_order(postgres_stores: Stores):
    database, order, settled = postgres_stores.database, [], []
    inside = threading.Semaphore(1)

    def job(number: int) -> Callable[[Connection], int]:
        def counted(connection: Connection) -> int:
            assert inside.acquire(blocking=False)
            put(f"{number:02}")(connection)
            order.append(connection.scalar(COUNT))  # what came before is committed
            inside.release()
            return number

        return counted

    futures = [database.write(job(number), lane="one") for number in range(40)]
    for future in futures:
        future.add_done_callback(lambda done: settled.append(done.result()))
    await asyncio.gather(*futures)
    assert order == list(range(1, 41))
    assert settled == list(range(40))


async def test_jobs_of_other_lanes_do_not_wait(postgres_stores: Stores):
    database, met = postgres_stores.database, threading.Barrier(4, timeout=30)
    lanes = ["one", "two", None, None]
    await asyncio.gather(*(database.write(lambda _connection: met.wait(), lane=lane) for lane in lanes))


async def test_a_lane_goes_on_after_a_job_that_failed(postgres_stores: Stores):
    def refuse(connection: Connection) -> None:
        put("never")(connection)
        raise DatasetExistsError("on purpose")

    jobs = [put("a"), refuse, put("b")]
    futures = [postgres_stores.database.write(job, lane="one") for job in jobs]
    outcomes = await asyncio.gather(*futures, return_exceptions=True)
    assert [outcomes[0], type(outcomes[1]), outcomes[2]] == ["a", DatasetExistsError, "b"]
    assert await postgres_stores.database.read(count) == 2


async def test_a_job_whose_caller_stopped_waiting_is_done_all_the_same(postgres_stores: Stores):
    future = postgres_stores.database.write(put("a"), lane="one")
    future.cancel()
    await postgres_stores.database.write(put("b"), lane="one")
    assert await postgres_stores.database.read(count) == 2


async def test_a_read_sees_one_state_throughout_and_what_was_acknowledged_before(postgres_stores: Stores):
    database, looked, written = postgres_stores.database, threading.Event(), threading.Event()

    def look_twice(connection: Connection) -> tuple[int, int]:
        first = count(connection)
        looked.set()
        written.wait(30)
        return first, count(connection)

    await database.write(put("before"))
    reading = database.read(look_twice)
    await asyncio.to_thread(looked.wait, 30)
    await database.write(put("meanwhile"))
    written.set()
    assert await reading == (1, 1)
    assert await database.read(count) == 2


async def test_readers_can_not_write_and_writers_still_can(postgres_stores: Stores):
    for number in range(6):
        with pytest.raises(StorageUnavailableError, match="read-only"):
            await postgres_stores.database.read(put("never"))
        await postgres_stores.database.write(put(str(number)))
    assert await postgres_stores.database.read(count) == 6


async def test_closing_does_what_waits_and_refuses_what_comes_later(postgres_url: str):
    database = PostgresDatabase(postgres_url, pool_size=2, timeout_s=60)
    waiting = [database.write(put(f"{number:03}"), lane=number % 3 or None) for number in range(60)]
    await database.close()
    await database.close()
    assert len(await asyncio.gather(*waiting)) == 60
    for verb in (database.write, database.read):
        with pytest.raises(StorageUnavailableError, match="stopping"):
            verb(count)
    assert database.use == PoolUse(size=2, in_use=0, waiting=0)


async def test_the_server_limits_what_a_connection_may_wait_for(postgres_url: str):
    database = PostgresDatabase(f"{postgres_url}?options=-c%20lock_timeout%3D7000", pool_size=1, timeout_s=8.5)
    names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout", "application_name")

    def look(connection: Connection) -> dict[str, str]:
        return {name: str(connection.scalar(text(f"SHOW {name}"))) for name in names}

    found = await database.read(look)
    await database.close()
    assert found == dict(zip(names, ["8500ms", "7s", "8500ms", "bots"], strict=True))


async def test_how_busy_it_is_can_be_seen(postgres_stores: Stores):
    database, ended = postgres_stores.database, threading.Event()
    busy = [database.write(lambda _connection: ended.wait(30)) for _ in range(6)]
    await asyncio.to_thread(wait_until, lambda: database.use == PoolUse(size=4, in_use=4, waiting=2))
    ended.set()
    await asyncio.gather(*busy)
    await asyncio.to_thread(wait_until, lambda: database.use == PoolUse(size=4, in_use=0, waiting=0))
