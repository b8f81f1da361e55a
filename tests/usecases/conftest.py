"""A world of its own for each test: the use cases over a fresh, migrated database."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from bots_service.settings import Settings
from bots_service.stores import open_hot_stores
from tests.servers import RedisServer
from tests.sqlite_files import migrated_file
from tests.storage.redis_stores import PATIENT_S
from tests.usecases.replicas import Replica
from tests.usecases.world import World


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


@pytest.fixture
async def replicas(world: World, redis_server: RedisServer) -> AsyncIterator[tuple[Replica, Replica]]:
    """Two services over one database and one Redis, with one dataset of 40 tasks."""
    with redis_server.client() as client:
        client.flushall()
    # A Redis that is there is never taken for one that is away, however busy the machine.
    settings = Settings(**{**world.settings.model_dump(), "redis_url": redis_server.url, "redis_timeout_s": PATIENT_S})
    async with AsyncExitStack() as stack:
        both = []
        for _ in range(2):
            hot = await stack.enter_async_context(open_hot_stores(settings))
            both.append(Replica.over(world.folder, settings, world.database, hot=hot))
        await both[0].parts.states.register(await both[0].row())  # the dataset was made without Redis
        yield both[0], both[1]
