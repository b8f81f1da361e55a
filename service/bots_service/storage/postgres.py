"""PostgreSQL as the database: many processes on one truth. A server that is away or hangs never hangs a caller."""

import asyncio
import math
import random
import time
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any, cast

import psycopg
from sqlalchemy import URL, QueuePool, Transaction, create_engine
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.exc import DBAPIError

from bots_service.errors import StorageUnavailableError
from bots_service.storage.sql.database import ENCODING, UNANSWERED, Job, Result, settle, sql_url, storage_errors

# Whatever the server's default is: the locks are made for the first, and a read sees one state throughout.
WRITING, READING = "BEGIN ISOLATION LEVEL READ COMMITTED", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class PipelinedConnection(psycopg.Connection[Any]):
    """A driver's connection that sends statements together, as soon as an answer is needed, and waits till a deadline.

    So BEGIN travels with the first statement of a transaction, and COMMIT with the last ones.

    deadline: when it ends what it waits for, by `time.monotonic`.
    limits: statement that sets what the server may wait for until the transaction ends; None where that is set for all
        transactions.
    begins: statement that begins the next transaction; None: it is one statement, which the server commits with its
        answer.
    """

    deadline: float
    limits: str | None
    begins: str | None
    _answers: psycopg.Pipeline | None = None

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._together = ExitStack()

    def wait(self, gen: Generator[Any, Any, Result], *arguments: Any, **named: Any) -> Result:
        """Wait for the server; the driver looks up ten times a second."""
        return super().wait(self._in_time(gen), *arguments, **named)

    def _in_time(self, waiting: Generator[Any, Any, Result]) -> Generator[Any, Any, Result]:
        """Go on until the deadline, then close the connection. Nothing is sent to the server.

        Asking it to cancel instead would let a commit that waits for a standby return as if that had it.
        """
        ready = None
        try:
            while time.monotonic() < self.deadline:
                ready = yield waiting.send(ready)
        except StopIteration as end:
            return cast("Result", end.value)
        self.pgconn.finish()
        raise psycopg.OperationalError("it took too long")

    def begin(self) -> None:
        """Begin a transaction; nothing is sent yet.

        A single statement is sent without a pipeline, in which it would take two packets each way.
        """
        if self.begins is None and self.limits is None:
            self._together.close()
            self._answers = None
            return
        if self._answers is None:
            self._answers = self._together.enter_context(self.pipeline())
        if self.begins is not None:
            self.execute(self.begins)
        if self.limits is not None:
            self.execute(self.limits)

    def await_answers(self) -> None:
        """Send what was not sent yet, and wait for the answers to all of it."""
        if self._answers is not None:
            self._answers.sync()

    def commit(self) -> None:
        """Commit; one trip for this and all that was not sent yet."""
        if self.begins is not None:
            self.execute("COMMIT")
            self.await_answers()

    def close(self) -> None:
        super().close()
        with suppress(psycopg.Error):  # a closed connection answers nothing any more
            self._together.close()


class PipelinedDialect(PGDialect_psycopg):
    """SQLAlchemy's dialect of psycopg, on such connections. Execution options say which answers nobody needs.

    Methods, not events: for each statement of an engine with any event, SQLAlchemy looks for listeners of all events.

    timeout_s: for what a new connection is asked first.
    limits: of what the server waits for, in ms.
    """

    supports_statement_cache = True
    timeout_s: float
    limits: dict[str, int]

    def connect(self, *arguments: Any, **named: Any) -> Any:
        connection = PipelinedConnection.connect(*arguments, **named)
        connection.begins, connection.deadline = None, time.monotonic() + self.timeout_s
        connection.limits = f"SELECT {_settings(self.limits, 'true')}" if _prepared(connection, self.limits) else None
        return connection

    def do_begin(self, dbapi_connection: Any) -> None:
        dbapi_connection.begin()

    def do_execute(self, cursor: Any, statement: Any, parameters: Any, context: Any = None) -> None:
        """Send a statement, now or later, and wait for its answer if somebody needs it."""
        super().do_execute(cursor, statement, parameters, context)  # type: ignore[no-untyped-call]
        self._answered(cursor, context)

    def do_executemany(self, cursor: Any, statement: Any, parameters: Any, context: Any = None) -> None:
        super().do_executemany(cursor, statement, parameters, context)  # type: ignore[no-untyped-call]
        self._answered(cursor, context)

    def _answered(self, cursor: Any, context: Any) -> None:
        if context is None or not context.execution_options.keys() & UNANSWERED.keys():
            cursor.connection.await_answers()


registry.register("postgresql.pipelined", __name__, PipelinedDialect.__name__)


def _prepared(connection: PipelinedConnection, limits: dict[str, int]) -> bool:
    """Set the limits of what the server waits for; return whether a pooler is in between.

    One tells a process id that is not the server's. What is set or prepared on the server would reach others who get
    the same connection from it, so the limits are set in each transaction, and no statement is prepared.
    """
    connection.autocommit = True  # we begin transactions ourselves: the driver would wait for the answer
    ours = connection.info.backend_pid
    asked = f"SELECT pg_backend_pid(), CASE pg_backend_pid() WHEN {ours} THEN {_settings(limits, 'false')} END"
    row = connection.execute(asked).fetchone()
    is_pooled = row is None or row[0] != ours
    if is_pooled:
        connection.prepare_threshold = None
    return is_pooled


def _settings(limits: dict[str, int], until_commit: str) -> str:
    return " || ".join(f"set_config('{name}', '{value}', {until_commit})" for name, value in limits.items()) or "NULL"


