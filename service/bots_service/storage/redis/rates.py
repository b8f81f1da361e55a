"""How often keys called, in Redis, so that all replicas count together."""

from bots_service.ports.keys import Rate
from bots_service.storage.memory import MemoryRateLimits
from bots_service.storage.redis.connection import RedisAwayError, RedisConnection, Script

RATE = Script("rate")
MICRO = 1e6


class RedisRateLimits:
    """A RateLimits for many replicas. While Redis is away each counts for itself, so together they let more through."""

    def __init__(self, connection: RedisConnection, alone: MemoryRateLimits) -> None:
        """Count in Redis.

        Args:
            connection: the way to it.
            alone: counts while Redis is away.
        """
        self._connection = connection
        self._alone = alone

    async def take(self, key_id: str, rate: Rate) -> float:
        """Count one call of a key, unless it comes too early; return in how many seconds it would not, else 0."""
        try:
            (wait,) = await self._connection.run(
                RATE, [f"bots:{{{key_id}}}:rate"], max(1, round(MICRO / rate.per_second)), rate.burst
            )
        except RedisAwayError:
            return await self._alone.take(key_id, rate)
        return int(wait) / MICRO
