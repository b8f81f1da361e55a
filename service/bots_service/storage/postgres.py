"""PostgreSQL as the database: many processes on one truth. A server that is away or hangs never hangs a caller."""

import asyncio
import math
import os
import random
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from contextvars import Context
from threading import Lock, local
from typing import Any, cast

import psycopg
from sqlalchemy import URL, Connection, Engine, ExecutionContext, QueuePool, Transaction, create_engine, event
from sqlalchemy.exc import DBAPIError

from bots_service.errors import StorageUnavailableError
from bots_service.storage.sql.database import UNANSWERED, Job, Result, storage_errors
from bots_service.storage.sql.url import ENCODING, sql_url


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


class _Connection(psycopg.Connection[Any]):
    """A driver's connection with its lifeline.

    In a transaction statements are sent together, as soon as an answer is needed: BEGIN with the first one, COMMIT with
    the last ones.

    is_pooled: something like PgBouncer gives us another connection to the server for each transaction.
    """

    lifeline: Lifeline
    is_pooled: bool
    _sent: ExitStack
    _unanswered: psycopg.Pipeline

    @contextmanager
    def sending_together(self) -> Iterator[None]:
        """Send the statements of one transaction together."""
        with ExitStack() as self._sent:
            self._unanswered = self._sent.enter_context(self.pipeline())
            yield

    def await_answers(self) -> None:
        """Send what was not sent yet, and wait for the answers to all of it."""
        self._unanswered.sync()

    def commit(self) -> None:
        """Commit; one trip for this and all that was not sent yet."""
        self.execute("COMMIT")
        self._sent.close()

    def close(self) -> None:
        """Close both."""
        super().close()
        self.lifeline.close()


# Whatever the server's default is: the locks are made for the first, and a read sees one state throughout.
WRITING, READING = "BEGIN ISOLATION LEVEL READ COMMITTED", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


def postgres_engine(address: str, *, pool_size: int, timeout_s: float, opened: Callable[[Lifeline], None]) -> Engine:
    """Return an engine with a pool.

    Args:
        address: `postgresql://` and so on; what it says of waiting counts more than `timeout_s`.
        pool_size: how many connections there are at most.
        timeout_s: longest wait for an answer, for a lock, and for the next statement of a transaction.
        opened: called with each new connection before its first use, in the thread that opened it.
    """
    url = sql_url(address)
    limits = _limits(url, timeout_s)
    engine = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=pool_size,
        max_overflow=0,
        use_native_hstore=False,  # would ask the server for a type that no table has
        connect_args=_arguments(url, timeout_s),
    )

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, arguments: Any, named_arguments: dict[str, Any]) -> _Connection:
        connection = _Connection.connect(*arguments, **named_arguments)
        connection.lifeline = Lifeline(connection.fileno())
        opened(connection.lifeline)
        connection.is_pooled = _prepared(connection, limits)
        return connection

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        statement = connection.get_execution_options().get("begin", WRITING)
        connection.exec_driver_sql(statement, execution_options=UNANSWERED)
        if _driver(connection).is_pooled:
            settings = f"SELECT {_settings(limits, until_commit=True)}"
            connection.exec_driver_sql(settings, execution_options=UNANSWERED)

    @event.listens_for(engine, "after_cursor_execute")
    def sent(
        connection: Connection, _cursor: Any, _statement: str, _parameters: Any, context: ExecutionContext, _many: bool
    ) -> None:
        if not context.execution_options.keys() & UNANSWERED.keys():
            _driver(connection).await_answers()

    return engine


def _driver(connection: Connection) -> _Connection:
    return cast("_Connection", connection.connection.dbapi_connection)


