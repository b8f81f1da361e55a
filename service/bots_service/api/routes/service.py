"""The service itself: API keys, probes, metrics, versions; for browsers the documentation and the page."""

import asyncio
import platform
from datetime import datetime
from functools import partial
from types import NoneType
from typing import Annotated

import numpy as np
from fastapi import Path
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.staticfiles import StaticFiles

from bots_service import __version__
from bots_service.access import KeyRequest
from bots_service.api.problems import problem_response
from bots_service.api.requests import (
    Body,
    Cursor,
    Limit,
    answered_once,
    filled,
    json_response,
    moment,
    no_content,
    page_of,
    read_cursor,
    read_json,
    services_of,
    state_of,
)
from bots_service.api.routing import ANY_SCOPE, About, Route, RouteKind, Routes, caller_of
from bots_service.core.checks import Name
from bots_service.errors import NotFoundError
from bots_service.keys import KeyRow, Scope
from bots_service.metrics import MEDIA_TYPE
from bots_service.readiness import Ready
from bots_service.retention import DOCS_CACHED_S

keys, routes, for_browsers = Routes("keys"), Routes("service"), Routes(None)

# --- keys: an administrator of all datasets creates, lists and revokes them -------------------------------------------

KeyId = Annotated[str, Path(pattern="^[0-9a-f]{16}$", description="The key's id, the part between its underscores.")]


