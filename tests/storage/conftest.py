"""A migrated database with every store over it: a SQLite file, or one of PostgreSQL's."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bots_service.storage.postgres import PostgresDatabase
from bots_service.storage.sql.stores import SqlStores
from bots_service.storage.sqlite import SqliteDatabase
from tests.sqlite_files import migrated_file


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{migrated_file(tmp_path)}"


@pytest.fixture
async def sqlite_stores(url: str) -> AsyncIterator[SqlStores]:
    database = SqliteDatabase(url)
    yield SqlStores(database)
    await database.close()


@pytest.fixture
async def postgres_stores(postgres_url: str) -> AsyncIterator[SqlStores]:
    database = PostgresDatabase(postgres_url, pool_size=4, timeout_s=30)
    yield SqlStores(database)
    await database.close()


@pytest.fixture(params=["sqlite_stores", "postgres_stores"], ids=["sqlite", "postgresql"])
def stores(request: pytest.FixtureRequest) -> SqlStores:
    return request.getfixturevalue(request.param)
