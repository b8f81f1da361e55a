"""PostgreSQL killed, hung, or away: callers learn of it in time, and nothing needs a restart but the server."""

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest
from sqlalchemy import Connection, QueuePool, text

from bots_service.core.entries import SettingsChange
from bots_service.errors import StorageUnavailableError
from bots_service.records import IdempotencyKey
from bots_service.settings import Settings
from bots_service.storage.postgres import MOST_TRIES, PostgresDatabase
from bots_service.storage.sql.migrate import current, upgrade
from tests.servers import PostgresServer, running, wait_until
from tests.usecases.world import World

POOL = 3
TIMEOUT_S = 2.0
SLACK_S = 20.0  # a busy machine is slow; a hang is for ever


@pytest.fixture(scope="module")
def shared() -> Iterator[PostgresServer]:
    """A server that this module's tests may kill: what the operating system was given outlives that without fsync."""
    with running(PostgresServer(fsync="off")) as own:
        yield own


@pytest.fixture(scope="module")
def template(shared: PostgresServer) -> str:
    url = shared.new_database()
    upgrade(url)
    return url


@pytest.fixture
def server(shared: PostgresServer) -> Iterator[PostgresServer]:
    yield shared
    if not shared.is_running:
        shared.start()


@pytest.fixture
def url(server: PostgresServer, template: str) -> str:
    return server.new_database(like=template)


@pytest.fixture
async def database(url: str) -> AsyncIterator[PostgresDatabase]:
    """For tests of deadlines."""
    database = PostgresDatabase(url, pool_size=POOL, timeout_s=TIMEOUT_S)
    yield database
    await database.close()


@pytest.fixture
async def patient(url: str) -> AsyncIterator[PostgresDatabase]:
    """For tests in which no deadline may pass, however busy the machine is."""
    database = PostgresDatabase(url, pool_size=POOL, timeout_s=3 * SLACK_S)
    yield database
    await database.close()


def one(connection: Connection) -> int:
    return int(connection.scalar(text("SELECT 1")))


def together(size: int) -> Callable[[Connection], int]:
    """Return a job that ends only when so many are being done at once."""
    barrier = threading.Barrier(size, timeout=SLACK_S)

    def job(connection: Connection) -> int:
        found = one(connection)
        barrier.wait()
        return found

    return job


async def all_slots_work(database: PostgresDatabase) -> None:
    """Do jobs that can end only together: with a slot lost they never would."""
    job = together(POOL)
    assert await asyncio.gather(*(database.write(job) for _ in range(POOL))) == [1] * POOL
    await no_slot_is_taken(database)


async def no_slot_is_taken(database: PostgresDatabase) -> None:
    await asyncio.to_thread(wait_until, lambda: cast("QueuePool", database._engine.pool).checkedout() == 0)


async def all_slots_come_back(database: PostgresDatabase) -> None:
    """Try until they do: on a busy machine a job may miss a short deadline."""
    async with asyncio.timeout(3 * SLACK_S):
        while True:
            with suppress(StorageUnavailableError, threading.BrokenBarrierError):
                return await all_slots_work(database)


async def fate(future: asyncio.Future[Any]) -> str:
    """Return what became of a job that must not be done."""
    try:
        async with asyncio.timeout(TIMEOUT_S + SLACK_S):
            await future
    except StorageUnavailableError as error:
        return str(error)
    return "done"


async def test_connections_that_idled_while_the_server_was_killed_are_no_trouble(
    server: PostgresServer, patient: PostgresDatabase
):
    await all_slots_work(patient)
    for _ in range(2):
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        await all_slots_work(patient)
        assert await patient.read(one) == 1


@pytest.mark.parametrize("opened_before", [True, False])
async def test_a_hung_server_fails_every_job_in_time_and_costs_no_slot(
    server: PostgresServer, database: PostgresDatabase, opened_before: bool
):
    if opened_before:
        await all_slots_come_back(database)
    server.hang()
    try:
        began = time.monotonic()
        futures = [verb(one) for _ in range(2 * POOL) for verb in (database.read, database.write)]
        fates = [await fate(future) for future in futures]
        assert all(fate.startswith("the database did not answer") for fate in fates), fates
        later = database.read(one)  # comes when every thread is, or was, stuck
        assert await fate(later) != "done"
        assert time.monotonic() - began < 2 * TIMEOUT_S + SLACK_S
        await no_slot_is_taken(database)  # no thread waits for the server
    finally:
        server.resume()
    await all_slots_come_back(database)


