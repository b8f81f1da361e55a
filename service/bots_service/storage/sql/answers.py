"""First answers of writes that carried an idempotency key, kept in the write's own transaction."""

import time
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import Connection, Insert, Table, bindparam, insert, select
from sqlalchemy.dialects import postgresql, sqlite

from bots_service.errors import BusyError, KeyReusedError
from bots_service.ports.records import Answer, KeptAnswer
from bots_service.storage.sql.database import Database, Job
from bots_service.storage.sql.tables import answers


def insert_missing(connection: Connection, table: Table) -> Insert:
    """Return a statement that inserts the rows whose key is not in the table yet."""
    return _statement(connection.dialect.name, table)


@cache
def _statement(product: str, table: Table) -> Insert:
    insert = postgresql.insert if product == "postgresql" else sqlite.insert
    return insert(table).on_conflict_do_nothing()


Value = TypeVar("Value")

_FIND = select(answers.c.fingerprint, answers.c.status, answers.c.body).where(
    answers.c.scope == bindparam("scope"), answers.c.key == bindparam("key")
)
_INSERT = insert(answers)


class SqlAnswers:
    """An Answers."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        """Keep answers in a database; `clock` gives seconds since 1970, UTC."""
        self._database = database
        self._clock = clock

    async def find(self, scope: str, key: str) -> Answer | None:
        """Return what was answered under this key, None if it is new."""
        return await self._database.read(lambda connection: _found(connection, scope, key))

    async def keep(self, scope: str, key: str, answer: Answer) -> Answer:
        """Store the answer to a committed write before anybody gets it; return the one that is stored."""

        def job(connection: Connection) -> Answer:
            connection.execute(insert_missing(connection, answers), _row(scope, key, answer, self._clock()))
            return _found(connection, scope, key) or answer

        return await self._database.write(job)


def keeping_answer(
    job: Job[Value], keep: KeptAnswer[Value] | None, clock: Callable[[], float] = time.time
) -> Job[Value]:
    """Return the job so that it also keeps its answer, and is refused where one is kept.

    The job it returns raises:
        KeyReusedError: the key is known with another fingerprint.
        BusyError: the same request was answered meanwhile; asking again finds the answer.
    """
    if keep is None:
        return job

    def keeping(connection: Connection) -> Value:
        key, fingerprint = keep.key.key, keep.key.fingerprint
        first = _found(connection, keep.scope, key)
        if first is not None and first.fingerprint != fingerprint:
            raise KeyReusedError(f"idempotency key {key!r} was already used with a different request")
        if first is not None:
            raise BusyError("the same request was answered at the same time; repeat it to get the response")
        value = job(connection)
        rendered = keep.render(value)
        if rendered is not None:
            connection.execute(_INSERT, _row(keep.scope, key, Answer(fingerprint, *rendered), clock()))
        return value

    return keeping


def _row(scope: str, key: str, answer: Answer, now: float) -> dict[str, Any]:
    row = {"scope": scope, "key": key, "fingerprint": answer.fingerprint, "status": answer.status}
    return {**row, "body": answer.body, "created_at": now}


def _found(connection: Connection, scope: str, key: str) -> Answer | None:
    row = connection.execute(_FIND, {"scope": scope, "key": key}).one_or_none()
    return None if row is None else Answer(row.fingerprint, row.status, row.body)
