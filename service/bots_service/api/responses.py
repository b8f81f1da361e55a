"""JSON responses, shared by all routes."""

from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.responses import Response

encode = msgspec.json.Encoder().encode

REPLAYED = {"Idempotent-Replayed": "true"}

EXAMPLE_TIME = datetime(2026, 1, 1, 12, tzinfo=UTC)


def json_response(value: Any, status: int = 200, *, replayed: bool = False) -> Response:
    """Return a value as a JSON response; `replayed` marks a repeated first answer."""
    return Response(encode(value), status, REPLAYED if replayed else None, media_type="application/json")


def no_content(_: None) -> Response:
    """Return an empty response with status 204."""
    return Response(status_code=204)


def moment(seconds: float) -> datetime:
    """Return a time in UTC, which is encoded by RFC 3339."""
    return datetime.fromtimestamp(seconds, UTC)
