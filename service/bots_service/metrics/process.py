"""One process's metrics: a registry of its own, and what stands on it."""

import platform
from collections.abc import Callable, Mapping

import numpy as np
from prometheus_client import CollectorRegistry, Gauge, Info, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from bots_service import __version__
from bots_service.metrics.exposition import exposition
from bots_service.metrics.requests import RequestMetrics
from bots_service.metrics.training import TrainingMetrics


class Metrics:
    """All that one process counts. registry: what it stands on."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.training = TrainingMetrics(self.registry)
        self.requests = RequestMetrics(self.registry)
        ProcessCollector(registry=self.registry)
        Info("bots_build", "What runs here.", registry=self.registry).info(
            {"version": __version__, "python": platform.python_version(), "numpy": np.__version__}
        )

    def text(self) -> bytes:
        """Return all of it in Prometheus's text format."""
        self.training.runs.forget_idle()
        return exposition(self.registry)

    def watch_stores(self, checks: Callable[[], Mapping[str, bool]]) -> None:
        """Show which stores answer, whenever Prometheus asks.

        Args:
            checks: returns for each store whether it answered when it was looked at last.
        """
        self.registry.register(_StoresUp(checks))

    def watch_state(self, is_ready: Callable[[], bool]) -> None:
        """Show whether this process wants requests, whenever Prometheus asks."""
        gauge = Gauge("bots_ready", "Whether this process wants requests.", registry=self.registry)
        gauge.set_function(lambda: float(is_ready()))


class _StoresUp(Collector):
    def __init__(self, checks: Callable[[], Mapping[str, bool]]) -> None:
        self._checks = checks

    def describe(self) -> list[GaugeMetricFamily]:
        return [self._family()]

    def collect(self) -> list[GaugeMetricFamily]:
        family = self._family()
        for store, answers in self._checks().items():
            family.add_metric([store], float(answers))
        return [family]

    def _family(self) -> GaugeMetricFamily:
        return GaugeMetricFamily(
            "bots_store_up", "Whether a store answered when it was looked at last.", labels=["store"]
        )
