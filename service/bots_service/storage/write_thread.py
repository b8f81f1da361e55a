"""One thread that writes: jobs that wait together share one transaction, so one wait for the disk serves them all."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Thread
from typing import Any

from sqlalchemy import Connection

from bots_service.errors import StorageUnavailableError
from bots_service.storage.database import Job, Result, for_another, storage_errors
from bots_service.storage.promise import Promise

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
                waiting.promise.fail(for_another(error))
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
