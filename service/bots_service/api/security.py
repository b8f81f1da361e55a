"""Who may call which route, and what kind it is. A route says both in its decorator; without it no route is made."""

import re
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar, cast

import structlog
from fastapi.routing import APIRoute, APIRouter
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope as ASGIScope

from bots_service.api.parameters import use_cases_of
from bots_service.api.route_kinds import RouteKind
from bots_service.ports.keys import Scope
from bots_service.spans import tell_request
from bots_service.usecases.authenticate import Caller

log = structlog.get_logger("bots_service.audit")


LONGEST_NAME = 128  # a refused request may name anything
WHOLE_KEY = re.compile("(bots_[0-9a-f]+_)[0-9a-f]+", re.IGNORECASE)  # put where its id belongs
TOLD = ("dataset", "run")


def without_key(request: Request, name: str) -> str:
    """Return a name as it may be told."""
    if use_cases_of(request).authenticate.is_operators(name):
        return "*"
    return WHOLE_KEY.sub(r"\1*", name)[:LONGEST_NAME]


def tell_names(request: Request, names: Mapping[str, str]) -> None:
    """Put the dataset and the run, where they are named, on everything that is told of this request from now on."""
    told = {name: without_key(request, names[name]) for name in TOLD if name in names}
    if told:
        structlog.contextvars.bind_contextvars(**told)
        tell_request(told)


def log_act(scope: ASGIScope, status: int) -> None:
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


Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
Handler = Callable[[Request], Coroutine[Any, Any, Response]]

ANY_SCOPE = tuple(Scope)


class About(Enum):
    """Which dataset a route is about."""

    PATH = "path"
    """The one that its path names."""
    BODY = "body"
    """The one that its body names: the route calls `require_dataset` once it has read that."""
    NONE = "none"
    """None, or those that the route picks for its caller."""
    EVERY = "every"
    """All of them: only a key for every dataset opens it."""


@dataclass(frozen=True, slots=True)
class Guard:
    """What a route asks of its caller, and how its requests are let in.

    scopes: one of them is needed; None: the route is open to everybody.
    audited: each call leaves a line in the log, whatever became of it.
    """

    scopes: frozenset[Scope] | None
    about: About
    audited: bool
    kind: RouteKind


_GUARD = "__bots_guard__"


def allowed(
    *scopes: Scope, about: About = About.PATH, kind: RouteKind = RouteKind.CONTROL, audited: bool = False
) -> Callable[[Endpoint], Endpoint]:
    """Let only callers in that have one of the scopes, for the dataset that the route is about."""
    return _guarded_by(Guard(frozenset(scopes), about, audited, kind))


def open_to_all(kind: RouteKind = RouteKind.CONTROL) -> Callable[[Endpoint], Endpoint]:
    """Let everybody in: for probes, whose callers have no key, and for the page, which asks for one."""
    return _guarded_by(Guard(None, About.NONE, audited=False, kind=kind))


def _guarded_by(guard: Guard) -> Callable[[Endpoint], Endpoint]:
    def declare(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _GUARD, guard)
        return endpoint

    return declare


class GuardedRoute(APIRoute):
    """A route that looks at its caller before anything else, so that a stranger learns nothing, not even by a 422."""

    methods: set[str]

    def get_route_handler(self) -> Handler:
        """Return the route's function behind its guard.

        Raises:
            ValueError: the route does not say whom it lets in.
        """
        guard, handler = self.guard, self.handler()
        scopes = guard.scopes
        if scopes is None:
            return handler

        async def answer(request: Request) -> Response:
            caller = await use_cases_of(request).authenticate(presented_key(request))
            request.state.caller = caller
            tell_names(request, request.path_params)  # not before: strangers write no names into the log
            caller.require_scope(scopes)
            if guard.about is About.PATH:
                caller.require_dataset(request.path_params["dataset"])
            elif guard.about is About.EVERY:
                caller.require_every_dataset()
            return await handler(request)

        return answer

    @property
    def guard(self) -> Guard:
        """What the route asks of its caller.

        Raises:
            ValueError: it does not say so.
        """
        guard: Guard | None = getattr(self.endpoint, _GUARD, None)
        if guard is None:
            raise ValueError(f"{self.path} does not say whom it lets in: put @allowed(...) below its decorator")
        if guard.scopes is not None and (guard.about is About.PATH) != ("{dataset}" in self.path):
            raise ValueError(f"{self.path}: @allowed(about={guard.about}) does not fit a path like this")
        return guard

    @property
    def kind(self) -> RouteKind:
        """How its requests are let in."""
        return self.guard.kind

    def handler(self) -> Handler:
        """Return the route's function, as FastAPI calls it.

        A training route's function is called with the request and nothing else: FastAPI's solving of dependencies
        costs as much as decoding the body.
        """
        if self.kind is RouteKind.TRAINING:
            return cast(Handler, self.endpoint)
        return super().get_route_handler()


def guarded_router(**options: Any) -> APIRouter:
    """Return a router whose routes must all say whom they let in."""
    return APIRouter(route_class=GuardedRoute, **options)


def guarded(router: APIRouter) -> Iterator[GuardedRoute]:
    """Yield the routes of a router.

    Raises:
        ValueError: one has no guard.
    """
    for route in router.routes:
        if not isinstance(route, GuardedRoute):
            raise ValueError(f"{getattr(route, 'path', route)} has no guard: make it with a router of guarded_router()")
        yield route


def presented_key(request: Request) -> str | None:
    """Return the key that came with the request, None without one."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


def caller_of(request: Request) -> Caller:
    """Return who sent the request."""
    caller: Caller = request.state.caller
    return caller


def require_dataset(request: Request, dataset: str) -> None:
    """Check that the caller reaches the dataset that the body names; before anything is looked up.

    Raises:
        ForbiddenError: it doesn't.
    """
    caller_of(request).require_dataset(dataset)
