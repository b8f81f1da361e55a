"""A replica: use cases over a database and a Redis that it shares with others."""

from bots_service.stores import HotStores
from tests.usecases.world import World


class Replica(World):
    """One service's worth of use cases, with the stores that it shares."""

    @property
    def hot(self) -> HotStores:
        """The stores that it shares."""
        return self.parts.hot

    async def follow(self) -> None:
        """Look once for what others did."""
        await self.use.follow_replicas.once()
