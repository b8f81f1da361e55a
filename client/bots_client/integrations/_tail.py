"""What is done behind the back of whoever must not wait."""

import atexit
import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import WeakSet

T = TypeVar("T")

EXIT_S = 10.0  # how long the end of a process waits for reports that are on their way

logger = logging.getLogger("bots_client")


class Tail(Generic[T]):
    """Hands things over to a thread of its own, many at once if they come faster than they are dealt with.

    A forked process begins with nothing handed over, and starts a thread of its own.

    Args:
        deal_with: gets the things, in order; what it raises is logged.
        gather_s: how long the first of them waits for others.
    """

    def __init__(self, deal_with: Callable[[list[T]], None], gather_s: float = 0.0) -> None:
        self._deal_with = deal_with
        self._gather_s = gather_s
        self._begin()
        _tails.add(self)

    def _begin(self) -> None:
        self._process = os.getpid()
        self._queue: queue.SimpleQueue[T] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._hurry = threading.Event()
        self._open = 0
        self._thread: threading.Thread | None = None

    def add(self, thing: T) -> None:
        """Hand something over."""
        if self._process != os.getpid():  # forked: lock and thread are the parent's
            self._begin()
        with self._changed:
            self._open += 1
            self._queue.put(thing)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="bots-rewards", daemon=True)
                self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait until all that was handed over is dealt with; says whether it was in time."""
        if self._process != os.getpid():
            return True
        self._hurry.set()
        with self._changed:
            in_time = self._changed.wait_for(lambda: self._open == 0, seconds)
        self._hurry.clear()
        return in_time

    def _run(self) -> None:
        while True:
            things = [self._queue.get()]
            self._hurry.wait(self._gather_s)
            while not self._queue.empty():
                things.append(self._queue.get())
            try:
                self._deal_with(things)
            except Exception:  # the thread must live on for the next ones
                logger.exception("the rewards of %d calls are not reported", len(things))
            with self._changed:
                self._open -= len(things)
                self._changed.notify_all()


def flush(deadline_s: float = EXIT_S) -> bool:
    """Wait until what this process's reward functions gave is reported; says whether it was in time.

    The end of a process does so by itself, unless it is killed.
    """
    until = time.monotonic() + deadline_s
    return all(tail.wait(max(0.0, until - time.monotonic())) for tail in list(_tails))


_tails: WeakSet[Tail[Any]] = WeakSet()  # its thread keeps one that is at work
atexit.register(flush)
