"""The FastAPI application, and what is around every request: an id, a log line, a proper answer to every failure."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache, partial
from http import HTTPStatus

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.telemetry import TelemetryConfig
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bots_service.api import openapi, overload
from bots_service.api.problems import problem_response
from bots_service.api.requests import AppState, PacedReceive, finish_headers, in_words, request_id_of, state_of
from bots_service.api.routes import datasets, runs, service, training
from bots_service.api.routing import READS, GuardedRoute, RouteKind
from bots_service.errors import Flaw, InternalError, InvalidInputError, MethodNotAllowedError, NotFoundError
from bots_service.metrics import Metrics, RequestMetrics
from bots_service.services import Services

log = structlog.get_logger("bots_service.access")

ROUTES: tuple[GuardedRoute, ...] = (
    *training.routes,
    *datasets.routes,
    *runs.routes,
    *service.keys,
    *service.routes,
    *service.for_browsers,
)

# FastAPI's own traces would contain queries and exception messages, and so user data; ours contain neither.
NO_TELEMETRY: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}


def create_app(
    open_services: Callable[[], AbstractAsyncContextManager[Services]],
    *,
    schema: str,
    admission: overload.Admission,
    upload_bytes: int,
    metrics: Metrics,
) -> FastAPI:
    """Return the application, which opens the services at its start. schema: revision of the database's tables."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_services() as services:
            state_of(app).services = services
            yield

    app = FastAPI(
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry=NO_TELEMETRY,
    )
    app.state.typed = AppState(upload_bytes, schema, metrics, admission)
    app.router.routes += ROUTES  # `include_router` makes a copy of each, for the first request to wait for
    metrics.requests.watch_line(lambda: admission.training.waiting)
    app.add_middleware(RequestScope, line=admission.training, metrics=metrics.requests)
    app.exception_handlers |= {
        RequestValidationError: _answer_invalid,
        HTTPException: _answer_http,
    }
    app.openapi = cache(partial(openapi.document, ROUTES))  # type: ignore[method-assign]  # FastAPI's documented way
    return app


async def _answer_invalid(request: Request, error: RequestValidationError) -> Response:
    flaws = tuple(Flaw(tuple(flaw["loc"]), in_words(str(flaw["msg"]))) for flaw in error.errors())
    return problem_response(request, InvalidInputError("invalid parameter", flaws))


async def _answer_http(request: Request, error: HTTPException) -> Response:
    """Answer a request that the framework refuses: it knows the method of no route, or no route."""
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        # Those of all routes with this path; the framework only names those of the first.
        matching = (route.methods for route in ROUTES if route.matches(request.scope)[0] is not Match.NONE)
        allowed = ", ".join(sorted(set().union(*matching)))
        detail = f"{request.method[:20]} is not allowed here; use {allowed}"
        return problem_response(request, MethodNotAllowedError(detail), headers={"Allow": allowed})
    return problem_response(request, NotFoundError(f"no route matches {request.url.path[:200]}"))


# --- around every request ---------------------------------------------------------------------------------------------

# Trainers call a thousand times a second, and probes, Prometheus and open pages read all the time. A line for each
# successful request would cost trainers a tenth of the speed, and hide all other lines.
SLOW_S = 1.0  # a trainer's GPUs are idle that long
TELL_EVERY_S = 1.0


class RequestScope:
    """ASGI middleware: sets the request id, measures, counts and logs the request, and answers 500 if nothing did.

    The log line contains the route's template, never the query or a header. Selects and reports go straight to their
    route, for FastAPI's own way there takes as long as decoding their bodies; while their queue is full, they are
    answered 503 at once.
    """

    def __init__(self, app: ASGIApp, line: overload.RequestQueue, metrics: RequestMetrics) -> None:
        self._app = app
        self._line = line
        self._metrics = metrics
        self._training = {route.path: route for route in ROUTES if route.kind is RouteKind.TRAINING}
        self._refused, self._told_at = 0, 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0
        request_id = request_id_of(scope)
        app, route = self._app, self._training.get(scope["path"])
        if route is not None:
            if self._line.is_full:
                await self._refuse(scope, receive, send, request_id)
                return
            if scope["method"] in route.methods:
                scope.update(route=route, path_params={})
                app = route.app

        async def send_named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                finish_headers(MutableHeaders(scope=message), request_id)
            await send(message)

        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request_id)
        try:
            await app(scope, receive, send_named)
        except Exception:
            log.exception("request_failed")
            if status:
                raise  # half an answer is sent: only a broken connection informs the client
            unexpected = InternalError("an unexpected error; the log has the details")
            response = problem_response(Request(scope), unexpected)
            await response(scope, receive, send_named)
        finally:
            seconds = time.perf_counter() - started
            self._metrics.answered(scope["method"], _template_of(scope), status, seconds)
            _log_access(scope, status, seconds)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        """Answer that too many requests wait; log one line for all refusals of a second."""
        self._refused += 1
        if time.monotonic() - self._told_at > TELL_EVERY_S:
            log.warning("overloaded", refused=self._refused)
            self._refused, self._told_at = 0, time.monotonic()
        response = problem_response(Request(scope), self._line.refusal())
        finish_headers(response.headers, request_id)
        self._metrics.answered(scope["method"], scope["path"], response.status_code, 0.0)
        pace = PacedReceive(receive, is_complete=overload.has_no_body(scope))
        await response(scope, receive, overload.LingeringClose(scope, pace, send))


def _template_of(scope: Scope) -> str | None:
    template: str | None = getattr(scope.get("route"), "path", None)
    return template


def _log_access(scope: Scope, status: int, seconds: float) -> None:
    is_training = getattr(scope.get("route"), "kind", None) is RouteKind.TRAINING
    if not status:
        write = log.info  # the client disconnected before the answer
    elif status >= 500:
        write = log.error
    elif status >= 400 or (is_training and seconds > SLOW_S):
        write = log.warning
    else:
        write = log.debug if scope["method"] in READS or is_training else log.info
    write("request", method=scope["method"], route=_template_of(scope), status=status, ms=round(seconds * 1000, 2))
