"""Parameters of routes: path, query and headers."""

import re
from typing import Annotated, Any

from fastapi import Path, Query
from msgspec import Meta
from starlette.requests import Request

from bots_service.api.app_state import state_of
from bots_service.core.checks import NAME
from bots_service.errors import Flaw, InvalidInputError
from bots_service.services import Services

DatasetName = Annotated[str, Path(pattern=NAME, description="The dataset's name.")]
RunName = Annotated[str, Path(pattern=NAME, description="The run's name; each dataset has a run `default`.")]
PredictionsName = Annotated[str, Path(pattern=NAME, description="The name of the predictions, as of their predictor.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]
Cursor = Annotated[str | None, Query(max_length=1024, description="`next_cursor` of the page before.")]

KEY_HEADER = "Idempotency-Key"
KEY_PATTERN = "^[ -~]{1,128}$"  # printable ASCII
KEYED: dict[str, Any] = {
    "parameters": [
        {
            "name": KEY_HEADER,
            "in": "header",
            "required": False,
            "description": "Makes the write happen once: the same key and request get the first answer again.",
            "schema": {"type": "string", "pattern": KEY_PATTERN},
        }
    ]
}

_KEY = re.compile(KEY_PATTERN.removesuffix("$"))


def whole(pattern: str) -> Meta:
    """Return a pattern that must match up to the end of a text: Python's "$" ignores a final line feed."""
    return Meta(pattern=pattern.removesuffix("$") + r"\Z")


# Not FastAPI dependencies: they would cost the hot routes more than the rest of the API code.


def services_of(request: Request) -> Services:
    """Return the application's use cases."""
    return state_of(request.app).services


def key_of(request: Request) -> str | None:
    """Return the request's idempotency key; None if it has none.

    Raises:
        InvalidInputError: it is not 1 to 128 printable ASCII characters.
    """
    key = request.headers.get(KEY_HEADER)
    if key is not None and not _KEY.fullmatch(key):
        flaw = Flaw(("header", KEY_HEADER), "a key has 1 to 128 printable ASCII characters")
        raise InvalidInputError("invalid idempotency key", (flaw,))
    return key
