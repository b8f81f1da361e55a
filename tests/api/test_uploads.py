"""The same tasks, in whatever format and however cut into pieces, make the same dataset."""

import io
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.api import uploads as parquet_bounds
from bots_service.api.uploads import read_ndjson
from tests.api.conftest import serving
from tests.api.pools import MODELS, require_problem, solved, tasks

NDJSON = {"Content-Type": "application/x-ndjson"}
PARQUET = {"Content-Type": "application/vnd.apache.parquet"}
COLUMNS = ("id", "reference_pass_rates", "tags")
HEADER = {"reference_models": MODELS, "description": "a pool"}
QUERY = {"reference_model": MODELS, "description": "a pool"}


def ndjson(lines: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def table_of(rows: list[dict[str, Any]], **kinds: pa.DataType) -> pa.Table:
    standard = {"id": pa.string(), "reference_pass_rates": pa.list_(pa.float64()), "tags": pa.list_(pa.string())}
    return pa.table(
        {name: pa.array([row.get(name) for row in rows], kinds.get(name, standard[name])) for name in COLUMNS}
    )


async def test_three_formats_make_the_same_dataset_and_the_same_posteriors(http):
    rows = tasks(200)
    bodies = {
        "json": ({"Content-Type": "application/json"}, json.dumps({**HEADER, "tasks": rows}).encode()),
        "ndjson": (NDJSON, ndjson([HEADER, *rows])),
        "parquet": (PARQUET, parquet(table_of(rows), row_group_size=64)),
    }
    described, posteriors = [], []
    for name, (headers, body) in bodies.items():
        query = QUERY if name == "parquet" else {}
        answer = await http.put(f"/datasets/{name}", params=query, content=body, headers=headers)
        assert answer.status_code == 201, answer.text
        described.append({**answer.json(), "name": "", "created_at": ""})
        for task in range(3):
            outcomes = [solved(task), solved(task + 50, 3)]
            assert (await http.post("/report", json={"dataset": name, "outcomes": outcomes})).status_code == 200
        posteriors.append((await http.get(f"/datasets/{name}/runs/default/tasks?limit=1000")).json())
    assert described[0] == described[1] == described[2]
    assert posteriors[0] == posteriors[1] == posteriors[2]


@pytest.mark.parametrize(
    ("table", "loc"),
    [
        (pa.table({"id": [1, 2]}), ["columns", "id"]),
        (pa.table({"id": ["x"], "level": [3]}), ["columns", "level"]),
        (pa.table({"id": ["x"], "reference_pass_rates": [["0.5", "1"]]}), ["columns", "reference_pass_rates"]),
        (pa.table({"id": ["x", None]}), ["tasks", 1, "id"]),
        (pa.table({"id": ["x", "x"]}), ["tasks", 1, "id"]),
        (table_of([{"id": "x"}, {"id": "y", "tags": ["a", None]}]), ["tasks", 1, "tags"]),
        (table_of([{"id": "x"}, {"id": "y", "reference_pass_rates": [0.5]}]), ["tasks", 1, "reference_pass_rates"]),
        (
            table_of([{"id": "x"}, {"id": "y", "reference_pass_rates": [0, np.nan]}]),
            ["tasks", 1, "reference_pass_rates", 1],
        ),
        (table_of([{"id": "x"}, {"id": "y", "reference_pass_rates": [2, 0]}]), ["tasks", 1, "reference_pass_rates", 0]),
    ],
)
async def test_impossible_parquet_is_refused_by_place(http, table, loc):
    answer = await http.put("/datasets/guru", params=QUERY, content=parquet(table), headers=PARQUET)
    problem = require_problem(answer, 422, "invalid-tasks")
    assert problem["errors"][0]["loc"] == ["body", *loc]
    require_problem(await http.get("/datasets/guru"), 404, "unknown-dataset")


async def test_truncated_and_damaged_parquet_is_malformed(http):
    whole = parquet(table_of(tasks(5000)), compression="zstd")
    flipped = bytearray(whole)
    flipped[len(whole) // 4 : len(whole) // 4 + 64] = bytes(64)
    for broken in (b"", b"PAR1", whole[:-1], whole[: len(whole) // 2], whole[8:], b"PAR1" * 100, bytes(flipped)):
        answer = await http.put("/datasets/guru", content=broken, headers=PARQUET)
        require_problem(answer, 400, "malformed-body")
    require_problem(await http.get("/datasets/guru"), 404, "unknown-dataset")


def a_long_id_again_and_again():
    return {"id": pa.DictionaryArray.from_arrays(np.zeros(100_000, np.int32), pa.array(["x" * 2**20]))}


def a_long_tag_in_one_task():
    tags = pa.ListArray.from_arrays(np.r_[0, np.full(10**6, 10**6)].astype(np.int32), pa.repeat("x" * 500, 10**6))
    return {"id": np.arange(10**6).astype(str), "tags": tags}


@pytest.mark.parametrize("columns", [a_long_id_again_and_again, a_long_tag_in_one_task])
async def test_a_small_file_that_stands_for_very_much_is_refused(http, columns):
    body = parquet(pa.table(columns()), compression="zstd")
    assert len(body) < 2**20
    require_problem(await http.put("/datasets/guru", content=body, headers=PARQUET), 422, "invalid-tasks")


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


@pytest.mark.parametrize("body", ["json", "ndjson", "parquet"])
async def test_more_tasks_than_a_dataset_may_have_are_refused_by_the_name_of_the_setting(tmp_path, body):
    rows = [{"id": f"t{number}"} for number in range(11)]
    headers, content = {
        "json": ({"Content-Type": "application/json"}, json.dumps({"tasks": rows}).encode()),
        "ndjson": (NDJSON, ndjson(rows)),
        "parquet": (PARQUET, parquet(table_of(rows))),
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


async def test_a_file_of_very_many_row_groups_is_refused_before_they_are_read(http, monkeypatch):
    monkeypatch.setattr(parquet_bounds, "FOOTER_BYTES", 10_000)
    body = parquet(table_of(tasks(100)), row_group_size=1)
    problem = require_problem(await http.put("/datasets/guru", content=body, headers=PARQUET), 422, "invalid-tasks")
    assert "write larger row groups" in problem["detail"]
