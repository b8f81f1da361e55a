"""Whether SQL answers, and whether it takes what is written: a full disk still lets everybody read."""

from time import monotonic, time

from sqlalchemy import Connection, select, update

from bots_service.errors import OutdatedTablesError
from bots_service.storage.sql.migrate import head, is_new_enough, revision_of
from bots_service.storage.sql.store import Store, insert_missing
from bots_service.storage.sql.tables import runs, write_probe

WRITE_EVERY_S = 5.0  # while it goes well: each write waits for the disk once, as a report does


class SqlHealth(Store):
    """Whether the database can be read, and whether it takes what is written."""

    _written: float | None = None

    async def check(self) -> None:
        """Return if the database can be read.

        Raises:
            OutdatedTablesError: its tables are older than this version of the service needs. Newer ones are no reason:
                during a rolling update the old versions continue.
            StorageUnavailableError: it can't be read.
        """
        revision = await self.database.read(revision_of)
        if not is_new_enough(revision):
            said = f"the tables are at revision {revision or 'none'}, not {head()}; run `bots migrate`"
            raise OutdatedTablesError(said)

    async def check_writes(self) -> None:
        """Return if the database takes writes.

        It begins a transaction that may write at each look, and really writes now and then; once that failed, at each
        look.

        Raises:
            StorageUnavailableError: it takes none.
        """
        now = monotonic()
        if self._written is not None and now - self._written < WRITE_EVERY_S:
            await self.database.write(lambda connection: connection.scalar(select(runs.c.id).limit(1)))
        else:
            self._written = None
            await self.database.write(_touch)
            self._written = now


def _touch(connection: Connection) -> None:
    row = {"id": 1, "written_at": time()}
    connection.execute(insert_missing(connection.dialect.name, write_probe), row)
    connection.execute(update(write_probe).where(write_probe.c.id == row["id"]), {"written_at": row["written_at"]})
