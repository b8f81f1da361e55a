"""Brings a database's tables to the newest revision."""

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import NullPool, create_engine

from bots_service.storage.database import storage_errors


def upgrade(url: str) -> tuple[str | None, str]:
    """Bring the database to the newest revision; return the one it had (None: it was empty) and the one it has.

    Raises:
        StorageUnavailableError: the database did not answer.
    """
    before = current(url)
    if before != head():
        with storage_errors():
            command.upgrade(_config(url), "head")
    return before, head()


def current(url: str) -> str | None:
    """Return the database's revision, None if it has none.

    Raises:
        StorageUnavailableError: the database did not answer.
    """
    engine = create_engine(url, poolclass=NullPool)
    with storage_errors(), engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def head() -> str:
    """Return the revision that this version of the service works with."""
    newest = ScriptDirectory.from_config(_config("")).get_current_head()
    if newest is None:
        raise ValueError("the package holds no migration")
    return newest


def _config(url: str) -> Config:
    config = Config()
    config.set_main_option("script_location", "bots_service:migrations")
    config.set_main_option("sqlalchemy.url", url.replace("%", "%%"))
    return config
