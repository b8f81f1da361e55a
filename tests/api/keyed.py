"""Services that keys guard, and keys of every kind."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.api.conftest import serving

OPERATOR = "the-operators-own-key"


@asynccontextmanager
async def guarded(folder: Path, **settings: int | str) -> AsyncIterator[httpx.AsyncClient]:
    """Open the application under the operator's key, and yield a client that has it."""
    async with serving(folder, admin_key=OPERATOR, **settings) as http:
        http.headers["Authorization"] = f"Bearer {OPERATOR}"
        yield http


def bearer(key: str | None) -> dict[str, str]:
    """Return the header that a key comes in; an empty one overrides the client's own."""
    return {"Authorization": "" if key is None else f"Bearer {key}"}


async def new_key(
    http: httpx.AsyncClient, *scopes: str, datasets: tuple[str, ...] = ("*",), **more: Any
) -> dict[str, Any]:
    """Make a key and return the answer."""
    wanted = {"name": "-".join(scopes), "scopes": scopes, "datasets": datasets, **more}
    answer = await http.post("/keys", json=wanted)
    assert answer.status_code == 201, answer.text
    return answer.json()
