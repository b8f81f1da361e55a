"""Subsets and predictions over HTTP: made, under keys, and in use. Subsets are read as datasets are: test_uploads."""

import io
import json
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

from tests.api.keyed import bearer, guarded, new_key
from tests.api.pools import RUN, make_dataset, require_problem, select

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


async def test_a_key_that_may_select_may_make_a_subset(tmp_path: Path):
    async with guarded(tmp_path) as http:
        await make_dataset(http)
        key = (await new_key(http, "select"))["key"]
        assert (await make(http, MINE, **bearer(key))).status_code == 200


PROBE = "/datasets/guru/predictions/probe"
ROWS: list[dict[str, Any]] = [{"id": "task-1", "pass_rate": 0.25}, {"id": "task-2", "pass_rate": 1}]
UNKNOWN = {"id": "task-3", "pass_rate": None}
TYPES = {"ndjson": "application/x-ndjson", "parquet": "application/vnd.apache.parquet"}


def parquet(columns: dict[str, Any]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def column(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in ("id", "pass_rate")}


PREDICTIONS = {
    "json": json.dumps({"predictions": [*ROWS, UNKNOWN]}).encode(),
    "ndjson": "".join(json.dumps(row) + "\n" for row in [*ROWS, UNKNOWN]).encode(),
    "parquet": parquet(column([*ROWS, UNKNOWN])),
}


async def put(http: httpx.AsyncClient, kind: str, body: bytes, **headers: str) -> httpx.Response:
    return await http.put(PROBE, content=body, headers={"Content-Type": TYPES.get(kind, "application/json"), **headers})


async def test_every_format_gives_the_same_predictions_and_new_runs_see_them(http: httpx.AsyncClient):
    await make_dataset(http)
    for kind, body in PREDICTIONS.items():
        answer = await put(http, kind, body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["predictions"] == [{"name": "probe", "tasks": 2, "mean": 0.625, "parts": 16}]
        assert (await http.get("/datasets/guru")).json() == answer.json()
    assert (await http.get(RUN)).json()["predictions"] == ["probe"]


async def test_removed_predictions_are_gone(http: httpx.AsyncClient):
    await make_dataset(http)
    (await put(http, "json", PREDICTIONS["json"])).raise_for_status()
    assert (await http.delete(PROBE)).json()["predictions"] == []
    require_problem(await http.delete(PROBE), 404, "unknown-predictions")
