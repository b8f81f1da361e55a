"""PostgreSQL as the database: many processes on one truth. A server that is away or hangs never hangs a caller."""

import asyncio
import math
import os
import random
import socket
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from threading import Lock, local
from typing import Any, cast

import psycopg
from sqlalchemy import URL, QueuePool, Transaction, create_engine
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.exc import DBAPIError

from bots_service.errors import StorageUnavailableError
from bots_service.storage.sql.database import ENCODING, UNANSWERED, Job, Result, settle, sql_url, storage_errors


class Lifeline:
    """A second hold on a connection's socket, so that another thread can end what the first waits for."""

    def __init__(self, descriptor: int) -> None:
        """Hold a socket by its descriptor. A copy: the descriptor itself may soon be another file's."""
        self._socket = socket.socket(fileno=os.dup(descriptor))
        self._lock = Lock()

    def cut(self) -> None:
        """End the connection: a thread that waits for it gets an error at once. Nothing is sent to the server.

        Asking it to cancel instead would let a commit that waits for a standby return as if that had it.
        """
        with self._lock, suppress(OSError):  # it was closed, or the other side ended it
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let the socket go."""
        with self._lock:
            self._socket.close()


# Whatever the server's default is: the locks are made for the first, and a read sees one state throughout.
WRITING, READING = "BEGIN ISOLATION LEVEL READ COMMITTED", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class PipelinedConnection(psycopg.Connection[Any]):
    """A driver's connection that sends statements together, as soon as an answer is needed.

    So BEGIN travels with the first statement of a transaction, and COMMIT with the last ones.

    lifeline: to end it from another thread.
    limits: statement that sets what the server may wait for until the transaction ends; None where that is set for all
        transactions.
    begins: statement that begins the next transaction; None: it is one statement, which the server commits with its
        answer.
    """

    lifeline: Lifeline
    limits: str | None
    begins: str | None
    _answers: psycopg.Pipeline | None = None

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._until_closed = ExitStack()

    def begin(self) -> None:
        """Begin a transaction; nothing is sent yet."""
        if self._answers is None:
            self._answers = self._until_closed.enter_context(self.pipeline())
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
        """Close both."""
        super().close()
        with suppress(psycopg.Error):  # a closed connection answers nothing any more
            self._until_closed.close()
        self.lifeline.close()


class PipelinedDialect(PGDialect_psycopg):
    """SQLAlchemy's dialect of psycopg, on such connections. Execution options say which answers nobody needs.

    Methods, not events: for each statement of an engine with any event, SQLAlchemy looks for listeners of all events.

    opened: called with each new connection before its first use, in the thread that opened it.
    limits: of what the server waits for, in ms.
    """

    supports_statement_cache = True
    opened: Callable[[Lifeline], None]
    limits: dict[str, int]

    def connect(self, *arguments: Any, **named: Any) -> Any:
        """Return a new connection."""
        connection = PipelinedConnection.connect(*arguments, **named)
        connection.begins = None
        connection.lifeline = Lifeline(connection.fileno())
        self.opened(connection.lifeline)
        connection.limits = f"SELECT {_settings(self.limits, 'true')}" if _prepared(connection, self.limits) else None
        return connection

    def do_begin(self, dbapi_connection: Any) -> None:
        """Begin a transaction."""
        dbapi_connection.begin()

    def do_execute(self, cursor: Any, statement: Any, parameters: Any, context: Any = None) -> None:
        """Send a statement, now or later, and wait for its answer if somebody needs it."""
        super().do_execute(cursor, statement, parameters, context)  # type: ignore[no-untyped-call]
        self._answered(cursor, context)

    def do_executemany(self, cursor: Any, statement: Any, parameters: Any, context: Any = None) -> None:
        """Send a statement with several rows."""
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


MOST_WAITING = 1000  # one more would only wait for its deadline

# Errors by SQLSTATE after which a job is run again, and how often: https://www.postgresql.org/docs/current/errcodes-appendix.html
_AGAIN = {
    "40P01": 5,  # a deadlock: the other transaction continues
    "40001": 5,  # no serial order
    "23505": 1,  # a unique key is taken: the second look finds whose it is, and answers properly
}
_LOST = "lost"  # a connection that broke before COMMIT, mostly one that idled while the server was restarted


class _Running:
    """A job that a thread may be doing, in a transaction that begins so. lifeline: of its connection, if it has one."""

    def __init__(self, job: Job[Any], begins: str | None) -> None:
        self.job, self.begins, self.is_over = job, begins, False
        self._lock = Lock()
        self._lifeline: Lifeline | None = None

    def hold(self, lifeline: Lifeline | None) -> None:
        """Remember the connection that the job is done on, to cut it when the job's time is over; None: none now."""
        with self._lock:
            self._lifeline = lifeline
            if self.is_over and lifeline is not None:
                lifeline.cut()

    def end(self) -> None:
        """Free the thread: cut the connection."""
        with self._lock:
            self.is_over = True
            if self._lifeline is not None:
                self._lifeline.cut()


