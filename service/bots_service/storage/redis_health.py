"""Whether Redis answers, and what it says of itself."""

from typing import Any

from bots_service.errors import StorageUnavailableError
from bots_service.storage.redis_connection import RedisConnection


class RedisHealth:
    """A Health."""

    def __init__(self, connection: RedisConnection) -> None:
        """Check a connection's Redis."""
        self._connection = connection

    async def check(self) -> dict[str, Any]:
        """Return {"redis": "ok"}.

        Raises:
            StorageUnavailableError: Redis does not answer, or has not answered a probe since it last failed.
        """
        if self._connection.is_away:
            raise StorageUnavailableError("Redis does not answer")
        await self._connection.facts()
        return {"redis": "ok"}

    async def describe(self) -> dict[str, Any]:
        """Return version, role, eviction policy, append-only file (bool), and memory used and allowed (0: unlimited).

        Raises:
            StorageUnavailableError: Redis does not answer, or refuses to.
        """
        facts = await self._connection.facts()
        return {
            "version": facts["redis_version"],
            "role": facts["role"],
            "maxmemory_policy": facts["maxmemory_policy"],
            "appendonly": facts["aof_enabled"] == "1",
            "used_memory_bytes": int(facts["used_memory"]),
            "maxmemory_bytes": int(facts["maxmemory"]),
        }
