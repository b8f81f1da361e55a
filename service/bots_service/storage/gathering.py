"""Calls that wait at the same time become one job, so that they share its statements as well as its transaction."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

from sqlalchemy import Connection

from bots_service.errors import BotsError, StorageUnavailableError
from bots_service.storage.database import Database, for_another

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

MOST_ITEMS = 500  # in one job; more would make the first wait long for the last


@dataclass(slots=True)
class _Batch(Generic[Item, Outcome]):
    items: list[Item] = field(default_factory=list)
    sealed: bool = False
    future: asyncio.Future[list[Outcome | BotsError]] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the writer will still come for more: not if it came, nor if it could not even begin."""
        is_over = self.future is not None and self.future.done()
        return not self.sealed and not is_over and len(self.items) < MOST_ITEMS


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
        self._batch: _Batch[Item, Outcome] = _Batch(sealed=True)

    async def add(self, item: Item) -> Outcome:
        """Return the item's outcome once it is committed; a caller that no longer waits changes nothing."""
        with self._lock:
            if not self._batch.is_open:
                self._batch = _Batch()
            batch = self._batch
            place = len(batch.items)
            batch.items.append(item)
        if batch.future is None:
            batch.future = self._submit(batch)
        try:
            outcome = (await asyncio.shield(batch.future))[place]
        except StorageUnavailableError as error:
            raise for_another(error) from error.__cause__
        if isinstance(outcome, BotsError):
            raise outcome
        return outcome

    def _submit(self, batch: _Batch[Item, Outcome]) -> asyncio.Future[list[Outcome | BotsError]]:
        def job(connection: Connection) -> list[Outcome | BotsError]:
            with self._lock:
                batch.sealed = True
            return self._work(connection, batch.items)

        future = self._database.write(job, lane=self)
        if self._committed is not None:
            future.add_done_callback(self._tell)
        return future

    def _tell(self, future: asyncio.Future[list[Outcome | BotsError]]) -> None:
        if self._committed is not None and not future.cancelled() and future.exception() is None:
            self._committed(future.result())