class PostgresDatabase:
    """A Database on a server. Its tables are made by `migrate.upgrade`."""

    def __init__(self, url: str, *, pool_size: int, timeout_s: float) -> None:
        """Open no connection yet: they are opened as they are needed.

        pool_size: connections, and threads, at most.
        timeout_s: longest life of a job, from when it is put in line; also of each wait of the server, unless the
            address says another.
        """
        self._pool_size, self._timeout_s = pool_size, timeout_s
        self._of_thread = local()
        self._jobs = 0  # in line, or under way
        self._running: set[_Running] = set()
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
        dialect.opened, dialect.limits = self._opened, _limits(address, timeout_s)
        self._threads = ThreadPoolExecutor(pool_size, thread_name_prefix="bots-sql")
        self._closed = False

    @property
    def in_use(self) -> int:
        """How many jobs are being done just now."""
        return len(self._running)

    def write(self, job: Job[Result], *, alone: bool = False) -> asyncio.Future[Result]:
        """Put the job in line at once, and return what it will return, once that is committed to stable storage."""
        return self._put(_Running(job, None if alone else WRITING))

    def read(self, job: Job[Result]) -> asyncio.Future[Result]:
        """Return what the job will return; it sees everything committed before this call, and one state throughout."""
        return self._put(_Running(job, READING))

    async def close(self) -> None:
        """Finish what is in line, then close the connections."""
        self._closed = True
        await asyncio.to_thread(self._threads.shutdown)
        self._engine.dispose()

    def _put(self, running: _Running) -> asyncio.Future[Any]:
        if self._closed:
            raise StorageUnavailableError("the database is closed: the service is stopping")
        if self._jobs >= self._pool_size + MOST_WAITING:
            raise StorageUnavailableError(f"{MOST_WAITING} calls already wait for the database")
        loop, self._jobs = asyncio.get_running_loop(), self._jobs + 1
        answer: asyncio.Future[Any] = loop.create_future()  # the job is done even if the caller stops waiting
        done = self._threads.submit(self._work, running)
        timeout = loop.call_later(self._timeout_s, self._give_up, running, done, answer)
        done.add_done_callback(lambda done: loop.call_soon_threadsafe(self._settle, done, answer, timeout))
        return answer

    def _settle(self, done: Future[Any], answer: asyncio.Future[Any], timeout: asyncio.TimerHandle) -> None:
        self._jobs -= 1
        timeout.cancel()
        if not answer.done():  # else the job may have been cancelled, and came to nothing
            settle(answer, done.exception() or done.result())

    def _give_up(self, running: _Running, done: Future[Any], answer: asyncio.Future[Any]) -> None:
        settle(answer, StorageUnavailableError(f"the database did not answer in {self._timeout_s:g} s"))
        running.end()
        done.cancel()  # nobody begins it any more

    def _work(self, running: _Running) -> Any:
        self._of_thread.job = running
        self._running.add(running)
        try:
            with storage_errors():
                return self._do(running)
        finally:
            self._running.discard(running)

    def _do(self, job: _Running) -> Any:
        """Return what the job returns, once it is committed; where that may help, run it again."""
        tries: dict[str, int] = {}
        while True:
            try:
                return self._transact(job)
            except DBAPIError as error:
                cause = _LOST if error.connection_invalidated else str(getattr(error.orig, "sqlstate", None))
                tries[cause] = tries.get(cause, 0) + 1
                if job.is_over or tries[cause] > {**_AGAIN, _LOST: 1}.get(cause, 0):
                    raise
                # Two that met once would meet again if both came back at once.
                time.sleep(random.uniform(0, 0.01) * 2 ** tries[cause])  # noqa: S311 - no secret

    def _transact(self, job: _Running) -> Any:
        with self._engine.connect() as connection:
            driver = cast("PipelinedConnection", connection.connection.dbapi_connection)
            driver.begins = job.begins
            job.hold(driver.lifeline)
            try:
                with connection.begin() as transaction:
                    result = job.job(connection)
                    if job.begins == WRITING:
                        _commit(transaction)
                return result
            finally:
                job.hold(None)

    def _opened(self, lifeline: Lifeline) -> None:
        """Let a connection that this thread just opened be cut: preparing it asks the server, too."""
        self._of_thread.job.hold(lifeline)


def _commit(transaction: Transaction) -> None:
    """Commit.

    Raises:
        StorageUnavailableError: the connection broke; running the job again might do it twice.
    """
    try:
        transaction.commit()
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
        raise StorageUnavailableError(
            f"the connection broke during the commit, so the change may or may not be stored: {error.orig}"
        ) from error
