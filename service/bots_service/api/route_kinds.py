"""Kinds of routes, which decide a request's deadline, queue and logging."""

from collections.abc import Iterable
from contextvars import ContextVar
from enum import Enum
from typing import TYPE_CHECKING

from starlette.types import Scope

if TYPE_CHECKING:
    from bots_service.api.security import GuardedRoute


class RouteKind(Enum):
    """A kind of route, set in the route's decorator."""

    CONTROL = "control"
    """Called by people and scripts: no queue, and a deadline of a minute."""
    TRAINING = "training"
    """Called by trainers all the time: has a queue and a short deadline, and is logged only if slow or refused."""
    UPLOAD = "upload"
    """Has a large body: only a few at once, without a deadline while the body arrives."""
    PROBE = "probe"
    """Answers at once, even when the service is full; never traced."""
    METRICS = "metrics"
    """Read by Prometheus: treated as CONTROL, but never traced."""


WORKING_ON: ContextVar[RouteKind | None] = ContextVar("bots_route_kind", default=None)
"""The kind of the request that is worked on here; None: this is background work."""

MACHINES = frozenset({RouteKind.PROBE, RouteKind.METRICS})
"""Kinds that machines poll, and that nobody waits for."""


class RouteKinds:
    """Finds the kind of a request's route, before the router runs."""

    def __init__(self, routes: Iterable["GuardedRoute"]) -> None:
        """Index the routes.

        Args:
            routes: all routes of the application.
        """
        special = [(route, route.kind) for route in routes if route.kind is not RouteKind.CONTROL]
        self._fixed = {route.path: (route.methods, kind) for route, kind in special if "{" not in route.path}
        self._templates = [(route.path_regex, route.methods, kind) for route, kind in special if "{" in route.path]

    def __call__(self, scope: Scope) -> RouteKind:
        """Return the kind of the request's route; CONTROL if no route has this path and method.

        The method is ignored for probes and metrics, so that refusing another method is as cheap.
        """
        path, method = scope["path"], scope["method"]
        if path in self._fixed:
            methods, kind = self._fixed[path]
            return kind if method in methods or kind in MACHINES else RouteKind.CONTROL
        for regex, methods, kind in self._templates:
            if method in methods and regex.match(path):
                return kind
        return RouteKind.CONTROL