async def test_a_server_that_hangs_within_a_transaction_fails_it_in_time(
    server: PostgresServer, database: PostgresDatabase
):
    inside, hung = threading.Event(), threading.Event()

    def job(connection: Connection) -> int:
        one(connection)
        inside.set()
        hung.wait(SLACK_S)
        return one(connection)

    future = database.write(job)
    await asyncio.to_thread(inside.wait, SLACK_S)
    server.hang()
    hung.set()
    try:
        assert await fate(future) == "the database did not answer in 2 s"
    finally:
        server.resume()
    await all_slots_come_back(database)


async def test_what_nobody_waits_for_any_more_ends_on_the_server_too(
    server: PostgresServer, database: PostgresDatabase
):
    slow = database.write(lambda connection: connection.execute(text("SELECT pg_sleep(600)")).close())
    assert await fate(slow) != "done"
    asked = "SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%(600)' AND pid <> pg_backend_pid()"
    with psycopg.connect(server.url(), autocommit=True) as watching:
        await asyncio.to_thread(wait_until, lambda: watching.execute(asked).fetchone() is None)
    await all_slots_come_back(database)


async def test_time_in_line_counts(database: PostgresDatabase):
    sleep = lambda connection: connection.execute(text("SELECT pg_sleep(1.5)")).close()  # noqa: E731
    futures = [database.write(sleep) for _ in range(2 * POOL)]
    fates = [await fate(future) for future in futures]
    assert fates == ["done"] * POOL + ["the database did not answer in 2 s"] * POOL
    await all_slots_come_back(database)


async def test_a_black_hole_fails_jobs_in_time_and_lets_the_service_end():
    with socket.create_server(("127.0.0.1", 0)) as listener:  # takes connections, and never says a word
        port = listener.getsockname()[1]
        database = PostgresDatabase(f"postgres://bots@127.0.0.1:{port}/x", pool_size=POOL, timeout_s=TIMEOUT_S)
        fates = [await fate(future) for future in [database.read(one) for _ in range(3 * POOL)]]
        assert all(fate.startswith("the database did not answer") for fate in fates), fates
        async with asyncio.timeout(SLACK_S):
            await database.close()


async def test_a_server_that_is_away_is_reported_at_once(server: PostgresServer, database: PostgresDatabase):
    server.kill()
    assert "refused" in await fate(database.read(one))
    with pytest.raises(StorageUnavailableError):
        await asyncio.to_thread(current, server.url())


async def test_a_connection_that_breaks_before_commit_is_tried_a_few_times(patient: PostgresDatabase):
    runs: list[None] = []

    def job(connection: Connection) -> None:
        runs.append(None)
        connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))

    assert "the database did not answer" in await fate(patient.write(job))
    assert len(runs) == MOST_TRIES
    await all_slots_work(patient)


async def test_changes_of_a_run_whose_connection_breaks_before_commit_are_tried_once_more(
    patient: PostgresDatabase, url: str, tmp_path: Path
):
    world, tries = World.over(tmp_path, Settings(database_url=url), patient), list[int]()
    await world.import_pool()
    run = await world.opened()

    def make(*_: object) -> SettingsChange:
        if not tries:
            with psycopg.connect(url, autocommit=True) as other:
                others = "datname = current_database() AND pid <> pg_backend_pid()"
                other.execute(f"SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE {others}")  # noqa: S608
        tries.append(1)
        return SettingsChange({"seed": len(tries)})

    keys = (IdempotencyKey(key, "same") for key in "ab")
    done = await asyncio.gather(*(world.runs._append(run, make, key) for key in keys))
    assert sorted(one.receipt.seq for one in done) == [1, 2]
    assert len(tries) == 4
    await all_slots_work(patient)


async def test_a_connection_that_breaks_while_it_commits_is_not_tried_again(patient: PostgresDatabase):
    def prepare(connection: Connection) -> None:
        connection.execute(
            text(
                "CREATE FUNCTION break() RETURNS trigger LANGUAGE plpgsql AS "
                "'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END'"
            )
        )
        connection.execute(
            text(
                "CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON answers DEFERRABLE INITIALLY DEFERRED "
                "FOR EACH ROW EXECUTE FUNCTION break()"
            )
        )

    await patient.write(prepare)
    runs: list[None] = []

    def job(connection: Connection) -> None:
        runs.append(None)
        connection.execute(text("INSERT INTO answers VALUES ('s', 'k', '', '', 0)"))

    assert "during the commit" in await fate(patient.write(job))
    assert len(runs) == 1
    await all_slots_work(patient)
