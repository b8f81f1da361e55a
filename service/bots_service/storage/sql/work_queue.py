"""Jobs that wait for a thread: for the writer of SQLite, or for a connection to PostgreSQL."""

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Condition, Lock, Thread
from typing import Any

from sqlalchemy import Connection

from bots_service.errors import StorageUnavailableError
from bots_service.storage.sql.database import Job, Result, storage_errors


@dataclass(frozen=True, slots=True)
class Promise:
    """Settles a future; what comes second changes nothing."""

    future: asyncio.Future[Any]

    def succeed(self, result: Any) -> None:
        """Let the future return the result."""
        self._tell(self.future.set_result, result)

    def fail(self, error: Exception) -> None:
        """Let the future raise the error."""
        self._tell(self.future.set_exception, error)

    def _tell(self, settle: Callable[[Any], None], value: Any) -> None:
        def tell() -> None:
            if not self.future.done():  # its caller may have stopped waiting
                settle(value)

        with suppress(RuntimeError):  # the loop was closed: nobody waits any more
            self.future.get_loop().call_soon_threadsafe(tell)


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


class WaitingJob:
    """A job, from when it comes until it is done, or its time is over."""

    def __init__(self, job: Job[Any], promise: Promise, *, deadline: float, is_read: bool) -> None:
        """Keep a job.

        Args:
            job: what to do.
            promise: gets the result.
            deadline: when its time is over, on the monotonic clock.
            is_read: whether it only reads.
        """
        self.job = job
        self.promise = promise
        self.deadline = deadline
        self.is_read = is_read
        self._lock = Lock()
        self._is_over = False
        self._lifeline: Lifeline | None = None

    @property
    def is_over(self) -> bool:
        """Whether its time is over."""
        return self._is_over

    def hold(self, lifeline: Lifeline) -> None:
        """Remember the connection that the job is done on; it is cut when the job's time is over."""
        with self._lock:
            self._lifeline = lifeline
            if self._is_over:
                lifeline.cut()

    def let_go(self) -> None:
        """Forget the connection: from now on others may use it."""
        with self._lock:
            self._lifeline = None

    def give_up(self, error: StorageUnavailableError) -> None:
        """End the job: its caller gets the error, and its thread is freed by cutting the connection."""
        with self._lock:
            self._is_over = True
            if self._lifeline is not None:
                self._lifeline.cut()
        self.promise.fail(error)


class WaitingJobs:
    """The line, and those that are being done."""

    def __init__(self, most: int) -> None:
        """Make room for so many jobs that wait."""
        self._most = most
        self._line: deque[WaitingJob] = deque()
        self._running: set[WaitingJob] = set()
        self._changed = Condition()
        self._closed = False

    @property
    def waiting(self) -> int:
        """How many wait for a thread."""
        return len(self._line)

    @property
    def running(self) -> int:
        """How many are being done."""
        return len(self._running)

    def put(self, job: WaitingJob) -> None:
        """Put a job in line.

        Raises:
            StorageUnavailableError: the line is full, or closed.
        """
        with self._changed:
            if self._closed:
                raise StorageUnavailableError("the database is closed: the service is stopping")
            if len(self._line) >= self._most:
                raise StorageUnavailableError(f"{self._most} calls already wait for the database")
            self._line.append(job)
            self._changed.notify()

    def take(self) -> WaitingJob | None:
        """Wait for the next job and return it; None once the line is closed and empty."""
        with self._changed:
            while not self._line:
                if self._closed:
                    return None
                self._changed.wait()
            job = self._line.popleft()
            self._running.add(job)
            return job

    def done(self, job: WaitingJob) -> None:
        """Count a job as done."""
        with self._changed:
            self._running.remove(job)

    def late(self, now: float) -> list[WaitingJob]:
        """Return the jobs whose time is over; they leave the line."""
        with self._changed:
            late = [job for job in self._line if job.deadline <= now]
            if late:
                self._line = deque(job for job in self._line if job.deadline > now)
                self._changed.notify_all()
            return late + [job for job in self._running if job.deadline <= now and not job.is_over]

    def close(self) -> None:
        """Take no more jobs; those in line are still done."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


MOST_JOBS = 256  # in one transaction; more would make the first wait long for the last


@dataclass(frozen=True, slots=True)
class _Waiting:
    job: Job[Any]
    promise: Promise


class WriteThread:
    """Writes jobs in the order in which they came, and outlives whatever they do."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        """Start the thread.

        Args:
            connect: opens a connection whose transactions may write; called again after an error of the database.
        """
        self._connect = connect
        self._connection: Connection | None = None
        self._queue: SimpleQueue[_Waiting | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name="bots-writer", daemon=True)
        self._thread.start()

    def put(self, job: Job[Result]) -> asyncio.Future[Result]:
        """Put a job in line; the future is settled once it is committed."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._queue.put(_Waiting(job, Promise(future)))
        return future

    def close(self) -> None:
        """Do what is in line, then end the thread. Nothing may be put from now on."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        is_open = True
        while is_open:
            batch = [self._queue.get()]
            while len(batch) < MOST_JOBS and not self._queue.empty():
                batch.append(self._queue.get())
            is_open = None not in batch
            self._commit([waiting for waiting in batch if waiting is not None])
        self._disconnect()

    def _commit(self, batch: list[_Waiting]) -> None:
        """Commit the jobs together; where one can't be done, each on its own, so that it hurts no other."""
        try:
            results = self._run(batch)
        except StorageUnavailableError as error:
            self._disconnect()
            for waiting in batch:
                waiting.promise.fail(copy(error))  # one raised in several places tangles its traceback
        except Exception as error:
            if len(batch) == 1:
                batch[0].promise.fail(error)
                return
            for waiting in batch:
                self._commit([waiting])
        else:
            for waiting, result in zip(batch, results, strict=True):
                waiting.promise.succeed(result)

    def _run(self, batch: list[_Waiting]) -> list[Any]:
        with storage_errors():
            if self._connection is None:
                self._connection = self._connect()
            with self._connection.begin():
                return [waiting.job(self._connection) for waiting in batch]

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
            self._connection = None
