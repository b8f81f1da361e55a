"""Background loops."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager

import structlog

from bots_service.errors import BotsError

log = structlog.get_logger(__name__)

ASK_AGAIN_S = 0.5


@asynccontextmanager
async def repeating(
    once: Callable[[], Awaitable[object]], *, every_s: float, or_log: str, jitter: float = 0.0
) -> AsyncIterator[None]:
    """Do something again and again in the background; it goes on whatever happens.

    Args:
        once: what to do; a BotsError of it is ordinary, for the next time is soon.
        every_s: the pause before each time.
        or_log: the event to log where it failed.
        jitter: each pause is longer or shorter by up to this share of it, so that replicas that were started together
            do not meet every time.
    """

    async def for_ever() -> None:
        while True:
            await asyncio.sleep(every_s * random.uniform(1 - jitter, 1 + jitter))  # noqa: S311 - no secret
            try:
                await once()
            except BotsError as error:
                log.debug(or_log, reason=str(error))
            except Exception:
                log.exception(or_log)

    task = asyncio.create_task(for_ever())
    try:
        yield
    finally:
        await ended([task])


async def ended(tasks: Collection[asyncio.Task[None]]) -> None:
    """Cancel tasks and return once all have ended; a cancellation that got lost in a library is repeated."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=ASK_AGAIN_S)
