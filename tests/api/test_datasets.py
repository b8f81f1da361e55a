"""Datasets and subsets over HTTP: made, changed, listed, and moved with their runs."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from bots_service.core.belief import KINDS
from tests.api.conftest import serving
from tests.api.pools import MODELS, RUN, make_dataset, report, require_problem, select, tasks


async def test_the_same_content_again_is_200_and_other_content_is_409(http):
    described = await make_dataset(http)
    again = await http.put("/datasets/guru", json={"reference_models": MODELS, "tasks": tasks(20)})
    assert (again.status_code, again.json()) == (200, described)
    other = await http.put("/datasets/guru", json={"reference_models": MODELS, "tasks": tasks(21)})
    require_problem(other, 409, "dataset-exists")
    assert (await http.get("/datasets/guru")).json() == described


LINES = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(tmp_path / "other") as client:
        yield client


async def filled(http: httpx.AsyncClient, reports: int = 3, **settings: Any) -> None:
    await make_dataset(http, **settings)
    for number in range(reports):
        await report(http, {"task": f"task-{number}", "successes": 3, "trials": 8})


@pytest.mark.parametrize("belief", sorted(KINDS))
async def test_a_dataset_and_its_run_move_to_another_service(
    http: httpx.AsyncClient, other: httpx.AsyncClient, belief: str
):
    await filled(http, belief=belief)
    tasks = await http.get("/datasets/guru/tasks")
    assert tasks.headers["content-type"] == "application/x-ndjson"
    made = await other.put("/datasets/guru", content=tasks.content, headers=LINES)
    assert made.json()["digest"] == (await http.get("/datasets/guru")).json()["digest"]
    journal = await http.get(f"{RUN}/export")
    assert journal.headers["content-type"] == "application/x-ndjson"
    assert journal.headers["content-disposition"] == 'attachment; filename="guru.default.ndjson"'
    assert len(journal.content.splitlines()) == 4
    imported = await other.post(f"{RUN}/import", content=journal.content, headers=LINES)
    assert (imported.status_code, imported.json()) == (201, {"dataset": "guru", "run": "default", "seq": 3, "epoch": 0})
    for path in (f"{RUN}/history", f"{RUN}/tasks"):
        assert (await other.get(path)).json() == (await http.get(path)).json()


SUBSETS = "/datasets/guru/subsets"
MINE = ["task-3", "task-1", "task-7"]


async def make(http: httpx.AsyncClient, ids: list[str], **headers: str):
    return await http.post(SUBSETS, json={"tasks": [{"id": task} for task in ids]}, headers=headers)


async def test_tasks_are_selected_in_a_subset(http: httpx.AsyncClient):
    await make_dataset(http)
    answer = await make(http, MINE)
    assert answer.status_code == 200, answer.text
    made = answer.json()
    assert made == {**(await make(http, MINE[::-1])).json(), "dataset": "guru", "others": 17, "missing": []}
    assert (made["tasks"], made["retired"]) == (3, 0)
    chosen = await select(http, 3, subset=made["subset"])
    assert sorted(task["id"] for task in chosen["tasks"]) == sorted(MINE)
    too_many = await http.post("/select", json={"dataset": "guru", "count": 4, "subset": made["subset"]})
    require_problem(too_many, 422, "pool-too-small")
