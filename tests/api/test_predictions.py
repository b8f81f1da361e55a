"""Predictions over HTTP: in three formats, from a run, and removed."""

import io
import json
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.api.pools import RUN, make_dataset, report, require_problem, solved

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


async def test_a_retry_with_the_same_key_gets_the_first_answer(http: httpx.AsyncClient):
    await make_dataset(http)
    first = await put(http, "json", BODIES["json"], **{"Idempotency-Key": "once"})
    (await http.delete(PROBE)).raise_for_status()
    again = await put(http, "json", BODIES["json"], **{"Idempotency-Key": "once"})
    assert (again.json(), again.headers["Idempotent-Replayed"]) == (first.json(), "true")
    assert (await http.get("/datasets/guru")).json()["predictions"] == []


async def test_removed_predictions_are_gone(http: httpx.AsyncClient):
    await make_dataset(http)
    (await put(http, "json", BODIES["json"])).raise_for_status()
    assert (await http.delete(PROBE)).json()["predictions"] == []
    require_problem(await http.delete(PROBE), 404, "unknown-predictions")


async def test_a_run_becomes_predictions(http: httpx.AsyncClient):
    await make_dataset(http)
    await report(http, solved(1), solved(4, 16))
    answer = await http.post(f"{RUN}/predictions", json={"name": "earlier"})
    (predicted,) = answer.json()["predictions"]
    assert (predicted["name"], predicted["tasks"]) == ("earlier", 2)
    require_problem(await http.post(f"{RUN}/predictions", json={"name": "e", "step": 9}), 404, "unknown-step")


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
