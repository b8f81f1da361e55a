"""JSON responses, shared by all routes."""

from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from msgspec import Struct
from starlette.responses import Response

Body = TypeVar("Body", bound=Struct)

encode = msgspec.json.Encoder().encode

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
