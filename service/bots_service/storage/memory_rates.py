"""How often keys called, in this process's memory."""

import time
from collections.abc import Callable

from bots_service.ports.keys import Rate

REMEMBERED_KEYS = 4096  # more than there are keys in use; those that rested are forgotten


class MemoryRateLimits:
    """A RateLimits for one process.

    Keeps one number a key: when it will have rested fully (the generic cell rate algorithm). A call moves that on by
    the time that one call takes at this rate, and is too early if it lies more than a burst ahead.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Count in memory; `clock` gives seconds that never go backwards."""
        self._clock = clock
        self._rested_at: dict[str, float] = {}

    async def take(self, key_id: str, rate: Rate) -> float:
        """Count one call of a key, unless it comes too early; return in how many seconds it would not, else 0."""
        now = self._clock()
        rested_at = max(self._rested_at.get(key_id, now), now)
        wait_s = rested_at + (1 - rate.burst) / rate.per_second - now
        if wait_s > 0:
            return wait_s
        self._rested_at[key_id] = rested_at + 1 / rate.per_second
        if len(self._rested_at) > REMEMBERED_KEYS:
            self._rested_at = {key: then for key, then in self._rested_at.items() if then > now}
        return 0.0
