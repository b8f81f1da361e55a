"""Routes. Each declares who may call it, its kind, what it reads and answers: it can't be made without its guard."""

import re
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from typing import Any, TypeVar, cast

import structlog
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute
from starlette import types
from starlette.requests import Request
from starlette.responses import Response

from bots_service.access import Caller
from bots_service.api.requests import services_of, state_of
from bots_service.errors import Flaw, InvalidInputError, not_a_choice
from bots_service.keys import Scope

MAX_NAME_LENGTH = 128  # a refused request may contain any name
WHOLE_KEY = re.compile("(bots_[0-9a-f]+_)[0-9a-f]+", re.IGNORECASE)  # a key given where its id belongs
LOGGED_NAMES = ("dataset", "run")

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
Handler = Callable[[Request], Coroutine[Any, Any, Response]]

ANY_SCOPE = frozenset(Scope)
READS = {"GET", "HEAD"}


class RouteKind(Enum):
    """What decides a request's deadline, queue and logging."""

    CONTROL = "control"  # called by people and scripts: no queue, and a deadline of a minute
    TRAINING = "training"  # called all the time: a queue, a short deadline, and logged only if slow or refused
    UPLOAD = "upload"  # has a large body: only a few at once, without a deadline while the body arrives
    PROBE = "probe"  # answers at once, even when the service is full


# The kind of the request that is worked on here; None: this is background work.
WORKING_ON: ContextVar[RouteKind | None] = ContextVar("bots_route_kind", default=None)


class About(Enum):
    """What a route's caller must reach.

    A route whose body names a run calls `Caller.require_run` after reading it, before any lookup.
    """

    PATH = "path"  # the dataset in its path, if any, or its run there; to change a dataset takes a key for all its runs
    SHARED = "shared"  # the dataset in its path, or some of its runs: the others don't notice
    WHOLE = "whole"  # the dataset in its path, with all its runs
    EVERY = "every"  # every dataset


class Routes(list["GuardedRoute"]):
    """The routes of one file. tag: their group in the API's document; None: they are not in it."""

    def __init__(self, tag: str | None) -> None:
        super().__init__()
        self.tag = tag


@dataclass(frozen=True, slots=True)
class Route:
    """Adds the function that it decorates to some routes.

    address: method and path.
    scopes: the caller needs one of them; None: the route is open to everyone.
    answers, answers_media: the JSON body of its answer, and other media types.
    reads, lines: the JSON body that it takes, and whether it takes NDJSON, which makes it an upload.
    statuses: of its answers; by default 200, or 204 where they have no body.
    ends_with_client: whether what it does is of no use once its client has left.
    """

    routes: Routes
    address: str
    scopes: Scope | frozenset[Scope] | None
    answers: type | None = None
    _: KW_ONLY
    about: About = About.PATH
    kind: RouteKind = RouteKind.CONTROL
    reads: type | None = None
    lines: bool = False
    answers_media: tuple[str, ...] = ()
    statuses: tuple[int, ...] = ()
    ends_with_client: bool = False

    def __call__(self, endpoint: Endpoint) -> Endpoint:
        """Add the route."""
        self.routes.append(GuardedRoute(self, endpoint))
        return endpoint


class GuardedRoute(APIRoute):
    """A route that checks its caller first, so that others learn nothing, not even from a 422."""

    methods: set[str]

    def __init__(self, declared: Route, endpoint: Callable[..., Any]) -> None:
        self.declared, self.kind = declared, RouteKind.UPLOAD if declared.lines else declared.kind
        scopes, tag = declared.scopes, declared.routes.tag
        self.scopes = frozenset([scopes]) if isinstance(scopes, Scope) else scopes
        methods, path = declared.address.split(" ")
        super().__init__(
            path,
            endpoint,
            methods=methods.split("|"),
            tags=[tag] if tag else None,
            include_in_schema=tag is not None,
            response_class=Response,
            generate_unique_id_function=lambda route: route.name,  # what generated clients call its function
        )
        if self.kind is RouteKind.TRAINING:  # FastAPI's own would do much around each request that these don't need
            self.app = _answered_by(self.get_route_handler())
        if self.kind is not RouteKind.PROBE:
            self.app = self._admitted(self.app)

    def _admitted(self, app: types.ASGIApp) -> types.ASGIApp:
        async def admitted(scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
            admission, ends = state_of(scope["app"]).admission, self.declared.ends_with_client
            await admission(app, self.kind, scope, receive, send, ends_with_client=ends)

        return admitted

    def get_route_handler(self) -> Handler:
        """Return the route's function, with its guard in front.

        A training route's function is called with the request only, because FastAPI's resolution of dependencies
        costs as much as decoding the body.
        """
        is_training = self.kind is RouteKind.TRAINING
        handler = cast(Handler, self.endpoint) if is_training else super().get_route_handler()
        scopes, about = self.scopes, self.declared.about
        if scopes is None:
            return handler
        known = sorted({field.alias for field in get_flat_params(self.dependant)}.difference(self.param_convertors))

        async def answer(request: Request) -> Response:
            scheme, _, key = request.headers.get("authorization", "").partition(" ")
            presented = key.strip() if scheme.lower() == "bearer" else None
            caller = await services_of(request).access.authenticate(presented)
            request.state.caller = caller
            if caller.key is not None:
                structlog.contextvars.bind_contextvars(key=caller.key)
            log_names(request, request.path_params)  # only now: callers without a key can't write names into the log
            caller.require_scope(scopes)
            if about is About.EVERY:
                caller.require_every_dataset()
            elif (dataset := request.path_params.get("dataset")) is not None:
                run = None if about is About.WHOLE else request.path_params.get("run")
                if run is None and (about is About.SHARED or (about is About.PATH and self.methods <= READS)):
                    caller.require_dataset(dataset)
                else:
                    caller.require_run(dataset, run)
            if request.scope["query_string"]:
                unknown, none = request.query_params.keys() - known, "this route takes no parameters"
                flaws = (
                    Flaw(("query", name), not_a_choice(name, known) if known else none) for name in sorted(unknown)
                )
                InvalidInputError.refuse("unknown parameter", flaws)
            return await handler(request)

        return answer


def _answered_by(handler: Handler) -> types.ASGIApp:
    async def answered(scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        response = await handler(Request(scope, receive, send))
        await response(scope, receive, send)

    return answered


def caller_of(request: Request) -> Caller:
    """Return the request's caller."""
    caller: Caller = request.state.caller
    return caller


def log_names(request: Request, names: Mapping[str, str]) -> None:
    """Add the names of dataset and run, without any key, to the request's further log lines."""
    is_operators = services_of(request).access.is_operators

    def shown(value: str) -> str:
        return "*" if is_operators(value) else WHOLE_KEY.sub(r"\1*", value)[:MAX_NAME_LENGTH]

    structlog.contextvars.bind_contextvars(**{name: shown(names[name]) for name in LOGGED_NAMES if name in names})
