"""Datasets over HTTP: made, changed, listed, and moved with their runs to another service."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from bots_service.core.belief import KINDS
from tests.api.conftest import serving
from tests.api.pools import MODELS, RUN, make_dataset, report, require_problem, tasks


async def test_a_new_dataset_is_described_with_what_was_sent(http):
    sent = tasks(20)
    body = {"reference_models": MODELS, "tasks": sent, "description": "a pool"}
    answer = await http.put("/datasets/guru", json=body)
    assert answer.status_code == 201
    described = answer.json()
    assert described["name"] == "guru"
    assert described["description"] == "a pool"
    assert described["reference_models"] == MODELS
    assert described["tasks"] == len(sent)
    assert described["retired"] == 0
    assert described["tags"] == {tag: sum(tag in task["tags"] for task in sent) for tag in ("code", "math")}
    assert (await http.get("/datasets/guru")).json() == described


async def test_the_same_content_again_is_200_and_other_content_is_409(http):
    described = await make_dataset(http)
    again = await http.put("/datasets/guru", json={"reference_models": MODELS, "tasks": tasks(20)})
    assert (again.status_code, again.json()) == (200, described)
    other = await http.put("/datasets/guru", json={"reference_models": MODELS, "tasks": tasks(21)})
    require_problem(other, 409, "dataset-exists")
    assert (await http.get("/datasets/guru")).json() == described


async def test_a_dataset_may_be_repeatable(http):
    answer = await http.put("/datasets/levels", json={"repeatable": True, "tasks": [{"id": "easy"}, {"id": "hard"}]})
    assert (answer.status_code, answer.json()["repeatable"]) == (201, True)
    for _ in range(2):
        chosen = (await http.post("/select", json={"dataset": "levels", "count": 5})).json()
        assert sorted({task["id"] for task in chosen["tasks"]}) == ["easy", "hard"]
        assert (len(chosen["tasks"]), chosen["reused"]) == (5, 0)
    assert (await http.get("/datasets/levels/runs/default")).json()["leased"] == 0
    lines = '{"repeatable": true}\n{"id": "easy"}\n'
    for query, status in (("", 201), ("?repeatable=false", 422)):
        name = f"/datasets/lines{query}"
        sent = await http.put(name, content=lines, headers={"Content-Type": "application/x-ndjson"})
        assert sent.status_code == status, sent.text


LINES = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of another empty service."""
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
