"""The FastAPI application."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from bots_service import __version__
from bots_service.api import openapi
from bots_service.api.middleware import RequestScope
from bots_service.api.overload import DOWNLOADS_AT_ONCE, DOWNLOADS_WAITING, Admission, Limits, Line
from bots_service.api.problems import INTERNAL, METHOD_NOT_ALLOWED, NO_SUCH_ROUTE, Kind, answer_error, problem_response
from bots_service.api.requests import AppState, state_of
from bots_service.api.routes import datasets, insight, keys, runs, service, tasks, training
from bots_service.api.routing import GuardedRoute, RouteKinds
from bots_service.api.uploads import UploadLimits
from bots_service.errors import BotsError, Flaw, InvalidInputError
from bots_service.metrics import Metrics
from bots_service.services import Services

ROUTES: tuple[GuardedRoute, ...] = (
    *training.routes,
    *datasets.routes,
    *runs.routes,
    *insight.routes,
    *tasks.routes,
    *keys.routes,
    *service.routes,
    *service.for_browsers,
)

TITLE = "BOTS selector"
DESCRIPTION = "BOTS picks the RL tasks your model can learn from right now."

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
    uploads: UploadLimits,
    schema: str,
    limits: Limits,
    metrics: Metrics,
) -> FastAPI:
    """Return the application, which opens the services at its start. schema: revision of the database's tables."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with open_services() as services:
            state_of(app).services = services
            yield

    app = FastAPI(
        title=TITLE,
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry=NO_TELEMETRY,
    )
    line = Line(concurrent=limits.max_concurrent, waiting=limits.max_waiting)
    downloads = Line(concurrent=DOWNLOADS_AT_ONCE, waiting=DOWNLOADS_WAITING)
    app.state.typed = AppState(uploads, schema, metrics, line, downloads)
    app.router.routes += ROUTES  # `include_router` makes a copy of each, for the first request to wait for
    metrics.requests.watch_line(lambda: line.waiting)
    kinds = RouteKinds(ROUTES)
    # The last one added is the outermost.
    app.add_middleware(Admission, kind_of=kinds, line=line, limits=limits)
    app.add_middleware(RequestScope, kind_of=kinds, line=line, metrics=metrics.requests)
    app.add_exception_handler(BotsError, answer_error)
    app.add_exception_handler(RequestValidationError, _answer_invalid)
    app.add_exception_handler(HTTPException, _answer_http)
    app.openapi = api_document  # type: ignore[method-assign]  # FastAPI's documented way to set a custom document
    return app


@cache
def api_document() -> dict[str, Any]:
    """Return the OpenAPI document, which is the same for all applications."""
    return openapi.document(ROUTES, title=TITLE, version=__version__, description=DESCRIPTION)


async def _answer_invalid(request: Request, error: Exception) -> Response:
    """Answer a request with an invalid path, query or header."""
    if not isinstance(error, RequestValidationError):
        raise error
    flaws = tuple(Flaw(tuple(flaw["loc"]), str(flaw["msg"])[:200]) for flaw in error.errors())
    return await answer_error(request, InvalidInputError("invalid parameter", flaws))


async def _answer_http(request: Request, error: Exception) -> Response:
    """Answer a request that the framework refuses: unknown route or method."""
    if not isinstance(error, HTTPException):
        raise error
    path = request.url.path
    if error.status_code == NO_SUCH_ROUTE.status:
        return problem_response(request, NO_SUCH_ROUTE, f"no route matches {path[:200]}")
    if error.status_code == METHOD_NOT_ALLOWED.status:
        allowed = ", ".join(sorted(_methods(request)))
        detail = f"{request.method[:20]} is not allowed here; use {allowed}"
        return problem_response(request, METHOD_NOT_ALLOWED, detail, headers={"Allow": allowed})
    kind = Kind(error.status_code, "refused", "The request was refused") if error.status_code < 500 else INTERNAL
    return problem_response(request, kind, str(error.detail)[:200])


def _methods(request: Request) -> set[str]:
    """Return the methods of all routes with this path; the framework only names those of the first."""
    matching = [route.methods for route in ROUTES if route.matches(request.scope)[0] is not Match.NONE]
    return {method for methods in matching for method in methods}
