"""The service itself: probes, metrics and versions, pruning; the API's documentation and the page, for browsers."""

import asyncio
import platform
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.staticfiles import StaticFiles

from bots_service import __version__
from bots_service.api.problems import NO_SUCH_ROUTE, problem_response
from bots_service.api.requests import read_json, services_of, state_of
from bots_service.api.responses import json_response
from bots_service.api.routing import ANY_SCOPE, About, Route, RouteKind, Routes
from bots_service.keys import Scope
from bots_service.metrics import MEDIA_TYPE
from bots_service.prune import PrunedRun
from bots_service.readiness import Ready
from bots_service.retention import DOCS_CACHED_S

routes, for_browsers = Routes("service"), Routes(None)


class LivenessResponse(Struct, frozen=True):
    """The process serves requests.

    status: always "ok".
    """

    status: str


class VersionResponse(Struct, frozen=True):
    """What the service runs on.

    version: of the service.
    python: the version of Python.
    numpy: the version of numpy.
    schema: the revision of the database's tables.
    """

    version: str
    python: str
    numpy: str
    schema: str


@Route(routes, "GET /livez", "Check that the process serves requests", None, LivenessResponse, kind=RouteKind.PROBE)
async def tell_alive() -> Response:
    """Answer at once, whatever state the database is in."""
    return json_response(LivenessResponse("ok"))


@Route(
    routes,
    "GET /readyz",
    "Check whether to send requests",
    None,
    Ready,
    kind=RouteKind.PROBE,
    meanings={200: "Send requests.", 503: "Send none."},
)
async def tell_ready(request: Request) -> Response:
    """Say whether requests should be sent here, as checked at most two seconds ago."""
    found = services_of(request).readiness()
    return json_response(found, 200 if found.is_ready else 503)


@Route(routes, "GET /version", "Show the versions", ANY_SCOPE, VersionResponse)
async def tell_version(request: Request) -> Response:
    """Return the versions; draws can be repeated on the same version of numpy."""
    return json_response(
        VersionResponse(__version__, platform.python_version(), np.__version__, state_of(request.app).schema)
    )


@Route(
    routes,
    "GET /metrics",
    "Get the metrics",
    Scope.READ,
    about=About.EVERY,
    answers_media={MEDIA_TYPE: {"schema": {"type": "string"}, "example": "bots_requests_waiting 0.0\n"}},
    meanings={200: "All metrics, in Prometheus's text format."},
)
async def tell_metrics(request: Request) -> Response:
    """Return the metrics of all workers of this service, without asking a store."""
    state = state_of(request.app)
    text = state.metrics.text() if state.metrics_of_all is None else await state.metrics_of_all()
    return Response(text, media_type=MEDIA_TYPE)


class PruneRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What to remove.

    dry_run: only report what would be removed.
    keep_journal_days: keep entries younger than this; default: BOTS_KEEP_JOURNAL_DAYS.
    """

    dry_run: bool = False
    keep_journal_days: Annotated[float, Meta(gt=0, le=36_500)] | None = None


class PruneResponse(Struct, frozen=True):
    """The removed journal entries of all runs; with dry_run, those that would be removed.

    dry_run: whether nothing was removed.
    runs: the runs.
    """

    dry_run: bool
    runs: list[PrunedRun]


@Route(
    routes,
    "POST /prune",
    "Remove old journal entries",
    Scope.ADMIN,
    PruneResponse,
    about=About.EVERY,
    reads=PruneRequest,
)
async def prune(request: Request) -> Response:
    """Remove old journal entries that a snapshot covers, as the service does every hour."""
    _, asked = await read_json(request, PruneRequest)
    pruned = await services_of(request).prune.remove_old(keep_days=asked.keep_journal_days, dry_run=asked.dry_run)
    return json_response(PruneResponse(asked.dry_run, pruned))


# --- for browsers ----------------------------------------------------------------------------------------------------

POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
PAGE = StaticFiles(packages=[("bots_service.api.page", "files")])
PAGE_HEADERS = {
    "Content-Security-Policy": f"{POLICY}; style-src 'self'; img-src 'self'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # kept, but asked for again: a newer service has another page
}
# Swagger UI from an installed package, so that it needs no network, with a page and a theme of our own.
DOCS = StaticFiles(packages=[("bots_service.api", "swagger"), ("fastapi_offline", "static")])
DOCS_HEADERS = {
    # Swagger UI sets styles of single elements, and draws with data: images.
    "Content-Security-Policy": f"{POLICY}; style-src 'self' 'unsafe-inline'; img-src 'self' data:",
    "Referrer-Policy": "no-referrer",
}


async def sent(request: Request, folder: StaticFiles, name: str, headers: dict[str, str]) -> Response:
    """Return a file; a problem where there is none."""
    try:
        found = await folder.get_response(name, request.scope)
    except (HTTPException, ValueError):  # a name with a NUL is no path
        return problem_response(request, NO_SUCH_ROUTE, f"there is no {name[:80]!r} here", headers=headers)
    found.headers.update(headers)
    return found


@Route(for_browsers, "GET /openapi.json", "", ANY_SCOPE)
async def show_document(request: Request) -> Response:
    """Return the OpenAPI document."""
    # Made when it is first asked for, which takes 30 ms: other requests need not wait for that.
    return JSONResponse(await asyncio.to_thread(request.app.openapi))


@Route(for_browsers, "GET /docs", "", ANY_SCOPE)
async def show_documentation(request: Request) -> Response:
    """Return the page of the API's documentation."""
    return await sent(request, DOCS, "index.html", DOCS_HEADERS)


@Route(for_browsers, "GET /docs/{name}", "", ANY_SCOPE)
async def send_asset(request: Request, name: str) -> Response:
    """Return a part of that page."""
    return await sent(request, DOCS, name, {"Cache-Control": f"max-age={DOCS_CACHED_S:.0f}"})


@Route(for_browsers, "GET|HEAD /", "", None)
async def show_page(request: Request) -> Response:
    """Return the page: its files are for everybody; what it shows comes by the API."""
    return await sent(request, PAGE, "index.html", PAGE_HEADERS)


@Route(for_browsers, "GET|HEAD /page/{name}", "", None)
async def send_file(request: Request, name: str) -> Response:
    """Return a file of the page."""
    return await sent(request, PAGE, name, PAGE_HEADERS)
