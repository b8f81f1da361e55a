"""How often what was asked for was in this process's memory already."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter


@dataclass(frozen=True, slots=True)
class Cache:
    """What is counted of one cache."""

    hits: Counter
    misses: Counter

    def looked_up(self, *, found: bool) -> None:
        """Count one look."""
        (self.hits if found else self.misses).inc()


class Caches:
    """What is counted of the caches that requests wait for.

    datasets: that are open; states: of runs, decoded; keys: that are known.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        """Count on a registry."""
        hits = Counter("bots_cache_hits_total", "Looks that found it in memory.", ["cache"], registry=registry)
        misses = Counter("bots_cache_misses_total", "Looks that had to ask a store.", ["cache"], registry=registry)
        self.datasets, self.states, self.keys = (
            Cache(hits.labels(name), misses.labels(name)) for name in ("datasets", "states", "keys")
        )
