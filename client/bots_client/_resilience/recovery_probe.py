"""Probes a service that is away, in the background: training must not wait for it."""

import logging
import threading
from collections.abc import Callable
from weakref import WeakMethod

logger = logging.getLogger("bots_client")


class RecoveryProbe:
    """Probes the service on its own thread, from `start` until a probe succeeds.

    The thread keeps neither the process nor the owner of `probe` alive. It does not survive a fork: the forked process
    needs its own.

    Args:
        probe: a method that probes once and returns whether the service is back.
        pause_s: returns the pause before the next probe.
    """

    def __init__(self, probe: Callable[[], bool], pause_s: Callable[[], float]) -> None:
        self._probe = WeakMethod(probe)
        self._pause_s = pause_s
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def start(self) -> None:
        """Start probing, unless it is under way."""
        with self._lock:
            if self._is_closed or self._thread is not None:
                return
            self._wake.clear()
            thread = threading.Thread(target=self._run, name="bots-probe", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # too many threads, or the interpreter is shutting down; the next call tries again
                return
            self._thread = thread

    def probe_now(self) -> None:
        """End the current pause."""
        self._wake.set()

    def close(self, seconds: float) -> None:
        """Stop for good; wait at most this long for a probe that is under way."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
        self._wake.set()
        if thread is not None:
            thread.join(max(seconds, 0.0))

    def _run(self) -> None:
        is_back = False
        while not is_back:
            self._wake.wait(self._pause_s())
            self._wake.clear()
            probe = self._probe()
            if self._is_closed or probe is None:
                break
            try:
                is_back = probe()
            except Exception:  # keep the thread alive: nothing else probes
                logger.exception("probing the BOTS service failed")
            del probe  # so that its owner can be collected during the pause
        with self._lock:
            self._thread = None
