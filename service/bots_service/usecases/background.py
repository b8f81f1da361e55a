"""Work that goes on beside requests."""

import asyncio
from collections.abc import Collection

ASK_AGAIN_S = 0.5


async def ended(tasks: Collection[asyncio.Task[None]]) -> None:
    """Cancel tasks and return once all have ended; a cancellation that got lost in a library is repeated."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=ASK_AGAIN_S)
