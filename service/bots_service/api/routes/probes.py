"""Probes, metrics for Prometheus, and what the service runs on."""

import platform
from collections.abc import Awaitable, Callable

import numpy as np
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from bots_service import __version__
from bots_service.api.openapi import answers_with
from bots_service.api.parameters import use_cases_of
from bots_service.api.responses import json_response
from bots_service.api.route_kinds import RouteKind
from bots_service.api.security import ANY_SCOPE, About, allowed, guarded_router, open_to_all
from bots_service.metrics.exposition import MEDIA_TYPE
from bots_service.metrics.process import Metrics
from bots_service.ports.keys import Scope
from bots_service.usecases.readiness import Status

router = guarded_router(tags=["service"])


class LivenessResponse(Struct, frozen=True):
    """The process serves requests."""

    status: str


class ReadinessResponse(Struct, frozen=True):
    """Whether requests should be sent here. checks: what each part said last, "ok" or what is wrong."""

    status: Status
    checks: dict[str, str]


class VersionResponse(Struct, frozen=True):
    """What the service runs on. schema: the revision of the database's tables."""

    version: str
    python: str
    numpy: str
    schema: str


@router.get("/livez", response_class=Response, responses=answers_with(LivenessResponse))
@open_to_all(RouteKind.PROBE)
async def tell_alive() -> Response:
    """Answer at once, whatever the database does."""
    return json_response(LivenessResponse("ok"))


@router.get(
    "/readyz",
    response_class=Response,
    responses=answers_with(ReadinessResponse, {200: "Send requests.", 503: "Send none."}),
)
@open_to_all(RouteKind.PROBE)
async def tell_ready(request: Request) -> Response:
    """Say whether requests should be sent here, as it was found at most two seconds ago."""
    found = use_cases_of(request).readiness()
    return json_response(ReadinessResponse(found.status, found.checks), 200 if found.is_ready else 503)


@router.get("/version", response_class=Response, responses=answers_with(VersionResponse))
@allowed(*ANY_SCOPE, about=About.NONE)
async def tell_version(request: Request) -> Response:
    """Return the versions; draws can be repeated on the same version of numpy."""
    return json_response(
        VersionResponse(__version__, platform.python_version(), np.__version__, request.app.state.schema)
    )


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {
            "description": "All metrics, in Prometheus's text format.",
            "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
        }
    },
)
@allowed(Scope.READ, about=About.EVERY, kind=RouteKind.METRICS)
async def tell_metrics(request: Request) -> Response:
    """Return what was counted, by all workers of this service. Asks no store."""
    of_all: Callable[[], Awaitable[bytes]] | None = request.app.state.metrics_of_all
    metrics: Metrics = request.app.state.metrics
    return Response(metrics.text() if of_all is None else await of_all(), media_type=MEDIA_TYPE)
