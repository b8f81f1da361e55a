"""A migrated database with every store over it: a SQLite file, or one of PostgreSQL's."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bots_service.storage.postgres import PostgresDatabase
from bots_service.storage.sqlite import SqliteDatabase
from tests.sqlite_files import migrated_file
from tests.storage import made
from tests.storage.made import Stores


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{migrated_file(tmp_path)}"


@pytest.fixture
async def sqlite_stores(url: str) -> AsyncIterator[Stores]:
    database = SqliteDatabase(url)
    yield made.stores_over(database)
    await database.close()


@pytest.fixture
def stores(sqlite_stores: Stores) -> Stores:
    """The stores of tests that don't say on which product."""
    return sqlite_stores


@pytest.fixture
async def postgres_stores(postgres_url: str) -> AsyncIterator[Stores]:
    database = PostgresDatabase(postgres_url, pool_size=4, timeout_s=30)
    yield made.stores_over(database)
    await database.close()


@pytest.fixture(params=["sqlite_stores", "postgres_stores"], ids=["sqlite", "postgresql"])
def both_stores(request: pytest.FixtureRequest) -> Stores:
    """The stores on each product, one after the other."""
    return request.getfixturevalue(request.param)
