"""A world of its own for each test: the use cases over a fresh, migrated database."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from bots_service.settings import Settings
from bots_service.storage.postgres import PostgresDatabase
from bots_service.storage.sql.database import Database
from bots_service.wiring import open_live
from tests.servers import RedisServer
from tests.sqlite_files import migrated_file
from tests.usecases.world import World

PATIENT_S = 60.0  # a Redis that is there is never taken for one that is away, however busy the machine


@pytest.fixture
def folder(tmp_path: Path) -> Callable[[str], Path]:
    """Makes folders with an empty database."""
    return lambda name: migrated_file(tmp_path / name).parent


@pytest.fixture
async def empty(folder: Callable[[str], Path]) -> AsyncIterator[World]:
    """A service without datasets, that stores a state at every fifth entry."""
    world = World.open(folder("service"), snapshot_every=5)
    yield world
    await world.close()


@pytest.fixture
async def world(empty: World) -> World:
    """A service with one dataset of 40 tasks."""
    await empty.import_pool()
    return empty


@pytest.fixture
def watched(world: World) -> World:
    """Another process over the same database, that knows nothing yet."""
    return world.beside()


async def two_over(
    stack: AsyncExitStack, folder: Path, database: Database, redis_server: RedisServer
) -> tuple[World, World]:
    """Two services over one database and one Redis, which is empty."""
    with redis_server.client() as client:
        client.flushall()
    settings = Settings(data_dir=folder, snapshot_every=5, redis_url=redis_server.url, redis_timeout_s=PATIENT_S)
    one, other = [await stack.enter_async_context(open_live(settings)) for _ in range(2)]
    return World.over(folder, settings, database, one), World.over(folder, settings, database, other)


@pytest.fixture
async def replicas(world: World, redis_server: RedisServer) -> AsyncIterator[tuple[World, World]]:
    """Two services over one database and one Redis, with one dataset of 40 tasks."""
    async with AsyncExitStack() as stack:
        yield await two_over(stack, world.folder, world.database, redis_server)


@pytest.fixture(params=["one on SQLite", "two over PostgreSQL and Redis"])
async def services(
    request: pytest.FixtureRequest, folder: Callable[[str], Path], redis_server: RedisServer
) -> AsyncIterator[tuple[World, World]]:
    """What two callers speak to: the same service, or a replica each."""
    async with AsyncExitStack() as stack:
        if request.param == "one on SQLite":
            world = World.open(folder("service"), snapshot_every=5)
            stack.push_async_callback(world.close)
            yield world, world
            return
        database = PostgresDatabase(request.getfixturevalue("postgres_url"), pool_size=4, timeout_s=30)
        both = await two_over(stack, folder("service"), database, redis_server)
        stack.push_async_callback(both[0].close)
        yield both


@pytest.fixture
async def on_postgres(postgres_url: str, tmp_path: Path) -> AsyncIterator[World]:
    """A service without datasets on PostgreSQL."""
    database = PostgresDatabase(postgres_url, pool_size=4, timeout_s=30)
    world = World.over(tmp_path, Settings(data_dir=tmp_path, snapshot_every=5), database)
    yield world
    await world.close()
