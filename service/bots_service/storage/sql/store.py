"""What each store of something is: calls, most of which are one job on the database."""

from collections.abc import Callable, Coroutine
from functools import cache, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, Insert, Table
from sqlalchemy.dialects import sqlite

from bots_service.records import Capacity
from bots_service.storage.sql.database import Database, Result

Arguments = ParamSpec("Arguments")


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


@cache
def insert_missing(product: str, table: Table) -> Insert:
    """Return a statement that inserts the rows whose keys are not in the table yet. product: the dialect's name."""
    if product == "postgresql":
        from sqlalchemy.dialects import postgresql  # not above: who has SQLite does without it

        return postgresql.insert(table).on_conflict_do_nothing()
    return sqlite.insert(table).on_conflict_do_nothing()
