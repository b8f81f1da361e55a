"""Bodies must keep coming: who sends too slowly is cut off."""

import asyncio
from time import monotonic

from starlette.types import Message, Receive

from bots_service.errors import SlowSenderError

SILENCE_S = 10.0  # without one byte
GRACE_S = 10.0  # before the whole of a body is held against its size
FLOOR_BYTES_PER_S = 64 * 1024  # 8 MiB in about two minutes; a telephone manages more


class Pace:
    """The body of one request, as it comes."""

    def __init__(self, receive: Receive, *, is_complete: bool) -> None:
        """Read a request's body.

        Args:
            receive: where it comes from.
            is_complete: there is none.
        """
        self._receive = receive
        self._waited_s = 0.0  # for the sender; the time that we take ourselves is not its fault
        self._count = 0
        self.is_complete = is_complete

    async def __call__(self) -> Message:
        """Return the next message.

        Raises:
            SlowSenderError: it did not come in time.
        """
        if self.is_complete:  # only the end of the connection is still to come
            return await self._receive()
        left_s = GRACE_S + self._count / FLOOR_BYTES_PER_S - self._waited_s
        started = monotonic()
        try:
            async with asyncio.timeout(min(SILENCE_S, left_s)):
                message = await self._receive()
        except TimeoutError as error:
            said = f"{self._count} bytes of the body came, then too few for too long; send it again"
            raise SlowSenderError(said) from error
        self._waited_s += monotonic() - started
        self._count += len(message.get("body", b""))
        self.is_complete = not message.get("more_body", False)
        return message
