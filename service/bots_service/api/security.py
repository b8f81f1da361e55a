"""Access to routes. Each route declares in its decorator who may call it, and its kind; it can't be created without."""

import re
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar, cast

import structlog
from fastapi.routing import APIRoute, APIRouter
from starlette import types
from starlette.requests import Request
from starlette.responses import Response

from bots_service.access import Caller
from bots_service.api.parameters import services_of
from bots_service.api.route_kinds import RouteKind
from bots_service.keys import Scope

MAX_NAME_LENGTH = 128  # a refused request may contain any name
WHOLE_KEY = re.compile("(bots_[0-9a-f]+_)[0-9a-f]+", re.IGNORECASE)  # a key given where its id belongs
LOGGED_NAMES = ("dataset", "run")
LOGGED = (*LOGGED_NAMES, "key")


def without_key(request: Request, name: str) -> str:
    """Return a name without secrets, for logs."""
    if services_of(request).access.is_operators(name):
        return "*"
    return WHOLE_KEY.sub(r"\1*", name)[:MAX_NAME_LENGTH]


def log_names(request: Request, names: Mapping[str, str]) -> None:
    """Add the names of dataset and run to the request's further log lines."""
    names_to_log = {name: without_key(request, names[name]) for name in LOGGED_NAMES if name in names}
    if names_to_log:
        structlog.contextvars.bind_contextvars(**names_to_log)


Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
Handler = Callable[[Request], Coroutine[Any, Any, Response]]

ANY_SCOPE = tuple(Scope)


class About(Enum):
    """The dataset that a route accesses."""

    PATH = "path"
    """The one in its path, or its run there. What changes a dataset takes a key for all of its runs."""
    SHARED = "shared"
    """The one in its path. A key for some of its runs is enough: other runs don't notice."""
    WHOLE = "whole"
    """The one in its path, with all its runs."""
    BODY = "body"
    """The one in its body: the route calls `Caller.require_run` after reading it, before any lookup."""
    NONE = "none"
    """None, or those that the route filters for its caller."""
    EVERY = "every"
    """All of them: the key needs access to every dataset."""


IN_PATH = (About.PATH, About.SHARED, About.WHOLE)


@dataclass(frozen=True, slots=True)
class Guard:
    """A route's requirements for its caller, and its kind.

    scopes: the caller needs one of them; None: the route is open to everyone.
    """

    scopes: frozenset[Scope] | None
    about: About
    kind: RouteKind


_GUARD = "__bots_guard__"


def allowed(
    *scopes: Scope, about: About = About.PATH, kind: RouteKind = RouteKind.CONTROL
) -> Callable[[Endpoint], Endpoint]:
    """Allow only callers with one of the scopes, for the route's dataset."""
    return _guarded_by(Guard(frozenset(scopes), about, kind))


def open_to_all(kind: RouteKind = RouteKind.CONTROL) -> Callable[[Endpoint], Endpoint]:
    """Allow everyone: for probes, whose callers have no key, and for the page, which asks for one."""
    return _guarded_by(Guard(None, About.NONE, kind))


def _guarded_by(guard: Guard) -> Callable[[Endpoint], Endpoint]:
    def declare(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _GUARD, guard)
        return endpoint

    return declare


class GuardedRoute(APIRoute):
    """A route that checks its caller first, so that others learn nothing, not even from a 422."""

    methods: set[str]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Create it; the parameters are those of FastAPI."""
        super().__init__(*arguments, **options)
        if self.kind is RouteKind.TRAINING:
            self.app = _plain(self.get_route_handler())

    def get_route_handler(self) -> Handler:
        """Return the route's function, with its guard in front.

        Raises:
            ValueError: the route has no guard.
        """
        guard, handler = self.guard, self.handler()
        scopes = guard.scopes
        if scopes is None:
            return handler

        async def answer(request: Request) -> Response:
            caller = await services_of(request).access.authenticate(presented_key(request))
            request.state.caller = caller
            if caller.key is not None:
                structlog.contextvars.bind_contextvars(key=caller.key)
            log_names(request, request.path_params)  # only now: callers without a key can't write names into the log
            caller.require_scope(scopes)
            if guard.about in IN_PATH:
                self._require_path(request, caller)
            elif guard.about is About.EVERY:
                caller.require_every_dataset()
            return await handler(request)

        return answer

    def _require_path(self, request: Request, caller: Caller) -> None:
        dataset, about = request.path_params["dataset"], self.guard.about
        run = None if about is About.WHOLE else request.path_params.get("run")
        reads = about is About.PATH and self.methods <= {"GET", "HEAD"}
        if run is None and (reads or about is About.SHARED):
            caller.require_dataset(dataset)
        else:
            caller.require_run(dataset, run)

    @property
    def guard(self) -> Guard:
        """The route's requirements for its caller.

        Raises:
            ValueError: it has none, or they don't fit its path.
        """
        guard: Guard | None = getattr(self.endpoint, _GUARD, None)
        if guard is None:
            raise ValueError(f"{self.path} has no guard: put @allowed(...) below its decorator")
        if guard.scopes is not None and (guard.about in IN_PATH) != ("{dataset}" in self.path):
            raise ValueError(f"{self.path}: @allowed(about={guard.about}) does not fit a path like this")
        return guard

    @property
    def kind(self) -> RouteKind:
        """Its kind."""
        return self.guard.kind

    def handler(self) -> Handler:
        """Return the route's function in the form that FastAPI calls.

        A training route's function is called with the request only, because FastAPI's resolution of dependencies
        costs as much as decoding the body.
        """
        if self.kind is RouteKind.TRAINING:
            return cast(Handler, self.endpoint)
        return super().get_route_handler()


def _plain(handler: Handler) -> types.ASGIApp:
    """Return a handler as an application, without what FastAPI does around each: a training route needs none of it."""

    async def app(scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        response = await handler(Request(scope, receive, send))
        await response(scope, receive, send)

    return app


def guarded_router(**options: Any) -> APIRouter:
    """Return a router whose routes must all have a guard, and make their responses themselves."""
    return APIRouter(
        route_class=GuardedRoute,
        default_response_class=Response,
        generate_unique_id_function=lambda route: route.name,  # what generated clients call its function,
        **options,
    )


def guarded(router: APIRouter) -> Iterator[GuardedRoute]:
    """Yield the routes of a router.

    Raises:
        ValueError: a route has no guard.
    """
    for route in router.routes:
        if not isinstance(route, GuardedRoute):
            raise ValueError(
                f"{getattr(route, 'path', route)} has no guard: create it with a router of guarded_router()"
            )
        yield route


def presented_key(request: Request) -> str | None:
    """Return the request's API key; None if it has none."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


def caller_of(request: Request) -> Caller:
    """Return the request's caller."""
    caller: Caller = request.state.caller
    return caller
