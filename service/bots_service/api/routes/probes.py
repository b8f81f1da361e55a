"""Probes, metrics for Prometheus, and what the service runs on."""

import platform

import numpy as np
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from bots_service import __version__
from bots_service.api.app_state import state_of
from bots_service.api.openapi import answers_with
from bots_service.api.parameters import services_of
from bots_service.api.responses import json_response
from bots_service.api.route_kinds import RouteKind
from bots_service.api.security import ANY_SCOPE, About, allowed, guarded_router, open_to_all
from bots_service.keys import Scope
from bots_service.metrics.process import MEDIA_TYPE
from bots_service.readiness import Ready

router = guarded_router(tags=["service"])


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


EXAMPLE = "bots_requests_waiting 0.0\n"


@router.get(
    "/livez",
    summary="Check that the process serves requests",
    responses=answers_with(LivenessResponse("ok")),
)
@open_to_all(RouteKind.PROBE)
async def tell_alive() -> Response:
    """Answer at once, whatever state the database is in."""
    return json_response(LivenessResponse("ok"))


@router.get(
    "/readyz",
    summary="Check whether to send requests",
    responses={
        **answers_with(Ready("ready", {"sql": "ok"}), meanings={200: "Send requests."}),
        **answers_with(Ready("starting", {"sql": "not checked yet"}), meanings={503: "Send none."}),
    },
)
@open_to_all(RouteKind.PROBE)
async def tell_ready(request: Request) -> Response:
    """Say whether requests should be sent here, as checked at most two seconds ago."""
    found = services_of(request).readiness()
    return json_response(found, 200 if found.is_ready else 503)


@router.get(
    "/version",
    summary="Show the versions",
    responses=answers_with(VersionResponse("0.1.0", "3.12.8", "2.2.0", "0001")),
)
@allowed(*ANY_SCOPE, about=About.NONE)
async def tell_version(request: Request) -> Response:
    """Return the versions; draws can be repeated on the same version of numpy."""
    return json_response(
        VersionResponse(__version__, platform.python_version(), np.__version__, state_of(request.app).schema)
    )


@router.get(
    "/metrics",
    summary="Get the metrics",
    responses={
        200: {
            "description": "All metrics, in Prometheus's text format.",
            "content": {MEDIA_TYPE: {"schema": {"type": "string"}, "example": EXAMPLE}},
        }
    },
)
@allowed(Scope.READ, about=About.EVERY, kind=RouteKind.METRICS)
async def tell_metrics(request: Request) -> Response:
    """Return the metrics of all workers of this service, without asking a store."""
    state = state_of(request.app)
    text = state.metrics.text() if state.metrics_of_all is None else await state.metrics_of_all()
    return Response(text, media_type=MEDIA_TYPE)
