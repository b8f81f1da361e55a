"""Do the migrations make exactly the tables that the code declares?

Migrates a fresh SQLite database and a fresh PostgreSQL one, both gone afterwards, to the newest revision, then compares
what stands there with `bots_service.storage.sql.tables.metadata`. Run it as `python -m tools.check_migrations` in the
repository's root.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import NullPool, create_engine

from bots_service.storage.sql.database import sql_url
from bots_service.storage.sql.migrate import head, revisions_folder, upgrade
from bots_service.storage.sql.tables import metadata
from tests.servers import PostgresServer, running


def differences(url: str) -> list[str]:
    """Return what alembic would still change in a migrated database, one line each."""
    upgrade(url)
    with create_engine(sql_url(url), poolclass=NullPool).connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        if context.get_current_revision() is None:
            return ["there is no revision at all"]
        product = connection.dialect.name
        return [f"{product}: missing in the migrations: {change}" for change in compare_metadata(context, metadata)]


def misnumbered() -> list[str]:
    """Return what is wrong with the revisions' numbers: a service knows from them which tables are newer than it."""
    numbers = [script.revision for script in ScriptDirectory(revisions_folder()).walk_revisions()][::-1]
    wanted = [f"{number:04}" for number in range(1, len(numbers) + 1)]
    if numbers != wanted:
        return [f"revisions are numbered {numbers}, not {wanted}"]
    return [] if head() == numbers[-1] else [f"the newest file begins with {head()}, and its revision is {numbers[-1]}"]


def main() -> int:
    """Print how migrations and tables differ; return 1 if they do."""
    found = misnumbered()
    with TemporaryDirectory() as folder, running(PostgresServer(fsync="off")) as server:
        for url in (f"sqlite:///{Path(folder) / 'fresh.db'}", server.url()):
            found += differences(url)
    for line in found:
        print(line)
    print("Migrations: write a revision for the above" if found else "Migrations: they make the tables declared")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
