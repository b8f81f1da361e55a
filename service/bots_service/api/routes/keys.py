"""API keys: made, listed, revoked, by an administrator of every dataset; and told of to whoever has one."""

from typing import Annotated

import msgspec
from fastapi import Path
from starlette.requests import Request
from starlette.responses import Response

from bots_service.api.answers import encode, json_response
from bots_service.api.bodies import CONTROL_LIMIT, JSON, Body, NoBody
from bots_service.api.cursors import AfterName, read_cursor, write_cursor
from bots_service.api.decoding import decode_plain
from bots_service.api.idempotency import answered_once, kept
from bots_service.api.key_bodies import ApiKey, ApiKeys, KeyRequest, NewApiKey, WhoAmI
from bots_service.api.openapi import answers_with, reads
from bots_service.api.parameters import KEYED, Cursor, Limit, use_cases_of
from bots_service.api.problems import documented
from bots_service.api.routes.common import BODY, EVERY, ONCE
from bots_service.api.security import ANY_SCOPE, About, allowed, caller_of, guarded_router, tell_audit
from bots_service.errors import InvalidApiKeyError, LimitReachedError, UnknownApiKeyError
from bots_service.ports.keys import KeyRow, Scope

router = guarded_router(tags=["keys"])

_CREATE = msgspec.json.Decoder(KeyRequest)

KeyId = Annotated[str, Path(pattern="^[0-9a-f]{16}$", description="The key's id, the part between its underscores.")]


@router.post(
    "/keys",
    status_code=201,
    response_class=Response,
    openapi_extra=reads(KeyRequest),
    responses={
        **answers_with(NewApiKey, {201: "It was made."}),
        **documented(*EVERY, *BODY, *ONCE, InvalidApiKeyError, LimitReachedError),
    },
)
@allowed(Scope.ADMIN, about=About.EVERY, audited=True)
async def create_key(request: Request) -> Response:
    """Make a key and tell it, once.

    Safe to retry: no second key is made. The answer then has no `key`, for the service does not keep it.
    """
    use_cases = use_cases_of(request)
    body = Body(request, {JSON: CONTROL_LIMIT})
    wish = decode_plain(_CREATE, await body.whole()).wish()

    def without_key(row: KeyRow) -> tuple[int, bytes]:
        return 201, encode(NewApiKey.told(row, None))

    async def act() -> Response:
        keep = kept("POST /keys", body, without_key)
        row, key = await use_cases.create_key(wish, keep, by_anybody=caller_of(request).key is None)
        tell_audit(request, made=row.id)
        return json_response(NewApiKey.told(row, key), 201)

    return await answered_once(use_cases.answers, "POST /keys", body, act)


@router.get("/keys", response_class=Response, responses={**answers_with(ApiKeys), **documented(*EVERY)})
@allowed(Scope.ADMIN, about=About.EVERY)
async def list_keys(request: Request, limit: Limit = 100, cursor: Cursor = None) -> Response:
    """Return keys by id; revoked ones too."""
    use_cases = use_cases_of(request)
    after = "" if cursor is None else read_cursor(cursor, AfterName).name
    rows = await use_cases.keys.after(after, limit + 1)
    following = write_cursor(AfterName(rows[limit - 1].id)) if len(rows) > limit else None
    return json_response(ApiKeys([ApiKey.of(row) for row in rows[:limit]], following))


@router.delete(
    "/keys/{key_id}",
    status_code=204,
    response_class=Response,
    openapi_extra=KEYED,
    responses=documented(*EVERY, *ONCE, UnknownApiKeyError),
)
@allowed(Scope.ADMIN, about=About.EVERY, audited=True)
async def revoke_key(request: Request, key_id: KeyId) -> Response:
    """Revoke a key: it opens nothing from now on, on every replica within 5 seconds."""
    use_cases = use_cases_of(request)
    scope, body = f"DELETE /keys/{key_id}", NoBody(request)

    async def act() -> Response:
        await use_cases.revoke_key(key_id, kept(scope, body, lambda _: (204, b"")))
        return Response(status_code=204)

    return await answered_once(use_cases.answers, scope, body, act)


@router.get("/whoami", response_class=Response, responses=answers_with(WhoAmI))
@allowed(*ANY_SCOPE, about=About.NONE)
async def tell_caller(request: Request) -> Response:
    """Return who the caller is, and what it may do."""
    return json_response(WhoAmI.of(caller_of(request)))
