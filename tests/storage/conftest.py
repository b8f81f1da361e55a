"""A migrated SQLite database with every store over it."""

from pathlib import Path

import pytest

from bots_service.storage.migrate import upgrade
from bots_service.storage.sql_answers import SqlAnswers
from bots_service.storage.sql_datasets import SqlDatasets
from bots_service.storage.sql_health import SqlHealth
from bots_service.storage.sql_journal import SqlJournal
from bots_service.storage.sql_runs import SqlRuns
from bots_service.storage.sql_snapshots import SqlSnapshots
from bots_service.storage.sqlite_database import SqliteDatabase
from tests.storage.made import Stores


@pytest.fixture
def url(tmp_path: Path) -> str:
    address = f"sqlite:///{tmp_path / 'bots.db'}"
    upgrade(address)
    return address


@pytest.fixture
async def stores(url: str):
    database = SqliteDatabase(url)
    yield Stores(
        datasets=SqlDatasets(database),
        runs=SqlRuns(database),
        journal=SqlJournal(database),
        snapshots=SqlSnapshots(database),
        answers=SqlAnswers(database),
        health=SqlHealth(database),
        database=database,
    )
    await database.close()