def _limits(url: URL, timeout_s: float) -> dict[str, int]:
    """Return what the server may wait for, in ms: it ends what we no longer wait for, so that its locks are free.

    Not as options of the connection: PgBouncer refuses those.
    """
    names = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
    said = str(url.query.get("options", ""))
    return {name: math.ceil(timeout_s * 1000) for name in names if name not in said}


def _arguments(url: URL, timeout_s: float) -> dict[str, Any]:
    """Return the driver's arguments: what the address does not say itself."""
    arguments = {
        "application_name": "bots",
        "connect_timeout": max(2, math.ceil(timeout_s)),  # the driver takes a shorter one for 2
        "keepalives_idle": 10,  # then every 5 s, thrice: a connection to nobody ends in half a minute
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": math.ceil(timeout_s * 1000),
        "client_encoding": ENCODING,
    }
    return {name: value for name, value in arguments.items() if name not in url.query}


# Errors by SQLSTATE after which a job is run again: https://www.postgresql.org/docs/current/errcodes-appendix.html
_AGAIN = {
    "40P01",  # a deadlock: the other transaction continues
    "23505",  # a unique key is taken: the next look finds whose it is, and answers properly
}
MOST_TRIES = 6


class PostgresDatabase:
    """A Database on a server. Its tables are made by `migrate.upgrade`."""

    def __init__(self, url: str, *, pool_size: int, timeout_s: float) -> None:
        """Open no connection yet: they are opened as they are needed.

        pool_size: connections, and threads, at most.
        timeout_s: longest life of a job, from when it is put in line; also of each wait of the server, unless the
            address says another.
        """
        self._timeout_s, self._closed = timeout_s, False
        address = sql_url(url)
        self._engine = create_engine(
            address.set(drivername="postgresql+pipelined"),
            poolclass=QueuePool,
            pool_size=pool_size,
            max_overflow=0,
            pool_reset_on_return=None,  # each transaction has ended; asking again would be one more trip
            use_native_hstore=False,  # would ask the server for a type that no table has
            connect_args=_arguments(address, timeout_s),
        )
        dialect = cast("PipelinedDialect", self._engine.dialect)
        dialect.timeout_s, dialect.limits = timeout_s, _limits(address, timeout_s)
        self._threads = ThreadPoolExecutor(pool_size, thread_name_prefix="bots-sql")

    def write(self, job: Job[Result], *, alone: bool = False) -> asyncio.Future[Result]:
        """Put the job in line at once, and return what it will return, once that is committed to stable storage."""
        return self._put(job, None if alone else WRITING)

    def read(self, job: Job[Result]) -> asyncio.Future[Result]:
        """Return what the job will return; it sees everything committed before this call, and one state throughout."""
        return self._put(job, READING)

    async def close(self) -> None:
        """Finish what is in line, then close the connections."""
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown)
        self._engine.dispose()

    def _put(self, job: Job[Result], begins: str | None) -> asyncio.Future[Result]:
        if self._closed:
            raise StorageUnavailableError("the database is closed: the service is stopping")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Result] = loop.create_future()  # the job is done even if the caller stops waiting
        done = self._threads.submit(self._do, job, begins, time.monotonic() + self._timeout_s)
        timeout = loop.call_later(self._timeout_s, self._give_up, done, answer)
        done.add_done_callback(lambda done: loop.call_soon_threadsafe(_settle, done, answer, timeout))
        return answer

    def _give_up(self, done: Future[Any], answer: asyncio.Future[Any]) -> None:
        settle(answer, self._too_late())
        done.cancel()  # nobody begins it any more

    def _too_late(self) -> StorageUnavailableError:
        return StorageUnavailableError(f"the database did not answer in {self._timeout_s:g} s")

    def _do(self, job: Job[Result], begins: str | None, deadline: float) -> Result:
        """Return what the job returns, once it is committed; where that may help, run it again.

        A connection that broke before COMMIT mostly idled while the server was restarted.
        """
        tries = 0
        with storage_errors():
            while True:
                tries += 1
                try:
                    return self._transact(job, begins, deadline)
                except DBAPIError as error:
                    may_help = error.connection_invalidated or getattr(error.orig, "sqlstate", None) in _AGAIN
                    if may_help and time.monotonic() >= deadline:  # the driver's wait may end before the caller's
                        raise self._too_late() from error
                    if not may_help or tries == MOST_TRIES:
                        raise
                # Two that met once would meet again if both came back at once.
                time.sleep(random.uniform(0, 0.01) * 2**tries)  # noqa: S311 - no secret

    def _transact(self, job: Job[Result], begins: str | None, deadline: float) -> Result:
        with self._engine.connect() as connection:
            driver = cast("PipelinedConnection", connection.connection.dbapi_connection)
            driver.begins, driver.deadline = begins, deadline
            with connection.begin() as transaction:
                result = job(connection)
                if begins == WRITING:
                    _commit(transaction)
            return result


def _settle(done: Future[Any], answer: asyncio.Future[Any], timeout: asyncio.TimerHandle) -> None:
    timeout.cancel()
    if not answer.done():  # else the job may have been cancelled, and came to nothing
        settle(answer, done.exception() or done.result())


def _commit(transaction: Transaction) -> None:
    """Commit. Raises StorageUnavailableError: the connection broke; running the job again might do it twice."""
    try:
        transaction.commit()
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
        raise StorageUnavailableError(
            f"the connection broke during the commit, so the change may or may not be stored: {error.orig}"
        ) from error
