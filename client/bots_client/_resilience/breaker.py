"""The circuit breaker (M. Nygard, Release It!, 2nd ed., Pragmatic Bookshelf, 2018)."""

import random
import threading
from collections.abc import Callable

FIRST_PAUSE_S = 1.0
MAX_PAUSE_S = 60.0  # so that a service that is back is found within a minute

_system_random = random.SystemRandom().random  # trainers seed the other one, all alike


class Breaker:
    """Lets calls through until one fails, then none until a probe finds the service. Safe to share between threads.

    One failure opens it: a call fails only after it was retried until its deadline.

    Args:
        rng: returns numbers in [0, 1); spreads the probes of jobs that lost the service at the same moment.
    """

    def __init__(self, rng: Callable[[], float] = _system_random) -> None:
        self._rng = rng
        self._lock = threading.Lock()
        self._is_open = False
        self._pauses = 0
        self._asked_for_s = 0.0

    @property
    def is_open(self) -> bool:
        """Whether calls are blocked."""
        return self._is_open

    def failed(self, retry_after_s: float | None = None) -> bool:
        """Block calls; return whether they were let through before.

        Args:
            retry_after_s: the service's Retry-After, if it sent one.
        """
        with self._lock:
            was_open, self._is_open = self._is_open, True
            self._asked_for_s = retry_after_s or 0.0
            return not was_open

    def next_pause_s(self) -> float:
        """Return the pause before the next probe; it doubles each time."""
        with self._lock:
            bound_s = min(MAX_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(self._pauses, 60))
            self._pauses += 1
            return max(bound_s * (1 + self._rng()) / 2, min(self._asked_for_s, MAX_PAUSE_S))

    def found(self) -> bool:
        """Let calls through; return whether they were blocked. The pause is reset only when a call succeeds."""
        with self._lock:
            was_open, self._is_open = self._is_open, False
            return was_open

    def succeeded(self) -> None:
        """Reset the pause, unless the breaker is open."""
        with self._lock:
            if not self._is_open:
                self._pauses = 0
