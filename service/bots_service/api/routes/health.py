"""Probes, and what the service runs on."""

import asyncio
import platform

import numpy as np
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from bots_service import __version__
from bots_service.api.answers import Alive, Readiness, Version, json_response
from bots_service.api.openapi import answers_with
from bots_service.api.parameters import use_cases_of
from bots_service.errors import StorageUnavailableError

router = APIRouter(tags=["service"])

READY_WITHIN_S = 2.0  # a probe that waits longer is given up by its caller


@router.get("/livez", response_class=Response, responses=answers_with(Alive))
async def tell_alive() -> Response:
    """Answer at once, whatever the database does."""
    return json_response(Alive("ok"))


@router.get(
    "/readyz",
    response_class=Response,
    responses=answers_with(Readiness, {200: "It can do its work.", 503: "It can't now."}),
)
async def tell_ready(request: Request) -> Response:
    """Say whether the database answers."""
    use_cases = use_cases_of(request)
    try:
        async with asyncio.timeout(READY_WITHIN_S):
            return json_response(Readiness("ready", await use_cases.health.check()))
    except (StorageUnavailableError, TimeoutError) as error:
        reason = str(error) or f"no answer in {READY_WITHIN_S:g} s"
        return json_response(Readiness("unavailable", {"sql": reason}), 503)


@router.get("/version", response_class=Response, responses=answers_with(Version))
async def tell_version(request: Request) -> Response:
    """Return the versions; draws can be repeated on the same version of numpy."""
    return json_response(Version(__version__, platform.python_version(), np.__version__, request.app.state.schema))
