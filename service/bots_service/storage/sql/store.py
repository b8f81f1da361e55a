"""What each store of something is: calls, most of which are one job on the database; and the answers to them."""

import time
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from functools import cache, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec
from sqlalchemy import Connection, Insert, Table, delete, insert, select
from sqlalchemy.dialects import sqlite

from bots_service.errors import BusyError, DamagedStateError
from bots_service.records import Answer, Capacity, IdempotencyKey
from bots_service.retention import ANSWERS_S
from bots_service.storage.sql.database import Database, Result, SqlRow
from bots_service.storage.sql.tables import answers

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")


class Store:
    """Some of what is kept in a database. What can't be read, or was altered, raises DamagedStateError."""

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


def require_unanswered(connection: Connection, idempotency_key: IdempotencyKey | None) -> None:
    """Check that nothing is kept under the key yet.

    Raises KeyReusedError: the key came with another request before; BusyError: the same request was answered meanwhile;
    asking again finds the answer.
    """
    if idempotency_key is None:
        return
    if (row := _found(connection, idempotency_key.scope, idempotency_key.key)) is not None:
        idempotency_key.require_same(row.fingerprint)
        raise BusyError("the same request was answered at the same time; repeat it to get the response")


def keep_result(connection: Connection, idempotency_key: IdempotencyKey | None, result: object) -> None:
    """Keep a write's result under its key, in the write's transaction; without a key, nothing."""
    if idempotency_key is not None:
        text = msgspec.json.encode(result).decode()
        row = {**asdict(idempotency_key), "result": text, "created_at": time.time()}
        connection.execute(insert(answers), row)


def _found(connection: Connection, scope: str, key: str) -> SqlRow | None:
    kept = select(answers.c.fingerprint, answers.c.result).where(answers.c.scope == scope, answers.c.key == key)
    return connection.execute(kept).one_or_none()


def writing_once(job: Jobs[Own, Arguments, Result]) -> Call[Own, Concatenate[IdempotencyKey | None, Arguments], Result]:
    """Make a store's job a call that is one transaction and keeps its result under an idempotency key, given first.

    It is refused as `require_unanswered` says.
    """

    @wraps(job)
    async def write(
        store: Own, key: IdempotencyKey | None, /, *arguments: Arguments.args, **named: Arguments.kwargs
    ) -> Result:
        def once(connection: Connection) -> Result:
            require_unanswered(connection, key)
            result = job(store, connection, *arguments, **named)
            keep_result(connection, key, result)
            return result

        return await store.database.write(once)

    return write


class SqlAnswers(Store):
    """The first answers of writes that carried an idempotency key, as JSON. They come back equal."""

    @reading
    def find(self, connection: Connection, scope: str, key: str, kind: type[Value]) -> Answer[Value] | None:
        """Return what was answered under this key, None if it is new."""
        row = _found(connection, scope, key)
        try:
            return None if row is None else Answer(row.fingerprint, msgspec.json.decode(row.result, type=kind))
        except msgspec.MsgspecError as error:
            raise DamagedStateError(f"a kept answer can't be read: {error}") from error

    @writing_once
    def keep(self, connection: Connection, result: Value) -> Value:  # noqa: ARG002
        return result

    @writing
    def delete_old(self, connection: Connection, now: float) -> None:
        """Delete the answers that no client asks for any more. now: seconds since 1970, UTC."""
        connection.execute(delete(answers).where(answers.c.created_at < now - ANSWERS_S))
