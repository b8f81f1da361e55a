"""Calls that wait at the same time become one job, so that they share its statements as well as its transaction."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from functools import partial
from threading import Lock
from typing import Generic, TypeVar

from sqlalchemy import Connection

from bots_service.errors import BotsError, StorageUnavailableError
from bots_service.storage.database import Database, for_another

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

MOST_ITEMS = 500  # in one job; more would make the first wait long for the last


class _Batch(Generic[Item, Outcome]):
    def __init__(self) -> None:
        self.items: list[Item] = []
        self.sealed = False
        self.outcomes: asyncio.Future[list[Outcome | BotsError]] = asyncio.get_running_loop().create_future()

    @property
    def is_open(self) -> bool:
        """Whether the writer will still come for more: not if it came, nor if it could not even begin."""
        return not self.sealed and not self.outcomes.done() and len(self.items) < MOST_ITEMS


class Gathering(Generic[Item, Outcome]):
    """Collects items until the writer comes for them, one batch after another. Belongs to one event loop."""

    def __init__(
        self,
        database: Database,
        work: Callable[[Connection, list[Item]], list[Outcome | BotsError]],
        committed: Callable[[list[Outcome | BotsError]], None] | None = None,
    ) -> None:
        """Collect for one kind of work.

        Args:
            database: where the work is done.
            work: does all items in one go and returns, for each, its outcome or why it was refused.
            committed: told of each batch's outcomes in the order of commits, before any caller is.
        """
        self._database = database
        self._work = work
        self._committed = committed
        self._lock = Lock()
        self._batch: _Batch[Item, Outcome] | None = None

    async def add(self, item: Item) -> Outcome:
        """Return the item's outcome once it is committed; a caller that no longer waits changes nothing."""
        with self._lock:
            if self._batch is None or not self._batch.is_open:
                self._batch = _Batch()
                # Not at once: under load, several callers come in one turn of the event loop.
                asyncio.get_running_loop().call_soon(self._submit, self._batch, context=Context())
            batch = self._batch
            place = len(batch.items)
            batch.items.append(item)
        try:
            outcome = (await asyncio.shield(batch.outcomes))[place]
        except StorageUnavailableError as error:
            raise for_another(error) from error.__cause__
        if isinstance(outcome, BotsError):
            raise outcome
        return outcome

    def _submit(self, batch: _Batch[Item, Outcome]) -> None:
        def job(connection: Connection) -> list[Outcome | BotsError]:
            with self._lock:
                batch.sealed = True
            return self._work(connection, batch.items)

        try:
            written = self._database.write(job, lane=self)
        except Exception as error:  # its callers wait for this alone
            batch.outcomes.set_exception(error)
        else:
            written.add_done_callback(partial(self._settle, batch))

    def _settle(self, batch: _Batch[Item, Outcome], written: asyncio.Future[list[Outcome | BotsError]]) -> None:
        error = written.exception()
        if error is not None:
            batch.outcomes.set_exception(error)
            return
        batch.outcomes.set_result(written.result())  # the callers go on in the event loop's next turn
        if self._committed is not None:
            self._committed(written.result())
