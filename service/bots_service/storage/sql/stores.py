"""All that is kept in one database; and what needs no file of its own: API keys, a look at its health."""

from time import monotonic, time

from sqlalchemy import Connection, exists, insert, select, text, update

from bots_service.errors import LimitReachedError, UnauthenticatedError, UnknownApiKeyError
from bots_service.keys import KeyRow
from bots_service.records import Capacity
from bots_service.storage.sql.database import Database
from bots_service.storage.sql.datasets import SqlDatasets
from bots_service.storage.sql.history import SqlHistory
from bots_service.storage.sql.journal import SqlJournal, SqlSnapshots
from bots_service.storage.sql.migrate import require_new_enough, revision_of
from bots_service.storage.sql.runs import SqlRuns
from bots_service.storage.sql.store import SqlAnswers, Store, reading, writing_once
from bots_service.storage.sql.tables import api_keys, runs
from bots_service.storage.sql.transfer import SqlTransfers

MOST_KEYS = 1000  # in use: each process holds them all, and reads them all again every 2 s


class SqlKeys(Store):
    """API keys; of each, only what can tell a right one from a wrong one."""

    @reading
    def in_use(self, connection: Connection) -> list[KeyRow] | None:
        """Return all keys that were not revoked; None if there never was a key, revoked or not."""
        rows = _in_use(connection)
        return rows if rows or _any_exists(connection) else None

    @reading
    def after(self, connection: Connection, key_id: str, limit: int) -> list[KeyRow]:
        """Return up to `limit` keys by id, revoked ones too, beginning behind `key_id` ("" for the first)."""
        page = select(api_keys).where(api_keys.c.id > key_id).order_by(api_keys.c.id).limit(limit)
        return [KeyRow(**row) for row in connection.execute(page).mappings()]

    @writing_once
    def add(self, connection: Connection, row: KeyRow, *, first: bool) -> KeyRow:
        """Add a key; `first`, if there never was one."""
        if first and _any_exists(connection):
            raise UnauthenticatedError("this service requires an API key now; send Authorization: Bearer KEY")
        if len(_in_use(connection)) >= MOST_KEYS:
            raise LimitReachedError(f"{MOST_KEYS} keys exist, which is the maximum; revoke some")
        connection.execute(insert(api_keys), {name: getattr(row, name) for name in KeyRow.__slots__})
        return row

    @writing_once
    def revoke(self, connection: Connection, key_id: str) -> None:
        """Revoke a key; one that is revoked already stays so."""
        this = api_keys.c.id == key_id
        if connection.scalar(select(api_keys.c.id).where(this)) is None:
            raise UnknownApiKeyError(f"no key {key_id!r}")
        connection.execute(update(api_keys).where(this, api_keys.c.revoked_at.is_(None)), {"revoked_at": time()})


def _in_use(connection: Connection) -> list[KeyRow]:
    rows = connection.execute(select(api_keys).where(api_keys.c.revoked_at.is_(None)))
    return [KeyRow(**row) for row in rows.mappings()]


def _any_exists(connection: Connection) -> bool:
    return bool(connection.scalar(select(exists(select(api_keys.c.id)))))


_WRITE_AGAIN = text("UPDATE alembic_version SET version_num = version_num")
WRITE_EVERY_S = 5.0  # while it goes well: each write waits for the disk once, as a report does


class SqlHealth(Store):
    """Whether the database can be read, and whether it takes what is written."""

    _written: float | None = None

    async def check(self) -> None:
        """Raise StorageUnavailableError if the database can't be read, OutdatedTablesError if its tables are older."""
        require_new_enough(await self.database.read(revision_of))

    async def check_writes(self) -> None:
        """Raise StorageUnavailableError if the database takes no writes.

        It begins a transaction that may write at each look, and really writes now and then; once that failed, at each
        look.
        """
        now = monotonic()
        if self._written is not None and now - self._written < WRITE_EVERY_S:
            await self.database.write(lambda connection: connection.scalar(select(runs.c.id).limit(1)))
        else:
            self._written = None
            await self.database.write(lambda connection: connection.execute(_WRITE_AGAIN).close())
            self._written = now


class SqlStores:
    """The tables, by what they hold; `database` runs transactions over several."""

    def __init__(self, database: Database, capacity: Capacity | None = None) -> None:
        """Keep all in a database. capacity: limits on the amount of data."""
        self.database = database
        self.answers = SqlAnswers(database)
        self.datasets = SqlDatasets(database, capacity)
        self.runs = SqlRuns(database, capacity)
        self.journal = SqlJournal(database)
        self.history = SqlHistory(database)
        self.snapshots = SqlSnapshots(database)
        self.keys = SqlKeys(database)
        self.transfers = SqlTransfers(database, capacity)
        self.health = SqlHealth(database)
