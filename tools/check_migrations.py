"""Do the migrations make exactly the tables that the code declares?

Migrates a fresh SQLite database in a temporary folder to the newest revision, then compares what stands there with
`bots_service.storage.tables.metadata`. Run it as `python -m tools.check_migrations`.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import create_engine
from sqlalchemy.engine import Connection

from bots_service.storage.tables import metadata


def migrate(connection: Connection, url: str) -> None:
    """Bring the database to the newest revision; env.py may use the open connection or the address."""
    config = Config()
    config.set_main_option("script_location", "bots_service:migrations")
    config.set_main_option("sqlalchemy.url", url)
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
    connection.commit()


def differences(connection: Connection) -> list[str]:
    """Return what alembic would still change in the database, one line each."""
    context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
    if context.get_current_revision() is None:
        return ["there is no revision at all"]
    return [str(change) for change in compare_metadata(context, metadata)]


def main() -> int:
    """Print how migrations and tables differ; return 1 if they do."""
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'fresh.db'}"
        engine = create_engine(url)
        with engine.connect() as connection:
            migrate(connection, url)
            changes = differences(connection)
        engine.dispose()
    for change in changes:
        print(f"migrations lack: {change}")
    print("Migrations: write a revision for the above" if changes else "Migrations: they make the tables declared")
    return 1 if changes else 0


if __name__ == "__main__":
    sys.exit(main())
