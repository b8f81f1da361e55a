"""The same tasks, in a document or in lines and however cut into pieces, make the same dataset."""

import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.api.uploads import read_ndjson
from tests.api.conftest import serving
from tests.api.pools import MODELS, require_problem, solved, tasks

NDJSON = {"Content-Type": "application/x-ndjson"}
HEADER = {"reference_models": MODELS, "description": "a pool"}
JSON = {"Content-Type": "application/json"}


def ndjson(lines: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


async def test_every_way_makes_the_same_dataset_and_the_same_posteriors(http):
    rows = tasks(200)
    bodies: dict[str, tuple[dict[str, str], bytes]] = {
        "json": (JSON, json.dumps({**HEADER, "tasks": rows}).encode()),
        "lines": (NDJSON, ndjson([HEADER, *rows])),
    }
    described, posteriors = [], []
    for name, (headers, body) in bodies.items():
        answer = await http.put(f"/datasets/{name}", content=body, headers=headers)
        assert answer.status_code == 201, answer.text
        described.append({**answer.json(), "name": "", "created_at": ""})
        for task in range(3):
            outcomes = [solved(task), solved(task + 50, 3)]
            assert (await http.post("/report", json={"dataset": name, "outcomes": outcomes})).status_code == 200
        posteriors.append((await http.get(f"/datasets/{name}/runs/default/tasks?limit=1000")).json())
    assert described[0] == described[1]
    assert posteriors[0] == posteriors[1]


async def test_truncated_ndjson_is_malformed_and_says_where(http):
    whole = ndjson([HEADER, *tasks(30)])
    answer = await http.put("/datasets/guru", content=whole[:-9], headers=NDJSON)
    assert "tasks.29" in require_problem(answer, 400, "malformed-body")["detail"]
    require_problem(await http.put("/datasets/guru", content=b"", headers=NDJSON), 422, "invalid-tasks")


LINES: list[dict[str, Any]] = [
    HEADER,
    {"id": "\u00e9\U0001f600"},
    {"id": "b", "reference_pass_rates": [0.5, None], "tags": ["t"]},
    *tasks(3),
]
TEXT = (
    b"\n"
    + json.dumps(HEADER).encode()
    + b"\r\n\n"
    + "\n".join(json.dumps(line, ensure_ascii=False) for line in LINES[1:]).encode()
)


@given(st.lists(st.integers(0, len(TEXT)), max_size=12), st.booleans())
async def test_where_ndjson_is_cut_makes_no_difference(cuts, ends_with_newline):
    text = TEXT + b"\n" if ends_with_newline else TEXT
    edges = [0, *sorted(cuts), len(text)]

    async def chunks() -> AsyncIterator[bytes]:
        for start, end in itertools.pairwise(edges):
            yield text[start:end]

    file = await read_ndjson(chunks())
    assert file.header.reference_models == tuple(MODELS)
    blocks = [block async for block in file.blocks(2)]
    assert [task_id for block in blocks for task_id in block.ids] == [line["id"] for line in LINES[1:]]
    expected = [line.get("reference_pass_rates") or [None, None] for line in LINES[1:]]
    np.testing.assert_array_equal(np.concatenate([block.references for block in blocks]), np.array(expected, float))


@pytest.mark.parametrize("body", ["json", "ndjson"])
async def test_more_tasks_than_a_dataset_may_have_are_refused_by_the_name_of_the_setting(tmp_path, body):
    rows = [{"id": f"t{number}"} for number in range(11)]
    headers, content = {
        "json": (JSON, json.dumps({"tasks": rows}).encode()),
        "ndjson": (NDJSON, ndjson(rows)),
    }[body]
    async with serving(tmp_path, max_tasks=10) as http:
        problem = require_problem(
            await http.put("/datasets/guru", content=content, headers=headers), 409, "limit-reached"
        )
        assert "BOTS_MAX_TASKS" in problem["detail"]
        require_problem(await http.get("/datasets/guru"), 404, "unknown-dataset")

        assert (await http.put("/datasets/guru", json={"tasks": rows[:6]})).status_code == 201
        more = await http.post("/datasets/guru/tasks", json={"tasks": rows[6:]})
        require_problem(more, 409, "limit-reached")
        assert (await http.post("/datasets/guru/tasks", json={"tasks": rows[6:10]})).json()["tasks"] == 10
