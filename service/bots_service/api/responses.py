"""JSON answers, as every route writes them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.responses import Response

encode = msgspec.json.Encoder().encode


EXAMPLE_TIME = datetime(2026, 1, 1, 12, tzinfo=UTC)


def json_response(value: Any, status: int = 200, *, replayed: bool = False) -> Response:
    """Return a value as a JSON answer; `replayed` says that it is the first answer, given again."""
    return body_response(status, encode(value), replayed=replayed)


def body_response(status: int, body: bytes, *, replayed: bool = False) -> Response:
    """Return a JSON text as an answer; an empty one without a content type."""
    headers: Mapping[str, str] | None = {"Idempotent-Replayed": "true"} if replayed else None
    return Response(body, status, headers, media_type="application/json" if body else None)


def moment(seconds: float) -> datetime:
    """Return a time as RFC 3339 wants it."""
    return datetime.fromtimestamp(seconds, UTC)
