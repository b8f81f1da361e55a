"""Background delivery."""

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from bots_client import NotFoundError, RequestError

T = TypeVar("T")

logger = logging.getLogger("bots_client")


class BackgroundQueue(Generic[T]):
    """A queue whose items are processed in batches on its own thread.

    A process exits only after all items are processed, even one started by multiprocessing. After a fork the queue is
    empty.

    Args:
        deal_with: called with the items in order; its exceptions are logged, and mistakes kept for `raise_mistake`.
        gather_s: how long the first item of a batch waits for others.
    """

    def __init__(self, deal_with: Callable[[list[T]], None], gather_s: float = 0.0) -> None:
        self._deal_with = deal_with
        self._gather_s = gather_s
        self._begin()
        _queues.add(self)

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._hurry = threading.Event()
        self._things: list[T] = []
        self._thread: threading.Thread | None = None  # exists only while there are items
        self._mistake: RequestError | None = None

    def add(self, thing: T) -> None:
        """Add an item."""
        with self._changed:
            self._things.append(thing)
            if self._thread is None:
                # Not a daemon, so that the process waits for it: atexit handlers don't run in all processes.
                thread = threading.Thread(target=self._run, name="bots-rewards", daemon=False)
                thread.start()
                self._thread = thread

    def wait(self, seconds: float) -> bool:
        """Wait until all items are processed; return False on a timeout."""
        self._hurry.set()
        with self._changed:
            in_time = self._changed.wait_for(lambda: self._thread is None, seconds)
        self._hurry.clear()
        return in_time

    def raise_mistake(self) -> None:
        """Raise the last mistake of a batch, such as a reward outside the run's range, if there is one."""
        error, self._mistake = self._mistake, None
        if error is not None:
            raise error

    def _run(self) -> None:
        while True:
            self._hurry.wait(self._gather_s)
            with self._changed:
                things, self._things = self._things, []
            try:
                self._deal_with(things)
            except Exception as error:  # keep the thread alive for the next items
                logger.exception("the rewards of %d calls are not reported", len(things))
                # A dataset that is missing is raised by the next selection; here the trainer may be about to create it.
                if isinstance(error, RequestError) and not isinstance(error, NotFoundError):
                    self._mistake = error
            with self._changed:
                if not self._things:
                    self._thread = None
                    self._changed.notify_all()
                    return


def flush(deadline_s: float = 10.0) -> bool:
    """Wait until the rewards of this process are reported; return False on a timeout.

    A process that exits normally waits automatically.
    """
    until = time.monotonic() + deadline_s
    return all(queue.wait(max(0.0, until - time.monotonic())) for queue in list(_queues))


def _begin_all() -> None:
    for queue in list(_queues):
        queue._begin()


_queues: WeakSet[BackgroundQueue[Any]] = WeakSet()  # a queue with items is kept alive by its thread
if hasattr(os, "register_at_fork"):  # Windows has no fork; locks and threads do not survive one
    os.register_at_fork(after_in_child=_begin_all)
