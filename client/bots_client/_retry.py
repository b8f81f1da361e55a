"""When to try again: waits, the deadline, and how long the service asked to be left alone.

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
SHORTEST_TIMEOUT_S = 0.001  # a socket timeout of 0 would mean "do not wait at all"

# From the operating system: workers forked from one trainer would share the state of `random` and all wait alike.
_system_random = random.SystemRandom().random


@dataclass(frozen=True, slots=True)
class Retries:
    """How often one call is tried, and how long it waits in between; the call's deadline always bounds the whole.

    attempts: at most so many, 1 or more; 1 means no second try.
    first_wait_s: longest wait after the first attempt; doubles with each attempt.
    longest_wait_s: where the doubling ends. A longer Retry-After of the service is kept to all the same.
    rng, clock, wall_clock: replaced in tests; in [0, 1), monotonic seconds, seconds since 1970.
    """

    attempts: int = 6
    first_wait_s: float = 0.1
    longest_wait_s: float = 5.0
    rng: Callable[[], float] = field(default=_system_random, repr=False)
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    wall_clock: Callable[[], float] = field(default=time.time, repr=False)

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts is {self.attempts}; at least 1 is needed to ask at all")
        if not (0 <= self.first_wait_s < math.inf and 0 <= self.longest_wait_s < math.inf):
            raise ValueError(f"waits of {self.first_wait_s} to {self.longest_wait_s} s cannot be waited")

    def wait_s(self, attempt: int, retry_after_s: float | None) -> float:
        """Return how long to wait after an attempt, never less than the service asked for.

        Args:
            attempt: 1 for the first.
            retry_after_s: what the service asked for, if it did.
        """
        bound_s = min(self.longest_wait_s, self.first_wait_s * 2.0 ** min(attempt - 1, 60))
        # Added, not the greater of both: clients sent away together must not come back together.
        return (retry_after_s or 0.0) + self.rng() * bound_s

    def retry_after_s(self, header: str | None) -> float | None:
        """Return the seconds that a Retry-After header asks for, in seconds or as a date; None if it says neither."""
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
    """When a whole call must be over, with all its attempts and waits."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        if not math.isfinite(seconds):
            raise ValueError(f"a deadline of {seconds} s is none; pass a number of seconds")
        self.seconds = seconds
        self._clock = clock
        self._end = clock() + seconds

    def restart(self) -> None:
        """Grant the whole time again."""
        self._end = self._clock() + self.seconds

    def left_s(self) -> float:
        """Return the seconds left; 0 or less when it has passed."""
        return self._end - self._clock()


class TimeLeft(dict[str, float | None]):
    """httpx's table of timeouts, whose every entry is what is left of the deadline when it is read.

    httpx reads it again for each phase (connect, write, read), so a slow one shortens those after it. A table of
    plain numbers would grant each phase the whole time.
    """

    def __init__(self, deadline: Deadline) -> None:
        super().__init__(dict.fromkeys(("connect", "read", "write", "pool"), deadline.seconds))
        self._deadline = deadline

    def get(self, phase: str, default: object = None) -> float:  # noqa: ARG002 - all phases share the deadline
        """Return the seconds that a phase may take from now on."""
        return max(self._deadline.left_s(), SHORTEST_TIMEOUT_S)
