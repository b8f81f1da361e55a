"""Small datasets, what stands in the service, and services that keys guard."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.api.conftest import serving

RUN = "/datasets/guru/runs/default"
MODELS = ["weak", "strong"]


def tasks(count: int, first: int = 0) -> list[dict[str, Any]]:
    """Return tasks of three kinds: with pass rates, with one unknown, with none; tagged math or code."""
    made = []
    for number in range(first, first + count):
        task: dict[str, Any] = {"id": f"task-{number}", "tags": ["math" if number % 3 else "code"]}
        if number % 5:
            task["reference_pass_rates"] = [number % 16 / 16, None if number % 7 == 0 else (number * 5 % 17) / 16]
        made.append(task)
    return made


async def make_dataset(http: httpx.AsyncClient, count: int = 20, name: str = "guru", **settings: Any) -> dict[str, Any]:
    """Create a dataset whose run `default` has these settings, and return the dataset's description."""
    answer = await http.put(f"/datasets/{name}", json={"reference_models": MODELS, "tasks": tasks(count)})
    assert answer.status_code == 201, answer.text
    if settings:
        (await http.put(f"/datasets/{name}/runs/default", json=settings)).raise_for_status()
    return answer.json()


async def select(http: httpx.AsyncClient, count: int, **wish: Any) -> dict[str, Any]:
    answer = await http.post("/select", json={"dataset": "guru", "count": count, **wish})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def report(http: httpx.AsyncClient, *outcomes: dict[str, Any], **more: Any) -> dict[str, Any]:
    answer = await http.post("/report", json={"dataset": "guru", "outcomes": list(outcomes), **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


def solved(task: int, successes: float = 7, trials: float = 16) -> dict[str, Any]:
    return {"task": f"task-{task}", "successes": successes, "trials": trials}


async def standing(http: httpx.AsyncClient) -> dict[str, Any]:
    """Return all that is readable of the dataset and its run `default`."""
    paths = ["/datasets", "/datasets/guru", RUN, f"{RUN}/tasks?limit=1000"]
    paths.append(f"{RUN}/history")
    return {path: (await http.get(path)).json() for path in paths}


def require_problem(answer: httpx.Response, status: int, name: str) -> dict[str, Any]:
    """Check that an answer is a problem of this kind, and return it."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["type"] == f"urn:bots:problem:{name}"
    assert problem["status"] == status
    assert problem["title"]
    assert problem["detail"]
    assert problem["instance"] == answer.request.url.path
    return problem


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
    wanted = {"name": "-".join(scopes), "scopes": scopes, "datasets": datasets, **more}
    answer = await http.post("/keys", json=wanted)
    assert answer.status_code == 201, answer.text
    return answer.json()
