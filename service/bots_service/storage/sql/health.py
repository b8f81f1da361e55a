"""Whether SQL answers, and whether it takes what is written: a full disk still lets everybody read."""

import asyncio
from collections.abc import Callable
from time import monotonic, time
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from bots_service.errors import OutdatedTablesError, StorageUnavailableError
from bots_service.storage.sql.answers import insert_missing
from bots_service.storage.sql.database import Database, Job, Result
from bots_service.storage.sql.migrate import head, is_new_enough, revision_of
from bots_service.storage.sql.tables import runs, write_probe

TIMEOUT_S = 2.0  # a database that takes longer counts as not answering
WRITE_EVERY_S = 5.0  # while it goes well: each write waits for the disk once, as a report does

_LOOK = select(runs.c.id).limit(1)
_ROW = 1
_TOUCH = update(write_probe).where(write_probe.c.id == _ROW).values(written_at=bindparam("now"))


class SqlHealth:
    """Whether the database can be read."""

    def __init__(self, database: Database, *, timeout_s: float = TIMEOUT_S) -> None:
        self._database = database
        self._timeout_s = timeout_s

    async def check(self) -> dict[str, Any]:
        """Return {"sql": "ok"}.

        Raises:
            OutdatedTablesError: its tables are older than this version of the service needs. Newer ones are no reason:
                during a rolling update the old versions continue.
            StorageUnavailableError: it can't be read.
        """
        revision = await _within(self._timeout_s, self._database.read, revision_of)
        if not is_new_enough(revision):
            said = f"the tables are at revision {revision or 'none'}, not {head()}; run `bots migrate`"
            raise OutdatedTablesError(said)
        return {"sql": "ok"}


class SqlWriteHealth:
    """Whether the database takes what is written.

    It begins a transaction that may write at each look, and really writes now and then; once that failed, at each look.
    """

    def __init__(self, database: Database, *, timeout_s: float = TIMEOUT_S) -> None:
        """Check a database. timeout_s: one that takes longer counts as not answering."""
        self._database = database
        self._timeout_s = timeout_s
        self._written: float | None = None

    async def check(self) -> dict[str, Any]:
        """Return {"sql_writes": "ok"}.

        Raises:
            StorageUnavailableError: it takes none.
        """
        now = monotonic()
        if self._written is not None and now - self._written < WRITE_EVERY_S:
            await _within(self._timeout_s, self._database.write, lambda connection: connection.execute(_LOOK).first())
        else:
            self._written = None
            await _within(self._timeout_s, self._database.write, _touch)
            self._written = now
        return {"sql_writes": "ok"}


async def _within(seconds: float, verb: Callable[[Job[Result]], asyncio.Future[Result]], job: Job[Result]) -> Result:
    try:
        async with asyncio.timeout(seconds):
            return await verb(job)
    except TimeoutError as error:
        raise StorageUnavailableError(f"the database did not answer in {seconds:g} s") from error


def _touch(connection: Connection) -> None:
    connection.execute(insert_missing(connection, write_probe), {"id": _ROW, "written_at": 0.0})
    connection.execute(_TOUCH, {"now": time()})
