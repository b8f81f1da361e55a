"""One line in the log for each act of an administrator: who did what to what, and what became of it. Never a key."""

import structlog
from starlette.requests import Request
from starlette.types import Scope

from bots_service.api.named import without_key
from bots_service.api.security import GuardedRoute

log = structlog.get_logger("bots_service.audit")


def log_act(scope: Scope, status: int) -> None:
    """Write the line of a request that was answered with this status (0: not at all), if its route is audited.

    The request's id stands on the line as on every other.
    """
    route = scope.get("route")
    if not isinstance(route, GuardedRoute) or not route.guard.audited:
        return
    state = scope.get("state", {})
    caller = state.get("caller")
    named = {name: without_key(Request(scope), value) for name, value in scope.get("path_params", {}).items()}
    key = None if caller is None else caller.key
    log.info("audit", act=route.name, key=key, status=status, **{**named, **state.get("audited", {})})


def tell_audit(request: Request, **facts: str) -> None:
    """Put more on the request's line than its path says."""
    request.state.audited = facts