class ApiKey(Struct, frozen=True, kw_only=True):
    """An API key, without its secret.

    id: the part of the key between its underscores.
    name: a name for people.
    scopes: what the key may do.
    datasets: patterns of the datasets that it reaches, or of their runs, such as guru/alice-*; `*` stands for any
        characters, `?` for one.
    expires_at: when it expires (RFC 3339, UTC); null: never.
    revoked_at: when it was revoked (RFC 3339, UTC); null: it was not.
    """

    id: str
    name: str
    scopes: list[Scope]
    datasets: tuple[str, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None

    @staticmethod
    def from_row(row: KeyRow) -> "ApiKey":
        """Return the answer for a row."""
        times = {name: moment(getattr(row, name)) for name in ("created_at", "expires_at", "revoked_at")}
        return filled(ApiKey, row, scopes=sorted(row.scopes), **times)


class NewApiKey(ApiKey, frozen=True, kw_only=True):
    """A new key.

    key: the key itself, shown once; null when the answer is given again.
    """

    key: str | None


class ApiKeyPage(Struct, frozen=True):
    """A page of keys, by id; revoked ones too."""

    keys: list[ApiKey]
    next_cursor: str | None


class WhoAmI(Struct, frozen=True):
    """Who the caller is.

    guarded: whether keys guard the service; without them nobody has a name, and everybody may do everything.
    name: the name of the caller's key; null without keys.
    scopes: what the caller may do.
    datasets: patterns of the datasets that the caller reaches.
    expires_at: when the caller's key expires (RFC 3339, UTC); null: never.
    """

    guarded: bool
    name: str | None
    scopes: list[Scope]
    datasets: tuple[str, ...]
    expires_at: datetime | None


@Route(keys, "POST /keys", Scope.ADMIN, NewApiKey, about=About.EVERY, reads=KeyRequest, statuses=(201,))
async def create_key(request: Request) -> Response:
    """Create a key and return it, once.

    Safe to retry: no second key is created. The answer then has no `key`, because the service does not store it.
    """
    body, wanted = await read_json(request, KeyRequest)
    key = None  # only in the first response: a retry does not get it

    async def act() -> KeyRow:
        nonlocal key
        access, is_open = services_of(request).access, caller_of(request).key is None
        row, key = await access.create(wanted, body.idempotency_key(), by_anybody=is_open)
        return row

    def respond(row: KeyRow) -> Response:
        return json_response(filled(NewApiKey, ApiKey.from_row(row), key=key), 201)

    return await answered_once(body, KeyRow, act, respond)


@Route(keys, "GET /keys", Scope.ADMIN, ApiKeyPage, about=About.EVERY)
async def list_keys(request: Request, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Return keys by id; revoked ones too."""
    found = await services_of(request).store.keys.after(read_cursor(cursor, Name, ""), limit + 1)
    rows, following = page_of(found, limit, lambda row: row.id)
    return json_response(ApiKeyPage([ApiKey.from_row(row) for row in rows], following))


@Route(keys, "DELETE /keys/{key_id}", Scope.ADMIN, about=About.EVERY)
async def revoke_key(request: Request, key_id: KeyId) -> Response:
    """Revoke a key. Every replica refuses it within 5 seconds."""
    body = Body(request)
    act = partial(services_of(request).access.revoke, key_id, body.idempotency_key())
    return await answered_once(body, NoneType, act, no_content)


@Route(keys, "GET /whoami", ANY_SCOPE, WhoAmI)
async def tell_caller(request: Request) -> Response:
    """Return who the caller is, and what it may do."""
    caller = caller_of(request)
    own = {"scopes": sorted(caller.scopes), "expires_at": moment(caller.expires_at)}
    return json_response(filled(WhoAmI, caller, guarded=caller.key is not None, **own))


# --- the process ------------------------------------------------------------------------------------------------------


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


@Route(routes, "GET /livez", None, LivenessResponse, kind=RouteKind.PROBE)
async def tell_alive() -> Response:
    """Answer at once, whatever state the database is in."""
    return json_response(LivenessResponse("ok"))


@Route(routes, "GET /readyz", None, Ready, kind=RouteKind.PROBE, statuses=(200, 503))
async def tell_ready(request: Request) -> Response:
    """Say whether requests should be sent here, as checked at most two seconds ago."""
    found = services_of(request).readiness()
    return json_response(found, 200 if found.is_ready else 503)


@Route(routes, "GET /version", ANY_SCOPE, VersionResponse)
async def tell_version(request: Request) -> Response:
    """Return the versions; draws can be repeated on the same version of numpy."""
    python, schema = platform.python_version(), state_of(request.app).schema
    return json_response(VersionResponse(__version__, python, np.__version__, schema))


@Route(routes, "GET /metrics", Scope.READ, about=About.EVERY, answers_media=(MEDIA_TYPE,))
async def tell_metrics(request: Request) -> Response:
    """Return the metrics of this process, without asking a store."""
    return Response(state_of(request.app).metrics.text(), media_type=MEDIA_TYPE)


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


async def _sent(request: Request, folder: StaticFiles, name: str, headers: dict[str, str]) -> Response:
    try:
        found = await folder.get_response(name, request.scope)
    except (HTTPException, ValueError):  # a name with a NUL is no path
        return problem_response(request, NotFoundError(f"there is no {name[:80]!r} here"), headers)
    found.headers.update(headers)
    return found


@Route(for_browsers, "GET /openapi.json", ANY_SCOPE)
async def show_document(request: Request) -> Response:
    """Return the OpenAPI document."""
    # Made when it is first asked for, which takes 30 ms: other requests need not wait for that.
    return JSONResponse(await asyncio.to_thread(request.app.openapi))


@Route(for_browsers, "GET /docs", ANY_SCOPE)
@Route(for_browsers, "GET /docs/{name}", ANY_SCOPE)
async def show_documentation(request: Request) -> Response:
    """Return the page of the API's documentation, or a part of it."""
    name = request.path_params.get("name")
    kept = {"Cache-Control": f"max-age={DOCS_CACHED_S:.0f}"}
    return await _sent(request, DOCS, name or "index.html", kept if name else DOCS_HEADERS)


@Route(for_browsers, "GET|HEAD /", None)
@Route(for_browsers, "GET|HEAD /page/{name}", None)
async def show_page(request: Request) -> Response:
    """Return the page, or a part of it: its files are for everybody; what it shows comes by the API."""
    return await _sent(request, PAGE, request.path_params.get("name", "index.html"), PAGE_HEADERS)
