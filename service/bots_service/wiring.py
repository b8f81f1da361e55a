"""The composition root: the only place that names concrete classes together. Opens and closes them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from fastapi import FastAPI

from bots_service.api.app import create_app
from bots_service.api.overload import Admission
from bots_service.metrics import Metrics, TrainingMetrics
from bots_service.readiness import OK
from bots_service.records import Capacity
from bots_service.services import Services
from bots_service.settings import Settings
from bots_service.storage.live import Live
from bots_service.storage.sql.database import Database, is_postgresql
from bots_service.storage.sql.migrate import head, require_tables, upgrade
from bots_service.storage.sql.stores import SqlStores
from bots_service.storage.sqlite import SqliteDatabase

log = structlog.get_logger(__name__)


def build_app(settings: Settings) -> FastAPI:
    """Return the application; its stores are opened when it starts, and closed when it ends."""
    metrics = Metrics()
    return create_app(
        lambda: open_services(settings, metrics),
        schema=head(),
        admission=Admission(
            timeout_s=settings.request_timeout_s, concurrent=settings.max_concurrent, waiting=settings.max_waiting
        ),
        upload_bytes=settings.max_upload_bytes,
        metrics=metrics,
    )


@asynccontextmanager
async def open_services(settings: Settings, metrics: Metrics) -> AsyncIterator[Services]:
    """Open the stores, bring the database's tables to the newest revision, and hand out what the API may call.

    Raises StorageUnavailableError: the database can't be opened, or another process has it; OutdatedTablesError: its
    tables are too old, and the settings leave migrating them to `bots migrate`.
    """
    async with open_database(settings) as database, open_live(settings) as live:
        services = build_services(settings, database, live, metrics.training)
        readiness = services.readiness
        metrics.watch(
            lambda: readiness().is_ready, lambda: {part: said == OK for part, said in readiness().checks.items()}
        )
        async with services.in_background():
            yield services


def build_services(settings: Settings, database: Database, live: Live, metrics: TrainingMetrics) -> Services:
    return Services(
        SqlStores(database, Capacity(settings.max_tasks)),
        live,
        metrics,
        snapshot_every=settings.snapshot_every,
        cache_bytes=settings.cache_bytes,
        admin_key=None if settings.admin_key is None else settings.admin_key.get_secret_value(),
    )


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[Database]:
    """Open the database, with its tables at the newest revision."""
    database = sqlite_or_postgres(settings)
    try:
        await asyncio.to_thread(upgrade if settings.migrate_on_start else require_tables, settings.sql_url)
        yield database
    finally:
        await database.close()


def sqlite_or_postgres(settings: Settings) -> Database:
    """Return the database, with nothing asked of it yet."""
    if not is_postgresql(settings.sql_url):
        return SqliteDatabase(settings.sql_url)
    from bots_service.storage.postgres import PostgresDatabase  # not above: who has SQLite loads no driver

    return PostgresDatabase(settings.sql_url, pool_size=settings.database_pool, timeout_s=settings.database_timeout_s)


@asynccontextmanager
async def open_live(settings: Settings) -> AsyncIterator[Live]:
    """Open Redis (one that is away is waited for in the background), or this process's memory where none is named."""
    is_exact = not is_postgresql(settings.sql_url)  # a file is one process's alone
    if settings.redis_url is None:
        if not is_exact:
            log.warning(
                "no_redis", means="each process has its own leases; every response is degraded", set="BOTS_REDIS_URL"
            )
        yield Live(is_exact=is_exact)
        return
    from bots_service.storage.redis import RedisLive, RedisServer  # not above: who has no Redis loads no client

    server = RedisServer(settings.redis_url, timeout_s=settings.redis_timeout_s)
    try:
        await server.open()
        yield RedisLive(server)
    finally:
        await server.close()
