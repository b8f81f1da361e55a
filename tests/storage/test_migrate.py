"""Migrations: from nothing to the newest revision, once."""

from pathlib import Path

import pytest
from sqlalchemy import NullPool, create_engine, inspect

from bots_service.errors import StorageUnavailableError
from bots_service.storage.migrate import current, head, upgrade
from bots_service.storage.tables import metadata


def test_an_empty_database_gets_every_table(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'with 100% space.db'}"
    assert current(url) is None
    assert upgrade(url) == (None, head())
    assert upgrade(url) == (head(), head())
    engine = create_engine(url, poolclass=NullPool)
    assert set(inspect(engine).get_table_names()) == {*metadata.tables, "alembic_version"}


def test_a_database_that_can_not_be_opened_is_reported(tmp_path: Path):
    with pytest.raises(StorageUnavailableError):
        upgrade(f"sqlite:///{tmp_path / 'no such folder' / 'bots.db'}")
    (tmp_path / "text.db").write_text("this is no database, however long it may be " * 100)
    with pytest.raises(StorageUnavailableError):
        upgrade(f"sqlite:///{tmp_path / 'text.db'}")
