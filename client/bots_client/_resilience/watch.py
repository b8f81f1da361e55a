"""Looking for a service that is away behind the back of training, which must not wait for it."""

import logging
import threading
from collections.abc import Callable
from weakref import WeakMethod

logger = logging.getLogger("bots_client")


class Watch:
    """Looks for the service on a thread of its own, from when it is told to until it has found it.

    The thread keeps neither the process nor the owner of `look` alive. A forked process has no such thread, and needs a
    watch of its own.

    Args:
        look: a method that looks once, and says whether the service was found.
        pause_s: says how long to wait before the next look.
    """

    def __init__(self, look: Callable[[], bool], pause_s: Callable[[], float]) -> None:
        self._look = WeakMethod(look)
        self._pause_s = pause_s
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def begin(self) -> None:
        """Begin to look, unless that has begun."""
        with self._lock:
            if self._is_closed or self._thread is not None:
                return
            self._wake.clear()
            thread = threading.Thread(target=self._run, name="bots-watch", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # too many threads, or the interpreter is ending; the next call tries again
                return
            self._thread = thread

    def look_now(self) -> None:
        """End the pause before the next look."""
        self._wake.set()

    def close(self, seconds: float) -> None:
        """End for good; wait for a look that is under way, so long at most."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
        self._wake.set()
        if thread is not None:
            thread.join(max(seconds, 0.0))

    def _run(self) -> None:
        is_found = False
        while not is_found:
            self._wake.wait(self._pause_s())
            self._wake.clear()
            look = self._look()
            if self._is_closed or look is None:
                break
            try:
                is_found = look()
            except Exception:  # nobody else looks: it must go on
                logger.exception("looking for the BOTS service failed")
            del look  # while it waits, its owner may go
        with self._lock:
            self._thread = None
