"""What the stores need of a database: two verbs, whatever the product."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import Connection, Insert, Table
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, NotSupportedError, ProgrammingError

from bots_service.errors import StorageUnavailableError
from bots_service.records import Capacity

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")
Job = Callable[[Connection], Result]

SqlRow = Any  # its columns are those of its statement, which no type can say

# Of a statement whose answer nobody needs before the commit, so that it travels with the next one.
UNANSWERED = {"unanswered": True}
OUR_FAULT = (DataError, IntegrityError, NotSupportedError, ProgrammingError)


class Database(Protocol):
    """Runs jobs, each a function of a connection and of nothing else that changes: one may be run again."""

    def write(self, job: Job[Result]) -> asyncio.Future[Result]:
        """Put the job in line at once, and return what it will return, once that is committed to stable storage.

        A caller that no longer waits changes nothing.

        Raises:
            StorageUnavailableError: (from the future, too) nothing was acknowledged.
        """
        ...

    def read(self, job: Job[Result]) -> asyncio.Future[Result]:
        """Return what the job will return; it sees everything committed before this call, and one state throughout.

        Raises:
            StorageUnavailableError: (from the future, too) the database did not answer.
        """
        ...

    async def close(self) -> None:
        """End what is in line, then let the database go; what comes later is refused."""
        ...


@contextmanager
def storage_errors() -> Iterator[None]:
    """Turn what the driver says of a database in trouble into StorageUnavailableError; our own mistakes stay."""
    try:
        yield
    except OUR_FAULT:
        raise
    except DBAPIError as error:
        raise StorageUnavailableError(f"the database did not answer: {error.orig}") from error


class Store:
    """Some of what is kept in a database.

    A write under an idempotency key keeps what it returns as the key's first answer, in its own transaction. It raises
    KeyReusedError where the key came with another request before, and BusyError where the same request was answered
    meanwhile: the answer can be found then.
    """

    def __init__(self, database: Database, capacity: Capacity | None = None) -> None:
        """Keep it in a database. capacity: how much is kept at most."""
        self.database = database
        self.capacity = capacity or Capacity()


Own = TypeVar("Own", bound=Store)
Jobs = Callable[Concatenate[Own, Connection, Arguments], Result]
Call = Callable[Concatenate[Own, Arguments], Coroutine[Any, Any, Result]]


def reading(job: Jobs[Own, Arguments, Result]) -> Call[Own, Arguments, Result]:
    """Make a store's job a call: it reads one state of the database, and its caller has no connection."""

    @wraps(job)
    async def read(store: Own, /, *arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        return await store.database.read(lambda connection: job(store, connection, *arguments, **named))

    return read


def writing(job: Jobs[Own, Arguments, Result]) -> Call[Own, Arguments, Result]:
    """Make a store's job a call: it is one transaction, and its caller has no connection."""

    @wraps(job)
    async def write(store: Own, /, *arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        return await store.database.write(lambda connection: job(store, connection, *arguments, **named))

    return write


def insert_missing(connection: Connection, table: Table) -> Insert:
    """Return a statement that inserts the rows whose key is not in the table yet."""
    return _insert_missing(connection.dialect.name, table)


@cache
def _insert_missing(product: str, table: Table) -> Insert:
    if product == "postgresql":
        from sqlalchemy.dialects import postgresql  # not above: who has SQLite does without it

        return postgresql.insert(table).on_conflict_do_nothing()
    return sqlite.insert(table).on_conflict_do_nothing()
