"""Background loops."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any

import structlog

from bots_service.errors import BotsError

log = structlog.get_logger(__name__)

ASK_AGAIN_S = 0.5


@asynccontextmanager
async def repeating(
    once: Callable[[], Awaitable[object]], *, every_s: float, failure_event: str, jitter: float = 0.0
) -> AsyncIterator[None]:
    """Call a function in the background, `every_s` seconds after the last call, whatever it raises.

    Of several BotsErrors in a row the first is logged as a warning, the others at debug level. jitter: largest random
    change of a pause, as a share of it, so that replicas started together drift apart.
    """

    async def loop() -> None:
        say = log.warning
        while True:
            await asyncio.sleep(every_s * random.uniform(1 - jitter, 1 + jitter))  # noqa: S311 - no secret
            try:
                await once()
                say = log.warning
            except BotsError as error:
                say(failure_event, reason=str(error))
                say = log.debug
            except Exception:
                log.exception(failure_event)

    task = asyncio.create_task(loop())
    try:
        yield
    finally:
        await ended([task])


async def ended(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until all have ended; repeat the cancellation, because a library may swallow one."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=ASK_AGAIN_S)
