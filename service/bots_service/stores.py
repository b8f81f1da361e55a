"""Opens the stores that the settings name, and closes them."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import structlog

from bots_service.ports.records import Capacity
from bots_service.ports.stores import DurableStores, HotStores
from bots_service.settings import Settings
from bots_service.storage.memory import ORDINALS, MemoryLeases, MemoryStates
from bots_service.storage.sql.answers import SqlAnswers
from bots_service.storage.sql.backup import SqlExports, SqlImports
from bots_service.storage.sql.courses import SqlCourses
from bots_service.storage.sql.database import Database
from bots_service.storage.sql.datasets import SqlDatasets
from bots_service.storage.sql.health import SqlHealth, SqlWriteHealth
from bots_service.storage.sql.journal import SqlJournal
from bots_service.storage.sql.keys import SqlKeys
from bots_service.storage.sql.migrate import require_tables, upgrade
from bots_service.storage.sql.outlooks import SqlOutlooks
from bots_service.storage.sql.retention import SqlRetention
from bots_service.storage.sql.runs import SqlRuns
from bots_service.storage.sql.snapshots import SqlSnapshots
from bots_service.storage.sql.url import is_postgresql
from bots_service.storage.sqlite import SqliteDatabase

if TYPE_CHECKING:
    from bots_service.storage.redis.connection import RedisConnection

log = structlog.get_logger(__name__)


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[Database]:
    """Open the database, with its tables at the newest revision.

    Raises:
        OutdatedTablesError: the tables are too old, and the settings leave migrating them to `bots migrate`.
        StorageUnavailableError: the database can't be opened, or another process has the file.
    """
    database = sqlite_or_postgres(settings)
    try:
        await asyncio.to_thread(upgrade if settings.migrate_on_start else require_tables, settings.sql_url)
        yield database
    finally:
        await database.close()


def sqlite_or_postgres(settings: Settings) -> Database:
    """Return the database, with nothing asked of it yet.

    Raises:
        StorageUnavailableError: another process has the file.
    """
    if is_sqlite(settings):
        return SqliteDatabase(settings.sql_url)
    from bots_service.storage.postgres import PostgresDatabase  # not above: who has SQLite loads no driver

    return PostgresDatabase(settings.sql_url, pool_size=settings.database_pool, timeout_s=settings.database_timeout_s)


def sql_stores(settings: Settings, database: Database) -> DurableStores:
    """Return the stores over one database."""
    capacity = Capacity(settings.max_tasks, settings.max_datasets, settings.max_datasets_per_key, settings.max_runs)
    return DurableStores(
        answers=SqlAnswers(database),
        datasets=SqlDatasets(database, capacity),
        runs=SqlRuns(database, capacity),
        journal=SqlJournal(database),
        snapshots=SqlSnapshots(database),
        courses=SqlCourses(database),
        outlooks=SqlOutlooks(database),
        keys=SqlKeys(database),
        retention=SqlRetention(database),
        exports=SqlExports(database),
        imports=SqlImports(database, capacity),
        health={"sql": SqlHealth(database), "sql_writes": SqlWriteHealth(database)},
    )


@asynccontextmanager
async def open_hot_stores(settings: Settings) -> AsyncIterator[HotStores]:
    """Open Redis, or this process's memory where none is named.

    Raises:
        StorageUnavailableError: Redis refuses us; one that is away is waited for in the background.
    """
    if settings.redis_url is None:
        if not is_sqlite(settings):
            log.warning(
                "no_redis", means="each process has its own leases; every response is degraded", set="BOTS_REDIS_URL"
            )
        yield memory_stores(settings)
        return
    from bots_service.storage.redis.connection import RedisConnection  # not above: who has no Redis loads no client

    connection = RedisConnection(settings.redis_url, timeout_s=settings.redis_timeout_s)
    try:
        await connection.open()
        yield redis_stores(settings, connection)
    finally:
        await connection.close()


def redis_stores(settings: Settings, connection: "RedisConnection") -> HotStores:
    """Return stores that all replicas share."""
    from bots_service.storage.redis.cache import LeaseCache
    from bots_service.storage.redis.connection import RedisHealth
    from bots_service.storage.redis.leases import RedisLeases
    from bots_service.storage.redis.states import RedisStates

    cache = LeaseCache()
    return HotStores(
        RedisStates(connection, cache, capacity_bytes=settings.cache_bytes),
        RedisLeases(connection, cache),
        is_shared=True,
        health={"redis": RedisHealth(connection)},
    )


def memory_stores(settings: Settings) -> HotStores:
    """Return stores in this process's memory. On PostgreSQL others may be at work, so nothing here is the newest."""
    only = is_sqlite(settings)
    states = MemoryStates(settings.cache_bytes, only_process=only)
    return HotStores(
        states,
        MemoryLeases(first_ordinal=0 if only else secrets.randbelow(ORDINALS)),
        is_shared=False,
        health={},
    )


def is_sqlite(settings: Settings) -> bool:
    """Return whether the database is a file, which one process has for itself."""
    return not is_postgresql(settings.sql_url)
