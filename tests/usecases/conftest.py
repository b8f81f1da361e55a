"""A world of its own for each test: the use cases over a fresh, migrated database."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from bots_service.storage.migrate import upgrade
from tests.usecases.world import World, copy_database


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file with its tables, made once: migrating takes longer than most tests."""
    path = tmp_path_factory.mktemp("template") / "bots.db"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture
def folder(migrated: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Makes folders with an empty database."""
    return lambda name: copy_database(migrated, tmp_path / name)


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
