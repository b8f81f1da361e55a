"""When it is worth asking again: the circuit breaker (M. Nygard, Release It!, 2nd ed., Pragmatic Bookshelf, 2018)."""

import random
import threading
import time
from collections.abc import Callable

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0  # a service that hangs then costs a select's deadline once a minute

_system_random = random.SystemRandom().random  # trainers seed the other one, all alike


class Breaker:
    """Lets calls through until one fails; then one at a time, after pauses that double. Safe to share between threads.

    A call has been tried again for all of its deadline when it fails, so one failure is enough.

    Args:
        clock: monotonic seconds.
        rng: in [0, 1); spreads the jobs that a service lost all at once.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, rng: Callable[[], float] = _system_random) -> None:
        self._clock = clock
        self._rng = rng
        self._lock = threading.Lock()
        self._failures = 0
        self._is_trying = False
        self._pause_s = 0.0
        self._quiet_until = 0.0

    @property
    def is_quiet(self) -> bool:
        """Whether it is too early to call; asking changes nothing."""
        return self._failures > 0 and self._clock() < self._quiet_until

    def allows(self) -> bool:
        """Say whether to call now; of many threads that ask after a pause, one is told yes."""
        with self._lock:
            if self._failures == 0:
                return True
            now = self._clock()
            if now < self._quiet_until:
                return False
            self._quiet_until = now + self._pause_s
            self._is_trying = True
            return True

    def succeeded(self) -> bool:
        """Let all calls through; says whether they were not before."""
        with self._lock:
            was_open, self._failures, self._is_trying = self._failures > 0, 0, False
            return was_open

    def failed(self, retry_after_s: float | None = None) -> bool:
        """Pause; says whether calls were let through before.

        Args:
            retry_after_s: what the service asked for, if it did.
        """
        with self._lock:
            was_open = self._failures > 0
            if was_open and not self._is_trying:  # of many calls that were under way, one is a failure
                return False
            self._failures, self._is_trying = self._failures + 1, False
            bound_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(self._failures - 1, 60))
            self._pause_s = max(bound_s * (1 + self._rng()) / 2, min(retry_after_s or 0.0, LONGEST_PAUSE_S))
            self._quiet_until = self._clock() + self._pause_s
            return not was_open
