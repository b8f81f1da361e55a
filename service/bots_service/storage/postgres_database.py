"""PostgreSQL as the database: many processes on one truth. A server that is away or hangs never hangs a caller."""

import asyncio
import random
import time
from dataclasses import dataclass
from threading import Event, Thread, local
from typing import Any

from sqlalchemy import Transaction
from sqlalchemy.exc import DBAPIError

from bots_service.errors import StorageUnavailableError
from bots_service.spans import followed
from bots_service.storage.database import Job, Result, storage_errors
from bots_service.storage.lifeline import Lifeline
from bots_service.storage.postgres_engine import lifeline_of, postgres_engine
from bots_service.storage.promise import Promise
from bots_service.storage.waiting_jobs import WaitingJob, WaitingJobs

MOST_WAITING = 1000  # one more would only wait for its deadline
LOOKS = 20  # for jobs whose time is over, within the time that a job has

# Errors by SQLSTATE after which a job is run again, and how often: https://www.postgresql.org/docs/current/errcodes-appendix.html
_AGAIN = {
    "40P01": 5,  # a deadlock: the other one goes on
    "40001": 5,  # no serial order
    "23505": 1,  # a unique key is taken: the second look finds whose it is, and answers properly
}
_LOST = "lost"  # a connection that broke before COMMIT, mostly one that idled while the server was restarted


@dataclass(frozen=True, slots=True)
class PoolUse:
    """How busy the connections are. size: connections at most; in_use, waiting: jobs."""

    size: int
    in_use: int
    waiting: int


class PostgresDatabase:
    """A Database on a server. Its tables are made by `migrate.upgrade`."""

    def __init__(self, url: str, *, pool_size: int, timeout_s: float) -> None:
        """Start the threads; connections are opened as they are needed.

        Args:
            url: `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`.
            pool_size: connections, and threads, at most.
            timeout_s: longest life of a job, from when it is put in line.
        """
        self._pool_size = pool_size
        self._timeout_s = timeout_s
        self._jobs = WaitingJobs(MOST_WAITING)
        self._of_thread = local()
        self._writing = postgres_engine(url, pool_size=pool_size, timeout_s=timeout_s, opened=self._opened)
        self._reading = self._writing.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        self._threads = [Thread(target=self._work, name=f"bots-sql-{n}", daemon=True) for n in range(pool_size)]
        self._ended = Event()
        self._watchdog = Thread(target=self._watch, name="bots-sql-watchdog", daemon=True)
        for thread in (*self._threads, self._watchdog):
            thread.start()

    @property
    def use(self) -> PoolUse:
        """How busy the connections are just now."""
        return PoolUse(self._pool_size, self._jobs.running, self._jobs.waiting)

    def write(self, job: Job[Result], *, lane: object = None) -> asyncio.Future[Result]:
        """Put the job in line at once, and return what it will return, once that is committed to stable storage."""
        return followed("sql write", self._put(job, is_read=False, lane=lane))

    def read(self, job: Job[Result]) -> asyncio.Future[Result]:
        """Return what the job will return; it sees everything committed before this call, and one state throughout."""
        return followed("sql read", self._put(job, is_read=True, lane=None))

    async def close(self) -> None:
        """Finish what is in line, then close the connections."""
        self._jobs.close()
        await asyncio.to_thread(self._finish)

    def _finish(self) -> None:
        for thread in self._threads:
            thread.join()
        self._ended.set()
        self._watchdog.join()
        self._writing.dispose()

    def _put(self, job: Job[Result], *, is_read: bool, lane: object) -> asyncio.Future[Result]:
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        deadline = time.monotonic() + self._timeout_s
        self._jobs.put(WaitingJob(job, Promise(future), deadline=deadline, is_read=is_read, lane=lane))
        return future

    def _work(self) -> None:
        while (job := self._jobs.take()) is not None:
            self._of_thread.job = job
            try:
                with storage_errors():
                    result = self._do(job)
            except Exception as error:
                job.promise.fail(error)
            else:
                job.promise.succeed(result)
            self._jobs.done(job)  # after its future is settled: so are those of a lane in their order

    def _do(self, job: WaitingJob) -> Any:
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

    def _transact(self, job: WaitingJob) -> Any:
        engine = self._reading if job.is_read else self._writing
        with engine.connect() as connection:
            job.hold(lifeline_of(connection))
            try:
                with connection.begin() as transaction:
                    result = job.job(connection)
                    if not job.is_read:
                        _commit(transaction)
                return result
            finally:
                job.let_go()

    def _opened(self, lifeline: Lifeline) -> None:
        """Let the watchdog cut a connection that this thread just opened: preparing it asks the server, too."""
        self._of_thread.job.hold(lifeline)

    def _watch(self) -> None:
        while not self._ended.wait(self._timeout_s / LOOKS):
            for job in self._jobs.late(time.monotonic()):
                job.give_up(StorageUnavailableError(f"the database did not answer in {self._timeout_s:g} s"))


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
            f"the connection broke while it was committed, so it may be done or not: {error.orig}"
        ) from error