def _prepared(connection: _Connection, limits: dict[str, int]) -> bool:
    """Set the limits of what the server waits for; return whether a pooler is in between.

    One tells a process id that is not the server's. What is set or prepared on the server would reach others who get
    the same connection from it, so the limits are set in each transaction, and no statement is prepared.
    """
    connection.autocommit = True  # we begin transactions ourselves: the driver would wait for the answer
    ours = connection.info.backend_pid
    asked = f"SELECT pg_backend_pid(), CASE pg_backend_pid() WHEN {ours} THEN {_settings(limits)} END"
    row = connection.execute(asked).fetchone()
    is_pooled = row is None or row[0] != ours
    if is_pooled:
        connection.prepare_threshold = None
    return is_pooled


def _settings(limits: dict[str, int], *, until_commit: bool = False) -> str:
    """Return an expression that sets the limits."""
    scope = "true" if until_commit else "false"
    return " || ".join(f"set_config('{name}', '{value}', {scope})" for name, value in limits.items()) or "NULL"


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
    """A job that a thread may be doing. lifeline: of its connection, while it has one."""

    def __init__(self, job: Job[Any], *, is_read: bool) -> None:
        self.job, self.is_read, self.is_over = job, is_read, False
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

        Args:
            url: `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`.
            pool_size: connections, and threads, at most.
            timeout_s: longest life of a job, from when it is put in line.
        """
        self._pool_size, self._timeout_s = pool_size, timeout_s
        self._of_thread = local()
        self._jobs: set[asyncio.Task[Any]] = set()  # in line, or under way
        self._running: set[_Running] = set()
        self._writing = postgres_engine(url, pool_size=pool_size, timeout_s=timeout_s, opened=self._opened)
        self._reading = self._writing.execution_options(begin=READING)
        self._threads = ThreadPoolExecutor(pool_size, thread_name_prefix="bots-sql")
        self._closed = False

    @property
    def in_use(self) -> int:
        """How many jobs are being done just now."""
        return len(self._running)

    def write(self, job: Job[Result]) -> asyncio.Future[Result]:
        """Put the job in line at once, and return what it will return, once that is committed to stable storage."""
        return self._put(_Running(job, is_read=False))

    def read(self, job: Job[Result]) -> asyncio.Future[Result]:
        """Return what the job will return; it sees everything committed before this call, and one state throughout."""
        return self._put(_Running(job, is_read=True))

    async def close(self) -> None:
        """Finish what is in line, then close the connections."""
        self._closed = True
        await asyncio.gather(*self._jobs, return_exceptions=True)
        await asyncio.to_thread(self._threads.shutdown)
        self._writing.dispose()

    def _put(self, running: _Running) -> asyncio.Future[Any]:
        if self._closed:
            raise StorageUnavailableError("the database is closed: the service is stopping")
        if len(self._jobs) >= self._pool_size + MOST_WAITING:
            raise StorageUnavailableError(f"{MOST_WAITING} calls already wait for the database")
        # A task of its own: it is done even if the caller stops waiting.
        task = asyncio.get_running_loop().create_task(self._in_time(running), context=Context())
        self._jobs.add(task)
        task.add_done_callback(self._settled)
        return asyncio.shield(task)

    def _settled(self, task: asyncio.Task[Any]) -> None:
        self._jobs.discard(task)
        if not task.cancelled():
            task.exception()  # its caller may have stopped waiting

    async def _in_time(self, running: _Running) -> Any:
        loop = asyncio.get_running_loop()
        done = loop.run_in_executor(self._threads, self._work, running)
        finished, _ = await asyncio.wait([done], timeout=self._timeout_s)
        if finished:
            return done.result()
        done.cancel()  # nobody begins it any more
        running.end()
        raise StorageUnavailableError(f"the database did not answer in {self._timeout_s:g} s")

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
        engine = self._reading if job.is_read else self._writing
        with engine.connect() as connection:
            driver = _driver(connection)
            job.hold(driver.lifeline)
            try:
                with driver.sending_together(), connection.begin() as transaction:
                    result = job.job(connection)
                    if not job.is_read:
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
