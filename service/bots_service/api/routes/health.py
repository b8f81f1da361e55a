"""Probes, and what the service runs on."""

import platform

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from bots_service import __version__
from bots_service.api.answers import Alive, Readiness, Version, json_response
from bots_service.api.openapi import answers_with
from bots_service.api.parameters import use_cases_of
from bots_service.api.security import ANY_SCOPE, About, allowed, guarded_router, open_to_all

router = guarded_router(tags=["service"])


@router.get("/livez", response_class=Response, responses=answers_with(Alive))
@open_to_all
async def tell_alive() -> Response:
    """Answer at once, whatever the database does."""
    return json_response(Alive("ok"))


@router.get(
    "/readyz",
    response_class=Response,
    responses=answers_with(Readiness, {200: "Send requests.", 503: "Send none."}),
)
@open_to_all
async def tell_ready(request: Request) -> Response:
    """Say whether requests should be sent here, as it was found at most two seconds ago."""
    found = use_cases_of(request).readiness()
    return json_response(Readiness(found.status, found.checks), 200 if found.is_ready else 503)


@router.get("/version", response_class=Response, responses=answers_with(Version))
@allowed(*ANY_SCOPE, about=About.NONE)
async def tell_version(request: Request) -> Response:
    """Return the versions; draws can be repeated on the same version of numpy."""
    return json_response(Version(__version__, platform.python_version(), np.__version__, request.app.state.schema))
