"""Whether a database holds keys, asked before the service listens."""

from pathlib import Path

import pytest

from bots_service.errors import StorageUnavailableError
from bots_service.storage.sql.keys import SqlKeys
from bots_service.storage.sql.url import keys_exist
from tests.servers import PostgresServer
from tests.serving import free_port
from tests.storage.contracts.keys import key
from tests.storage.made import Stores


async def test_a_key_counts_even_once_it_is_revoked(url: str, sqlite_stores: Stores):
    assert not keys_exist(url)
    keys = SqlKeys(sqlite_stores.database)
    await keys.add(key(), first=True)
    assert keys_exist(url)
    await keys.revoke(key().id)
    assert keys_exist(url)


async def test_postgresql_is_asked_too(postgres: PostgresServer, postgres_url: str, postgres_stores: Stores):
    assert not keys_exist(postgres.url())  # a database without our tables
    assert not keys_exist(postgres_url)
    await SqlKeys(postgres_stores.database).add(key(), first=True)
    assert keys_exist(postgres_url)


def test_a_file_that_is_not_there_holds_none_and_is_not_made(tmp_path: Path):
    assert not keys_exist(f"sqlite:///{tmp_path / 'bots.db'}")
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_can_not_be_asked_is_reported(tmp_path: Path):
    (tmp_path / "text.db").write_text("this is no database, however long it may be " * 100)
    for address in (f"sqlite:///{tmp_path / 'text.db'}", f"postgresql://bots@127.0.0.1:{free_port()}/bots"):
        with pytest.raises(StorageUnavailableError):
            keys_exist(address)
