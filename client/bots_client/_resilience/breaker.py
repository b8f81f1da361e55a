"""When calls are let through: the circuit breaker (M. Nygard, Release It!, 2nd ed., Pragmatic Bookshelf, 2018)."""

import random
import threading
from collections.abc import Callable

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0  # a service that is back is found within a minute

_system_random = random.SystemRandom().random  # trainers seed the other one, all alike


class Breaker:
    """Lets calls through until one fails; then none, until the service was found. Safe to share between threads.

    A call has been tried again for all of its deadline when it fails, so one failure is enough.

    Args:
        rng: in [0, 1); spreads the jobs that a service lost all at once.
    """

    def __init__(self, rng: Callable[[], float] = _system_random) -> None:
        self._rng = rng
        self._lock = threading.Lock()
        self._is_open = False
        self._pauses = 0
        self._asked_for_s = 0.0

    @property
    def is_open(self) -> bool:
        """Whether no call is let through."""
        return self._is_open

    def failed(self, retry_after_s: float | None = None) -> bool:
        """Let no call through; says whether calls were let through before.

        Args:
            retry_after_s: what the service asked for, if it did.
        """
        with self._lock:
            was_open, self._is_open = self._is_open, True
            self._asked_for_s = retry_after_s or 0.0
            return not was_open

    def next_pause_s(self) -> float:
        """Return how long to wait before looking for the service, twice as long each time."""
        with self._lock:
            bound_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(self._pauses, 60))
            self._pauses += 1
            return max(bound_s * (1 + self._rng()) / 2, min(self._asked_for_s, LONGEST_PAUSE_S))

    def found(self) -> bool:
        """Let calls through; says whether they were not before. The pauses stay as long until a call succeeds."""
        with self._lock:
            was_open, self._is_open = self._is_open, False
            return was_open

    def succeeded(self) -> None:
        """Let the next pause be a short one, unless calls fail just now."""
        with self._lock:
            if not self._is_open:
                self._pauses = 0
