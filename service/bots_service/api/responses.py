"""JSON responses, shared by all routes."""

import re
import uuid
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import Scope

Body = TypeVar("Body", bound=Struct)

encode = msgspec.json.Encoder().encode

REQUEST_ID = re.compile(r"[ -~]{1,128}")  # printable ASCII
REPLAYED = {"Idempotent-Replayed": "true"}


def json_response(value: Any, status: int = 200, *, replayed: bool = False) -> Response:
    """Return a value as a JSON response; `replayed` marks a repeated first answer."""
    return Response(encode(value), status, REPLAYED if replayed else None, media_type="application/json")


def no_content(_: None) -> Response:
    """Return an empty response with status 204."""
    return Response(status_code=204)


def moment(seconds: float) -> datetime:
    """Return a time in UTC, which is encoded by RFC 3339."""
    return datetime.fromtimestamp(seconds, UTC)


def filled(kind: type[Body], *sources: object, **values: Any) -> Body:
    """Return a body: each of its fields is the value of that name, or else the attribute of that name of a source."""
    for name in set(kind.__struct_fields__) - values.keys():
        for source in sources:
            if hasattr(source, name):
                values[name] = getattr(source, name)
                break
    return kind(**values)


def ratio(effective: float, reported: float) -> float | None:
    """Return a share; None of nothing."""
    return effective / reported if reported else None


def finish_headers(headers: MutableHeaders, request_id: str) -> None:
    """Add the headers that every answer has; a route's own caching headers stay.

    No proxy or browser may cache answers, or interpret them as another media type.
    """
    headers["X-Request-Id"] = request_id
    headers["X-Content-Type-Options"] = "nosniff"
    headers.setdefault("Cache-Control", "no-store")


def request_id_of(scope: Scope) -> str:
    """Return the request's own id if it is valid, otherwise a new one."""
    given = Headers(scope=scope).get("x-request-id", "")
    return given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
