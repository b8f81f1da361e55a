"""First answers of writes that carried an idempotency key, kept in the write's own transaction."""

import time
from dataclasses import asdict
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, insert, select

from bots_service.errors import BusyError, DamagedStateError, KeyReusedError
from bots_service.records import Answer, IdempotencyKey
from bots_service.storage.sql.database import Job, SqlRow
from bots_service.storage.sql.store import Store, insert_missing, reading, writing
from bots_service.storage.sql.tables import answers

Value = TypeVar("Value")


class SqlAnswers(Store):
    """The first answers of writes that carried an idempotency key, as JSON. They come back equal."""

    @reading
    def find(self, connection: Connection, scope: str, key: str, kind: type[Value]) -> Answer[Value] | None:
        """Return what was answered under this key, None if it is new."""
        row = _found(connection, scope, key)
        return None if row is None else Answer(row.fingerprint, _result_of(row, kind))

    @writing
    def keep(self, connection: Connection, idempotency_key: IdempotencyKey | None, result: Value) -> Value:
        """Keep the result of a committed write before anybody gets it; return the one that is kept."""
        if idempotency_key is None:
            return result
        connection.execute(insert_missing(connection.dialect.name, answers), _row(idempotency_key, result, time.time()))
        row = _standing(connection, idempotency_key)
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
        connection.execute(insert(answers), _row(idempotency_key, result, now))


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
    kept = select(answers.c.fingerprint, answers.c.result).where(answers.c.scope == scope, answers.c.key == key)
    return connection.execute(kept).one_or_none()


def _row(idempotency_key: IdempotencyKey, result: object, now: float) -> dict[str, Any]:
    text = msgspec.json.encode(result).decode()
    return {**asdict(idempotency_key), "result": text, "created_at": now}


def _result_of(row: SqlRow, kind: type[Value]) -> Value:
    try:
        return msgspec.json.decode(row.result, type=kind)
    except msgspec.MsgspecError as error:
        raise DamagedStateError(f"a kept answer can't be read: {error}") from error
