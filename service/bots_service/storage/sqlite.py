"""SQLite as the database: one process, one writer, a few readers. Nothing else to install or to run."""

import asyncio
import fcntl
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, TextIO, cast

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event, make_url
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.exc import DBAPIError

from bots_service.errors import StorageUnavailableError
from bots_service.storage.sql.database import OUR_FAULT, Job, Result, settle, sql_url, storage_errors

MOST_JOBS = 256  # in one transaction; more would make the first wait long for the last
READERS = 4  # reads hold the interpreter's lock most of the time: more threads than that would only wait for it

WRITER_PRAGMAS = (
    "journal_mode = WAL",  # readers see the last commit while the writer works
    "synchronous = FULL",  # a commit returns once it is on the disk
    "foreign_keys = ON",
    "busy_timeout = 5000",  # for backup tools; no other process of ours writes
)
READER_PRAGMAS = ("query_only = ON", "busy_timeout = 5000")


_Waiting = tuple[Job[Any], asyncio.Future[Any]]


class SqliteDatabase:
    """A Database in one file. Its tables are made by `migrate.upgrade`, before or after this is opened.

    One thread writes jobs in the order in which they came, and outlives whatever they do.
    """

    def __init__(self, url: str) -> None:
        """Lock the file, whose folder is made, and start the threads.

        Raises StorageUnavailableError: it names no file, another process has it, or its folder can't be written.
        """
        path = Path(sql_url(url).database or "")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = _locked(path)
        except OSError as error:
            raise StorageUnavailableError(f"{path.parent} can't be written: {error}") from error
        self._readable = _engine(url, READERS, READER_PRAGMAS, "BEGIN")
        self._writable = _engine(url, 1, WRITER_PRAGMAS, "BEGIN IMMEDIATE")
        self._writing: Connection | None = None
        self._waiting: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._writer = Thread(target=self._work, name="bots-writer", daemon=True)
        self._writer.start()
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="bots-reader")
        self._closed = False

    def write(self, job: Job[Result], *, alone: bool = False) -> asyncio.Future[Result]:  # noqa: ARG002
        """Put the job in line at once, and return what it will return, once that is committed to stable storage."""
        self._require_open()
        # The job is done even if the caller stops waiting.
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.put((job, answer))
        return answer

    def read(self, job: Job[Result]) -> asyncio.Future[Result]:
        """Return what the job will return; it sees everything committed before this call, and one state throughout."""
        self._require_open()
        return asyncio.get_running_loop().run_in_executor(self._readers, self._read, job)

    async def close(self) -> None:
        """Finish what is in line, then give the file back."""
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._finish)

    def _finish(self) -> None:
        self._waiting.put(None)
        self._writer.join()
        self._readers.shutdown()
        if self._writing is not None:
            self._writing.close()
        for engine in (self._writable, self._readable):
            engine.dispose()
        self._lock.close()

    def _require_open(self) -> None:
        if self._closed:
            raise StorageUnavailableError("the database is closed: the service is stopping")

    def _read(self, job: Job[Result]) -> Result:
        with storage_errors(), self._readable.connect() as connection:
            return _transact(connection, job)

    def _work(self) -> None:
        while (first := self._waiting.get()) is not None:
            batch = [first]
            while len(batch) < MOST_JOBS and not self._waiting.empty():
                if (other := self._waiting.get()) is None:
                    self._waiting.put(None)
                    break
                batch.append(other)
            self._commit(batch)

    def _commit(self, batch: list[_Waiting]) -> None:
        """Commit the jobs together; where one can't be done, each on its own, so that it hurts no other."""
        outcomes: list[Any]
        try:
            with storage_errors():
                if self._writing is None:
                    self._writing = self._writable.connect()
                outcomes = _transact(self._writing, lambda connection: [job(connection) for job, _ in batch])
        except StorageUnavailableError as error:
            outcomes = [copy(error) for _ in batch]  # one raised in several places tangles its traceback
        except Exception as error:
            if len(batch) > 1:
                for waiting in batch:
                    self._commit([waiting])
                return
            outcomes = [error]
        answers = [answer for _, answer in batch]
        with suppress(RuntimeError):  # the event loop ended meanwhile
            answers[0].get_loop().call_soon_threadsafe(_settle_all, answers, outcomes)


def _settle_all(answers: list[asyncio.Future[Any]], outcomes: list[Any]) -> None:
    for answer, outcome in zip(answers, outcomes, strict=True):
        settle(answer, outcome)


def _locked(database: Path) -> TextIO:
    """Return a file next to the database, `<name>.lock`, whose lock keeps a second process off until it is closed.

    It holds the process's id. It stays: removing it would let two processes lock two files of one name.

    Raises StorageUnavailableError: another process has it.
    """
    file = database.with_name(database.name + ".lock").open("a+", encoding="ascii")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        holder = file.read(20).strip()
        file.close()
        raise StorageUnavailableError(
            f"{database} is in use by process {holder or '?'}; only one process can use a SQLite file: "
            "stop that process, or name another file"
        ) from error
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def _transact(connection: Connection, job: Job[Result]) -> Result:
    """Return what a job returns, once it is committed; a connection in trouble is replaced when it is used again."""
    try:
        with connection.begin():
            return job(connection)
    except DBAPIError as error:
        if not isinstance(error, OUR_FAULT):
            connection.invalidate()
        raise


class BeginningDialect(SQLiteDialect_pysqlite):
    """SQLAlchemy's dialect, which begins transactions itself: the driver does so too late to read and write one state.

    statement: that begins one.
    """

    supports_statement_cache = True
    statement: str

    def do_begin(self, dbapi_connection: Any) -> None:
        dbapi_connection.execute(self.statement)


registry.register("sqlite.beginning", __name__, BeginningDialect.__name__)


def _engine(url: str, connections: int, pragmas: tuple[str, ...], begin: str) -> Engine:
    # Threads take turns at a connection.
    options = {"connect_args": {"check_same_thread": False}, "poolclass": QueuePool, "pool_reset_on_return": None}
    engine = create_engine(
        make_url(url).set(drivername="sqlite+beginning"), pool_size=connections, max_overflow=0, **options
    )
    cast("BeginningDialect", engine.dialect).statement = begin

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")

    return engine
