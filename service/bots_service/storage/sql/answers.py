"""First answers of writes that carried an idempotency key, kept in the write's own transaction."""

import time
from dataclasses import asdict
from functools import cache
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, Insert, Table, bindparam, insert, select
from sqlalchemy.dialects import sqlite

from bots_service.errors import BusyError, DamagedStateError, KeyReusedError
from bots_service.records import Answer, IdempotencyKey
from bots_service.storage.sql.database import Database, Job, SqlRow
from bots_service.storage.sql.tables import answers


def insert_missing(connection: Connection, table: Table) -> Insert:
    """Return a statement that inserts the rows whose key is not in the table yet."""
    return _statement(connection.dialect.name, table)


@cache
def _statement(product: str, table: Table) -> Insert:
    if product == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table).on_conflict_do_nothing()
    return sqlite.insert(table).on_conflict_do_nothing()


Value = TypeVar("Value")

_FIND = select(answers.c.fingerprint, answers.c.result).where(
    answers.c.scope == bindparam("scope"), answers.c.key == bindparam("key")
)
_INSERT = insert(answers)


class SqlAnswers:
    """The first answers of writes that carried an idempotency key, as JSON. They come back equal."""

    def __init__(self, database: Database) -> None:
        """Keep answers in a database."""
        self._database = database

    async def find(self, scope: str, key: str, kind: type[Value]) -> Answer[Value] | None:
        """Return what was answered under this key, None if it is new."""
        row = await self._database.read(lambda connection: _found(connection, scope, key))
        return None if row is None else Answer(row.fingerprint, _result_of(row, kind))

    async def keep(self, idempotency_key: IdempotencyKey | None, result: Value) -> Value:
        """Keep the result of a committed write before anybody gets it; return the one that is kept."""
        if idempotency_key is None:
            return result

        def job(connection: Connection) -> SqlRow | None:
            connection.execute(insert_missing(connection, answers), _row(idempotency_key, result, time.time()))
            return _standing(connection, idempotency_key)

        row = await self._database.write(job)
        return result if row is None else _result_of(row, type(result))


def require_unanswered(connection: Connection, idempotency_key: IdempotencyKey | None) -> None:
    """Check that nothing is kept under the key yet.

    Raises:
        KeyReusedError: the key came with another request before.
        BusyError: the same request was answered meanwhile; asking again finds the answer.
    """
    if idempotency_key is not None and _standing(connection, idempotency_key) is not None:
        raise BusyError("the same request was answered at the same time; repeat it to get the response")


def keep_result(connection: Connection, idempotency_key: IdempotencyKey | None, result: object, now: float) -> None:
    """Keep a write's result under its key, in the write's transaction; without a key, nothing."""
    if idempotency_key is not None:
        connection.execute(_INSERT, _row(idempotency_key, result, now))


def keeping_result(job: Job[Value], idempotency_key: IdempotencyKey | None) -> Job[Value]:
    """Return the job so that it also keeps its result, and is refused as `require_unanswered` says."""

    def keeping(connection: Connection) -> Value:
        require_unanswered(connection, idempotency_key)
        value = job(connection)
        keep_result(connection, idempotency_key, value, time.time())
        return value

    return keeping


def _standing(connection: Connection, idempotency_key: IdempotencyKey) -> SqlRow | None:
    """Return what is kept under the key already.

    Raises:
        KeyReusedError: the key came with another request before.
    """
    row = _found(connection, idempotency_key.scope, idempotency_key.key)
    if row is not None and row.fingerprint != idempotency_key.fingerprint:
        raise KeyReusedError(f"idempotency key {idempotency_key.key!r} was already used with a different request")
    return row


def _found(connection: Connection, scope: str, key: str) -> SqlRow | None:
    return connection.execute(_FIND, {"scope": scope, "key": key}).one_or_none()


def _row(idempotency_key: IdempotencyKey, result: object, now: float) -> dict[str, Any]:
    text = msgspec.json.encode(result).decode()
    return {**asdict(idempotency_key), "result": text, "created_at": now}


def _result_of(row: SqlRow, kind: type[Value]) -> Value:
    try:
        return msgspec.json.decode(row.result, type=kind)
    except msgspec.MsgspecError as error:
        raise DamagedStateError(f"a kept answer can't be read: {error}") from error
