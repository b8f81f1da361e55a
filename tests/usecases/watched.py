"""A service whose metrics can be read."""

from prometheus_client import CollectorRegistry

from bots_service.metrics.process import Metrics
from bots_service.wiring import use_cases
from tests.usecases.world import POOL, World


class Watched(World):
    """Use cases over a database, and what they count."""

    registry: CollectorRegistry

    @classmethod
    def over(cls, world: World) -> "Watched":
        """Return another process's memory over the same database."""
        metrics = Metrics()
        use = use_cases(world.settings, world.database, None, metrics)
        made = cls(world.folder, world.database, use, world.settings)
        made.registry = metrics.registry
        return made

    def shown(self, name: str, **labels: str) -> float | None:
        """Return the value of a series of the run `default`, None if there is none."""
        return self.registry.get_sample_value(f"bots_{name}", {"dataset": POOL, "run": "default", **labels})
