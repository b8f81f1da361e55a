"""What is done behind the back of whoever must not wait."""

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import WeakSet

T = TypeVar("T")

logger = logging.getLogger("bots_client")


class BackgroundQueue(Generic[T]):
    """Hands things over to a thread of its own, many at once if they come faster than they are dealt with.

    A process ends only when all is dealt with, also one that multiprocessing started. A forked one begins with nothing
    handed over.

    Args:
        deal_with: gets the things, in order; what it raises is logged.
        gather_s: how long the first of them waits for others.
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
        self._thread: threading.Thread | None = None  # there is one as long as there is something to deal with

    def add(self, thing: T) -> None:
        """Hand something over."""
        with self._changed:
            self._things.append(thing)
            if self._thread is None:
                # No daemon: the end of a process waits for it. Not all processes call what atexit knows.
                thread = threading.Thread(target=self._run, name="bots-rewards", daemon=False)
                thread.start()
                self._thread = thread

    def wait(self, seconds: float) -> bool:
        """Wait until all that was handed over is dealt with; says whether it was in time."""
        self._hurry.set()
        with self._changed:
            in_time = self._changed.wait_for(lambda: self._thread is None, seconds)
        self._hurry.clear()
        return in_time

    def _run(self) -> None:
        while True:
            self._hurry.wait(self._gather_s)
            with self._changed:
                things, self._things = self._things, []
            try:
                self._deal_with(things)
            except Exception:  # the thread must live on for the next ones
                logger.exception("the rewards of %d calls are not reported", len(things))
            with self._changed:
                if not self._things:
                    self._thread = None
                    self._changed.notify_all()
                    return


def flush(deadline_s: float = 10.0) -> bool:
    """Wait until what this process's reward functions gave is reported; says whether it was in time.

    The end of a process does so by itself, unless it is killed.
    """
    until = time.monotonic() + deadline_s
    return all(queue.wait(max(0.0, until - time.monotonic())) for queue in list(_queues))


def _begin_all() -> None:
    for queue in list(_queues):
        queue._begin()


_queues: WeakSet[BackgroundQueue[Any]] = WeakSet()  # its thread keeps one that is at work
if hasattr(os, "register_at_fork"):  # Windows has no forks; elsewhere locks and threads would be the parent's
    os.register_at_fork(after_in_child=_begin_all)
