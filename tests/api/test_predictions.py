"""Predictions over HTTP: in three formats, from a run, and removed."""

import io
import json
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.api.pools import RUN, make_dataset, require_problem

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


BODIES = {
    "json": json.dumps({"predictions": [*ROWS, UNKNOWN]}).encode(),
    "ndjson": "".join(json.dumps(row) + "\n" for row in [*ROWS, UNKNOWN]).encode(),
    "parquet": parquet(column([*ROWS, UNKNOWN])),
}


async def put(http: httpx.AsyncClient, kind: str, body: bytes, **headers: str) -> httpx.Response:
    return await http.put(PROBE, content=body, headers={"Content-Type": TYPES.get(kind, "application/json"), **headers})


async def test_every_format_gives_the_same_predictions_and_new_runs_see_them(http: httpx.AsyncClient):
    await make_dataset(http)
    for kind, body in BODIES.items():
        answer = await put(http, kind, body)
        assert answer.status_code == 200, answer.text
        assert answer.json()["predictions"] == [{"name": "probe", "tasks": 2, "mean": 0.625, "parts": 16}]
        assert (await http.get("/datasets/guru")).json() == answer.json()
    assert (await http.get(RUN)).json()["predictions"] == ["probe"]


async def test_removed_predictions_are_gone(http: httpx.AsyncClient):
    await make_dataset(http)
    (await put(http, "json", BODIES["json"])).raise_for_status()
    assert (await http.delete(PROBE)).json()["predictions"] == []
    require_problem(await http.delete(PROBE), 404, "unknown-predictions")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("json", b'{"predictions": [{"id": "gone", "pass_rate": 0.5}]}'),
        ("json", b'{"predictions": [{"id": "task-1", "pass_rate": 2}]}'),
        ("json", b'{"predictions": []}'),
        ("ndjson", b'{"id": "task-1"}\n'),
        ("parquet", parquet({"id": ["task-1"]})),
        ("parquet", parquet({"pass_rate": [0.5]})),
        ("parquet", parquet({"id": ["task-1"], "pass_rate": ["much"]})),
        ("parquet", parquet({"id": ["task-1"], "pass_rate": [0.5], "more": [1]})),
        ("parquet", parquet({"id": pa.array([None], pa.string()), "pass_rate": [0.5]})),
    ],
)
async def test_bad_predictions_are_refused_and_change_nothing(http: httpx.AsyncClient, kind: str, body: bytes):
    await make_dataset(http)
    before = (await http.get("/datasets/guru")).json()
    answer = await put(http, kind, body)
    assert (answer.status_code, answer.headers["Content-Type"]) == (422, "application/problem+json")
    assert (await http.get("/datasets/guru")).json() == before
