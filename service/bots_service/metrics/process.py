"""One process's metrics: a registry of its own, and what stands on it."""

import platform
from collections.abc import Callable, Mapping

import numpy as np
from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from bots_service import __version__
from bots_service.metrics.training import TrainingMetrics

MEDIA_TYPE = CONTENT_TYPE_PLAIN_0_0_4
BUCKETS_S = (0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
NO_ROUTE = "(none)"
METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}
CLIENT_LEFT = 499  # nginx's number for a client that went away before it was answered


class RequestMetrics:
    """What requests leave behind in this process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Count on a registry."""
        self._registry = registry
        self._requests = Counter(
            "bots_http_requests_total",
            "Requests by method, route and status.",
            ["method", "route", "status"],
            registry=registry,
        )
        self._seconds = Histogram(
            "bots_http_request_duration_seconds",
            "Time from a request's headers to the end of its answer.",
            ["method", "route"],
            registry=registry,
            buckets=BUCKETS_S,
        )

    def answered(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count a request. route: the template of its path; status: 0 where the client went away before the answer."""
        method = method if method in METHODS else "other"
        self._requests.labels(method, route or NO_ROUTE, status or CLIENT_LEFT).inc()
        self._seconds.labels(method, route or NO_ROUTE).observe(seconds)

    def watch_line(self, waiting: Callable[[], float]) -> None:
        """Show how many selects and reports wait, whenever Prometheus asks."""
        says = "Selects and reports that wait for their turn."
        Gauge("bots_waiting_requests", says, registry=self._registry).set_function(waiting)


class Metrics:
    """All that one process counts. registry: what it stands on."""

    def __init__(self) -> None:
        # When each series began: as many samples again, which nobody looks at.
        disable_created_metrics()  # type: ignore[no-untyped-call]  # its authors left the type out
        self.registry = CollectorRegistry()
        self.training = TrainingMetrics(self.registry)
        self.requests = RequestMetrics(self.registry)
        ProcessCollector(registry=self.registry)
        Info("bots_build", "The versions that run here; always 1.", registry=self.registry).info(
            {"version": __version__, "python": platform.python_version(), "numpy": np.__version__}
        )
        says = "Whether a store answered when it was looked at last."
        self._store_up = Gauge("bots_store_up", says, ["store"], registry=self.registry)
        self._stores: Callable[[], Mapping[str, bool]] = dict

    def text(self) -> bytes:
        """Return all of it in Prometheus's text format."""
        self.training.runs.forget_idle()
        self._store_up.clear()
        for store, answers in self._stores().items():
            self._store_up.labels(store).set(answers)
        return generate_latest(self.registry)

    def watch(self, is_ready: Callable[[], bool], stores: Callable[[], Mapping[str, bool]]) -> None:
        """Show whether this process wants requests, and which stores answered last, whenever Prometheus asks."""
        self._stores = stores
        gauge = Gauge("bots_ready", "Whether this process wants requests.", registry=self.registry)
        gauge.set_function(lambda: float(is_ready()))
