"""Brings a database's tables to the newest revision.

Revisions are numbered 0001, 0002, ..., and each only adds: older code still works. So a service may run on
tables that are newer than itself, as the older replicas do while a newer one migrates; a number that this version has
doesn't know and that is greater than its own newest is one of these.
"""

from functools import cache
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from bots_service.errors import OutdatedTablesError, StorageUnavailableError
from bots_service.storage.sql.database import connected, is_missing, is_pooled, sql_url

NUMBER_LENGTH = 4  # of a revision; its file's name begins with it
VERSION_TABLE = "alembic_version"
_REVISION = text("SELECT version_num FROM alembic_version")
MIGRATOR_LOCK = 0x626F7473  # of migrators, among PostgreSQL's advisory locks: "bots"
WAIT_FOR_MIGRATOR = (
    "SET lock_timeout = '10min'",
    # A migrator whose machine died holds the lock until the server sees that nobody is there: else for two hours.
    "SET tcp_keepalives_idle = 30",
    "SET tcp_keepalives_interval = 10",
    "SET tcp_keepalives_count = 3",
)
# A revision that waits for a table makes everybody behind it wait too, so it soon gives up; what was done stays.
WAIT_FOR_TABLE = "SET lock_timeout = '5s'"
MIGRATE_DIRECTLY = "run `bots migrate` with PostgreSQL's own address in BOTS_DATABASE_URL"


def upgrade(url: str) -> tuple[str | None, str]:
    """Bring the database to the newest revision; return the one it had (None: it was empty) and the one it has.

    Tables that are newer than this version of the service stay as they are. The folder of a SQLite file is made.

    Raises StorageUnavailableError: the database did not answer, its tables are not ours, or only a pooler reaches it.
    """
    if is_missing(parsed := sql_url(url)):
        Path(parsed.database or "").parent.mkdir(parents=True, exist_ok=True)
    with connected(url) as connection:
        if not is_new_enough(_revision(connection)):
            _keep_other_migrators_out(connection)
        before = _revision(connection)  # another one may just have migrated
        if not is_new_enough(before):
            _migrate(connection)
        return before, _revision(connection) or head()


def current(url: str) -> str | None:
    """Return the database's revision, None if it has none.

    Raises StorageUnavailableError: the database did not answer.
    """
    if is_missing(sql_url(url)):
        return None
    with connected(url) as connection:
        return _revision(connection)


@cache
def head() -> str:
    """Return the revision that this version of the service works with."""
    return max(path.name[:NUMBER_LENGTH] for path in (revisions_folder() / "versions").glob("[0-9]*.py"))


def revision_of(connection: Connection) -> str | None:
    """Return the revision of the tables that a connection sees, None if there are none."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    revision: str | None = connection.execute(_REVISION).scalar()
    return revision


def revisions_folder() -> Path:
    """Return where the revisions are: inside an installed package, or at the top of a checkout."""
    package = Path(__file__).parents[2]
    installed = package / "migrations"
    return installed if (installed / "env.py").is_file() else package.parents[1] / "migrations"


def is_new_enough(revision: str | None) -> bool:
    """Return whether this version of the service can work on tables of a revision: on its newest, or a later one.

    Raises StorageUnavailableError: the revision is none of ours, so the tables are another program's.
    """
    if revision is None:
        return False
    if not (revision.isdigit() and len(revision) == len(head())):
        raise StorageUnavailableError(f"the tables are at revision {revision!r}, which is none of this service's")
    return revision >= head()


def require_tables(url: str) -> None:
    """Raise OutdatedTablesError if the database's tables are too old, StorageUnavailableError if it doesn't answer."""
    require_new_enough(current(url))


def require_new_enough(revision: str | None) -> None:
    """Raise OutdatedTablesError if the service can't work on tables of a revision: they are too old, or missing.

    Newer ones are no reason: during a rolling update the old versions continue.
    """
    if not is_new_enough(revision):
        raise OutdatedTablesError(
            f"the database's tables are at revision {revision or 'none'}, this version needs {head()}: "
            "run `bots migrate`"
        )


def _keep_other_migrators_out(connection: Connection) -> None:
    """Take a lock that ends with the connection, however that ends. A SQLite file has one process anyway.

    Raises StorageUnavailableError: a pooler would give the server's connection, with the lock, to somebody else.
    """
    if is_pooled(connection):
        raise StorageUnavailableError(
            f"the tables can't be migrated through PgBouncer, which would share the lock, too: {MIGRATE_DIRECTLY}"
        )
    if connection.dialect.name == "postgresql":
        for statement in WAIT_FOR_MIGRATOR:
            connection.exec_driver_sql(statement)
        connection.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": MIGRATOR_LOCK})
        connection.exec_driver_sql(WAIT_FOR_TABLE)
        connection.commit()


def _revision(connection: Connection) -> str | None:
    revision = revision_of(connection)
    connection.rollback()  # each migration begins a transaction of its own
    return revision


def _migrate(connection: Connection) -> None:
    from alembic import command  # not above: a start with nothing to migrate does without it
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(revisions_folder()).replace("%", "%%"))  # it interpolates
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
