"""A replica: use cases over a database and a Redis that it shares with others."""

from tests.usecases.world import World


class Replica(World):
    """One service's worth of use cases."""

    async def follow(self) -> None:
        """Look once for what others did."""
        await self.runs.follow_once()
