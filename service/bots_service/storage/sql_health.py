"""Whether SQL answers, for reading and for writing."""

import asyncio
from typing import Any

from sqlalchemy import Connection, select

from bots_service.errors import OutdatedTablesError, StorageUnavailableError
from bots_service.storage.database import Database
from bots_service.storage.migrate import head, is_new_enough, revision_of
from bots_service.storage.tables import runs

_LOOK = select(runs.c.id).limit(1)


class SqlHealth:
    """A Health."""

    def __init__(self, database: Database, *, timeout_s: float = 2.0) -> None:
        """Check a database.

        Args:
            database: which.
            timeout_s: one that takes longer counts as not answering.
        """
        self._database = database
        self._timeout_s = timeout_s

    async def check(self) -> dict[str, Any]:
        """Return {"sql": "ok"}.

        Raises:
            OutdatedTablesError: its tables are older than this version of the service needs. Newer ones are no reason:
                while versions are exchanged one by one, the old ones go on.
            StorageUnavailableError: it can't be reached.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                revision = await self._database.read(revision_of)
                if not is_new_enough(revision):
                    said = f"the tables are at revision {revision or 'none'}, not {head()}; run `bots migrate`"
                    raise OutdatedTablesError(said)
                await self._database.write(_look)
        except TimeoutError as error:
            raise StorageUnavailableError(f"the database did not answer in {self._timeout_s:g} s") from error
        return {"sql": "ok"}


def _look(connection: Connection) -> None:
    connection.execute(_LOOK)
