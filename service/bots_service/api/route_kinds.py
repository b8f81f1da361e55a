"""What kind of work a route does: it decides how long a request may take, where it waits, and what is logged of it."""

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING

from starlette.types import Scope

if TYPE_CHECKING:
    from bots_service.api.security import GuardedRoute


class RouteKind(Enum):
    """A kind of route; each route names its kind in its decorator."""

    CONTROL = "control"
    """Called by people and scripts: no turn is needed, and a call may take a minute."""
    TRAINING = "training"
    """Called by trainers all the time: waits for a turn, has a short deadline, is logged only if slow or refused."""
    UPLOAD = "upload"
    """Brings a large body: a few at once, with no deadline while the body comes."""
    PROBE = "probe"
    """Answers at once, even when the service is full; never traced."""
    METRICS = "metrics"
    """Read by Prometheus: treated as CONTROL, but never traced."""


MACHINES = frozenset({RouteKind.PROBE, RouteKind.METRICS})
"""Kinds that machines ask for ever and that nobody waits for."""


class RouteKinds:
    """Finds the kind of the route that a request is for, before the router has looked at it."""

    def __init__(self, routes: Iterable["GuardedRoute"]) -> None:
        """Index the routes.

        Args:
            routes: all of the application's.
        """
        special = [(route, route.kind) for route in routes if route.kind is not RouteKind.CONTROL]
        self._fixed = {route.path: (route.methods, kind) for route, kind in special if "{" not in route.path}
        self._templates = [(route.path_regex, route.methods, kind) for route, kind in special if "{" in route.path]

    def __call__(self, scope: Scope) -> RouteKind:
        """Return the kind of the request's route; CONTROL if no route has this address and method.

        The method doesn't matter for probes and metrics: a refusal of another method must cost as little.
        """
        path, method = scope["path"], scope["method"]
        if path in self._fixed:
            methods, kind = self._fixed[path]
            return kind if method in methods or kind in MACHINES else RouteKind.CONTROL
        for regex, methods, kind in self._templates:
            if method in methods and regex.match(path):
                return kind
        return RouteKind.CONTROL
