"""API keys: an administrator of all datasets creates, lists and revokes them; GET /whoami describes the caller's."""

from datetime import datetime
from functools import partial
from types import NoneType
from typing import Annotated

from fastapi import Path
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from bots_service.access import KeyRequest
from bots_service.api.requests import (
    Body,
    Cursor,
    Limit,
    answered_once,
    read_cursor,
    read_json,
    services_of,
    write_cursor,
)
from bots_service.api.responses import filled, json_response, moment, no_content
from bots_service.api.routing import ANY_SCOPE, About, Route, Routes, caller_of
from bots_service.core.checks import Name
from bots_service.errors import LimitReachedError, UnknownApiKeyError
from bots_service.keys import KeyRow, Scope

routes = Routes("keys")

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
        return filled(
            ApiKey,
            row,
            scopes=sorted(row.scopes),
            created_at=moment(row.created_at),
            expires_at=None if row.expires_at is None else moment(row.expires_at),
            revoked_at=None if row.revoked_at is None else moment(row.revoked_at),
        )


class NewApiKey(ApiKey, frozen=True, kw_only=True):
    """A new key.

    key: the key itself, shown once; null when the answer is given again.
    """

    key: str | None


class ApiKeyPage(Struct, frozen=True):
    """A page of keys, by id; revoked ones too.

    keys: the keys.
    """

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


@Route(
    routes,
    "POST /keys",
    "Create an API key",
    Scope.ADMIN,
    NewApiKey,
    (LimitReachedError,),
    about=About.EVERY,
    reads=KeyRequest,
    meanings={201: "The key was created."},
)
async def create_key(request: Request) -> Response:
    """Create a key and return it, once.

    Safe to retry: no second key is created. The answer then has no `key`, because the service does not store it.
    """
    services = services_of(request)
    body, wanted = await read_json(request, KeyRequest)
    key = None  # only in the first response: a retry does not get it

    async def act() -> KeyRow:
        nonlocal key
        is_open = caller_of(request).key is None
        row, key = await services.access.create(wanted, body.idempotency_key(), by_anybody=is_open)
        return row

    def respond(row: KeyRow) -> Response:
        return json_response(filled(NewApiKey, ApiKey.from_row(row), key=key), 201)

    return await answered_once(body, KeyRow, act, respond)


@Route(routes, "GET /keys", "List the API keys", Scope.ADMIN, ApiKeyPage, about=About.EVERY)
async def list_keys(request: Request, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Return keys by id; revoked ones too."""
    services = services_of(request)
    after = "" if cursor is None else read_cursor(cursor, Name)
    rows = await services.store.keys.after(after, limit + 1)
    following = write_cursor(rows[limit - 1].id) if len(rows) > limit else None
    return json_response(ApiKeyPage([ApiKey.from_row(row) for row in rows[:limit]], following))


@Route(
    routes, "DELETE /keys/{key_id}", "Revoke an API key", Scope.ADMIN, refuses=(UnknownApiKeyError,), about=About.EVERY
)
async def revoke_key(request: Request, key_id: KeyId) -> Response:
    """Revoke a key. Every replica refuses it within 5 seconds."""
    services, body = services_of(request), Body(request)
    act = partial(services.access.revoke, key_id, body.idempotency_key())
    return await answered_once(body, NoneType, act, no_content)


@Route(routes, "GET /whoami", "Show the caller", ANY_SCOPE, WhoAmI)
async def tell_caller(request: Request) -> Response:
    """Return who the caller is, and what it may do."""
    caller = caller_of(request)
    expires_at = None if caller.expires_at is None else moment(caller.expires_at)
    is_guarded = caller.key is not None
    return json_response(
        filled(WhoAmI, caller, guarded=is_guarded, scopes=sorted(caller.scopes), expires_at=expires_at)
    )
