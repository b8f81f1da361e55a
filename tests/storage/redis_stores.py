"""The hot stores of one replica over a Redis, as the wiring puts them together."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import redis

from bots_service.records import KnownState, RunRow
from bots_service.storage.redis.cache import LeaseCache
from bots_service.storage.redis.connection import RedisConnection
from bots_service.storage.redis.leases import RedisLeases
from bots_service.storage.redis.states import RedisStates
from tests.storage.contracts.hot import Clock, Hot, found, run_row

ENDS_SOONER = """
for _, task in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  redis.call('ZINCRBY', KEYS[1], -ARGV[1], task)
end
"""
FORGOTTEN_SOONER = "redis.call('PEXPIRE', KEYS[1], redis.call('PTTL', KEYS[1]) - ARGV[1])"
LOST_SOONER = """
if tonumber(redis.call('HGET', KEYS[1], 'lost_ms') or 0) > 0 then
  redis.call('HINCRBY', KEYS[1], 'lost_ms', -ARGV[1])
end
"""
PATIENT_S = 20.0  # for tests in which Redis is there, on machines with much to do


@dataclass
class Replica(Hot):
    """A replica's hot stores, with its own connection."""

    connection: RedisConnection | None = None

    async def follow(self, run: RunRow = run_row()) -> tuple[int, int] | None:  # noqa: B008 - read-only
        """Return epoch and seq of the newest state, once SQL was asked where it must be; it knows what Redis knows."""
        newest = await self.states.newest(run)
        known = self.states.known(run)
        if newest.state is None and known is not None:
            await self.publish(known.state, run)
        elif newest.state is not None:
            self.known = KnownState(newest.state, newest.token)
        return await found(self.states, run)


@asynccontextmanager
async def replica(
    url: str, clock: Callable[[], float] | None = None, *, timeout_s: float = PATIENT_S
) -> AsyncIterator[Replica]:
    """Open the stores of one replica."""
    connection = RedisConnection(url, timeout_s=timeout_s)
    cache = LeaseCache() if clock is None else LeaseCache(clock)
    states, leases = RedisStates(connection, cache, capacity_bytes=10**8), RedisLeases(connection, cache)
    own = clock if isinstance(clock, Clock) else Clock()
    try:
        yield Replica(states, leases, own, connection=connection)
    finally:
        await connection.close()


class RedisClock(Clock):
    """Time that passes in Redis too: leases there end, and selections are forgotten, that much sooner."""

    def __init__(self, *clients: redis.Redis) -> None:
        """Let it pass in these servers."""
        self._clients = clients

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        for script, keys in (
            (ENDS_SOONER, "bots:*:leases"),
            (FORGOTTEN_SOONER, "bots:*:selection:*"),
            (LOST_SOONER, "bots:*:header"),
        ):
            for client in self._clients:
                for key in client.scan_iter(keys):
                    client.eval(script, 1, key, int(1000 * seconds))
