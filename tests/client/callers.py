"""One way to call both clients, so that each test runs on either."""

import asyncio
from collections.abc import AsyncIterator, Iterator

from bots_client import AsyncClient, Client


class Waits(list[float]):
    """Sleeps that only take note; `clock` moves on by them, and by nothing else."""

    now = 1000.0

    def sleep(self, seconds: float) -> None:
        self.append(seconds)
        self.now += seconds

    async def async_sleep(self, seconds: float) -> None:
        self.sleep(seconds)

    def clock(self) -> float:
        return self.now


class SyncCaller:
    """Calls a Client; lists are gone through to their end."""

    def __init__(self, url: str, waits: Waits, **arguments) -> None:
        self.client = Client(url, sleep=waits.sleep, **arguments)

    def __getattr__(self, name: str):
        def call(*args, **kwargs):
            result = getattr(self.client, name)(*args, **kwargs)
            return list(result) if isinstance(result, Iterator) else result

        return call

    def close(self) -> None:
        self.client.close()


class AsyncCaller:
    """Calls an AsyncClient on a loop of its own."""

    def __init__(self, url: str, waits: Waits, **arguments) -> None:
        self.runner = asyncio.Runner()
        self.client = AsyncClient(url, sleep=waits.async_sleep, **arguments)

    def __getattr__(self, name: str):
        async def settle(args, kwargs):
            result = getattr(self.client, name)(*args, **kwargs)
            return [item async for item in result] if isinstance(result, AsyncIterator) else await result

        return lambda *args, **kwargs: self.runner.run(settle(args, kwargs))

    def close(self) -> None:
        self.runner.run(self.client.aclose())
        self.runner.close()
