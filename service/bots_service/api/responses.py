"""JSON answers, as every route writes them."""

from datetime import UTC, datetime
from typing import Any

import msgspec
from starlette.responses import Response

encode = msgspec.json.Encoder().encode

REPLAYED = {"Idempotent-Replayed": "true"}

EXAMPLE_TIME = datetime(2026, 1, 1, 12, tzinfo=UTC)


def json_response(value: Any, status: int = 200, *, replayed: bool = False) -> Response:
    """Return a value as a JSON answer; `replayed` says that it is the first answer, given again."""
    return Response(encode(value), status, REPLAYED if replayed else None, media_type="application/json")


def no_content(_: None) -> Response:
    """Return the answer to what left nothing to tell of."""
    return Response(status_code=204)


def moment(seconds: float) -> datetime:
    """Return a time as RFC 3339 wants it."""
    return datetime.fromtimestamp(seconds, UTC)
