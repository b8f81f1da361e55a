"""Requests over HTTP, counted by the template of their route: never by what users write into an address."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

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
        """Count a request.

        Args:
            method: as the client wrote it.
            route: the template of its path; None where there is no such route.
            status: of the answer; 0 where the client went away before it.
            seconds: how long it took.
        """
        method = method if method in METHODS else "other"
        self._requests.labels(method, route or NO_ROUTE, status or CLIENT_LEFT).inc()
        self._seconds.labels(method, route or NO_ROUTE).observe(seconds)

    def watch_line(self, working: Callable[[], float], waiting: Callable[[], float]) -> None:
        """Show how many selects and reports are worked on and wait, whenever Prometheus asks."""
        for name, says, count in (
            ("working_requests", "Selects and reports that are being worked on.", working),
            ("waiting_requests", "Selects and reports that wait for their turn.", waiting),
        ):
            Gauge(f"bots_{name}", says, registry=self._registry).set_function(count)
