"""Retries: waits, deadlines and Retry-After.

Full jitter (each wait is uniform between 0 and a bound that doubles) spreads the clients of a restarted service best:
https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
"""

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

RETRIED_STATUSES = frozenset({408, 429, 502, 503, 504})
MIN_TIMEOUT_S = 0.001  # a socket timeout of 0 would mean non-blocking

# From the operating system: workers forked from one trainer share the state of `random`, and would all wait equally.
_system_random = random.SystemRandom().random


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a call is tried, and how long it waits between attempts; the call's deadline limits the total.

    attempts: maximum number of attempts; 1 means no retries.
    first_wait_s: longest wait after the first attempt; doubles with each attempt.
    longest_wait_s: upper limit of the doubling. A longer Retry-After of the service is honoured.
    rng, clock, wall_clock: replaced in tests; numbers in [0, 1), monotonic seconds, seconds since 1970.
    """

    attempts: int = 6
    first_wait_s: float = 0.1
    longest_wait_s: float = 5.0
    rng: Callable[[], float] = field(default=_system_random, repr=False)
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    wall_clock: Callable[[], float] = field(default=time.time, repr=False)

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts must be at least 1, got {self.attempts}")
        if not (0 <= self.first_wait_s < math.inf and 0 <= self.longest_wait_s < math.inf):
            raise ValueError(
                f"waits must be finite and not negative, got {self.first_wait_s} and {self.longest_wait_s} s"
            )

    def wait_s(self, attempt: int, retry_after_s: float | None) -> float:
        """Return the wait after an attempt, at least as long as the service's Retry-After.

        Args:
            attempt: 1 for the first.
            retry_after_s: the service's Retry-After, if it sent one.
        """
        bound_s = min(self.longest_wait_s, self.first_wait_s * 2.0 ** min(attempt - 1, 60))
        # The sum, not the maximum: clients that were turned away together must not return together.
        return (retry_after_s or 0.0) + self.rng() * bound_s

    def retry_after_s(self, header: str | None) -> float | None:
        """Return a Retry-After header, given in seconds or as a date, in seconds; None if it is neither."""
        if header is None:
            return None
        try:
            seconds = float(header)
        except ValueError:
            return self._seconds_until(header)
        return seconds if 0 <= seconds < math.inf else None

    def _seconds_until(self, date: str) -> float | None:
        try:
            return max(0.0, parsedate_to_datetime(date).timestamp() - self.wall_clock())
        except (ValueError, OverflowError):
            return None


class Deadline:
    """The deadline of a call with all its attempts and waits."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        if not math.isfinite(seconds):
            raise ValueError(f"a deadline must be a number of seconds, got {seconds}")
        self.seconds = seconds
        self._clock = clock
        self._end = clock() + seconds

    def restart(self) -> None:
        """Start the deadline again."""
        self._end = self._clock() + self.seconds

    def left_s(self) -> float:
        """Return the seconds left; 0 or less if the deadline has passed."""
        return self._end - self._clock()


class TimeLeft(dict[str, float | None]):
    """httpx's dict of timeouts, whose every value is the time left until the deadline.

    httpx reads it again for each phase (connect, write, read), so that all phases share the deadline. Plain numbers
    would give each phase the whole time.
    """

    def __init__(self, deadline: Deadline) -> None:
        super().__init__(dict.fromkeys(("connect", "read", "write", "pool"), deadline.seconds))
        self._deadline = deadline

    def get(self, phase: str, default: object = None) -> float:  # noqa: ARG002 - all phases share the deadline
        """Return how many seconds a phase may take from now on."""
        return max(self._deadline.left_s(), MIN_TIMEOUT_S)
