"""Turns for requests: so many at once, so many in line, first come first served."""

import asyncio
import random
from collections import deque
from time import monotonic

from bots_service.errors import OverloadedError

MIB = 2**20
BUFFERED_BYTES = 256 * MIB  # of bodies whose requests wait or are worked on
REMEMBERED = 256  # completions that the rate is taken from
LATELY_S = 10.0
LONGEST_WAIT_S = 30.0


class Line:
    """Turns of one kind of request."""

    def __init__(self, *, concurrent: int, waiting: int) -> None:
        """Open a line.

        Args:
            concurrent: how many have a turn at once.
            waiting: how many may wait for theirs.
        """
        self._turns = asyncio.Semaphore(concurrent)
        self._room = concurrent + waiting
        self.working = self.waiting = self.refused = 0
        self._finished: deque[float] = deque(maxlen=REMEMBERED)

    @property
    def is_busy(self) -> bool:
        """Whether a turn must be waited for."""
        return self._turns.locked()

    @property
    def is_full(self) -> bool:
        """Whether nobody may line up now."""
        # Not by who waits alone: a turn that was given back just now has its taker still counted among them.
        return self.working + self.waiting >= self._room

    async def take(self) -> None:
        """Wait for a turn; `give_back` ends it.

        Raises:
            OverloadedError: too many wait already.
        """
        if self.is_full:
            raise self.refusal()
        self.waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self.waiting -= 1
        self.working += 1

    def give_back(self) -> None:
        """End a turn."""
        self.working -= 1
        self._finished.append(monotonic())
        self._turns.release()

    def refusal(self) -> OverloadedError:
        """Return what a request is told that may not line up."""
        self.refused += 1
        said = f"{self.working} requests are being worked on and {self.waiting} wait; try again later"
        return OverloadedError(said, retry_after_s=self.retry_after_s())

    def retry_after_s(self) -> float:
        """Return in how many seconds the line will have moved on, 1 to 30; not the same for all who ask at once."""
        ahead = self.working + self.waiting
        expected_s = min(max(1.0, ahead / self._rate()), LONGEST_WAIT_S / 1.5)
        return expected_s * random.uniform(1.0, 1.5)  # noqa: S311 - spreads callers, hides nothing

    def _rate(self) -> float:
        """Return completions a second of late; 1 where nothing was completed."""
        now = monotonic()
        while self._finished and now - self._finished[0] > LATELY_S:
            self._finished.popleft()
        return len(self._finished) / max(now - self._finished[0], 1.0) if self._finished else 1.0


class Buffer:
    """Bytes of bodies that are held in memory, of all requests together."""

    def __init__(self, limit_bytes: int = BUFFERED_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self.held = 0

    def take(self, count: int) -> None:
        """Count bytes in.

        Raises:
            OverloadedError: too many are held already.
        """
        if self.held + count > self._limit_bytes:
            raise OverloadedError(f"{self.held} bytes of other requests' bodies wait to be worked on; try again later")
        self.held += count

    def give_back(self, count: int) -> None:
        """Count bytes out."""
        self.held -= count
