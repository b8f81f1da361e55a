"""Subsets over HTTP: from each format, under keys that may only select, and in select."""

import io
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.api.keyed import bearer, guarded, new_key
from tests.api.pools import make_dataset, require_problem, select

SUBSETS = "/datasets/guru/subsets"
MINE = ["task-3", "task-1", "task-7"]


def in_parquet(ids: list[str]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"id": ids}), file)
    return file.getvalue()


BODIES = {
    "application/json": lambda ids: b'{"tasks": [%s]}' % ", ".join(f'{{"id": "{one}"}}' for one in ids).encode(),
    "application/x-ndjson": lambda ids: "".join(f'{{"id": "{one}"}}\n' for one in ids).encode(),
    "application/vnd.apache.parquet": in_parquet,
}


async def make(http: httpx.AsyncClient, ids: list[str], kind: str = "application/json", **headers: str):
    return await http.post(SUBSETS, content=BODIES[kind](ids), headers={"Content-Type": kind, **headers})


@pytest.mark.parametrize("kind", BODIES)
async def test_every_format_makes_the_same_subset_in_which_tasks_are_selected(http: httpx.AsyncClient, kind: str):
    await make_dataset(http)
    answer = await make(http, MINE, kind)
    assert answer.status_code == 200, answer.text
    made = answer.json()
    assert made == {**(await make(http, MINE[::-1])).json(), "dataset": "guru", "others": 17, "missing": []}
    assert (made["tasks"], made["retired"]) == (3, 0)
    chosen = await select(http, 3, subset=made["subset"])
    assert sorted(task["id"] for task in chosen["tasks"]) == sorted(MINE)
    too_many = await http.post("/select", json={"dataset": "guru", "count": 4, "subset": made["subset"]})
    require_problem(too_many, 422, "pool-too-small")


async def test_tasks_that_the_dataset_lacks_are_named_by_their_places(http: httpx.AsyncClient):
    await make_dataset(http)
    made = (await make(http, ["task-1", "new-1", "task-2", "new-2"])).json()
    assert (made["subset"], made["tasks"], made["missing"]) == (None, 2, [1, 3])


async def test_what_is_no_subset_is_refused(http: httpx.AsyncClient):
    await make_dataset(http)
    require_problem(await make(http, []), 422, "invalid-tasks")
    problem = require_problem(
        await http.post("/select", json={"dataset": "guru", "count": 1, "subset": "x"}), 422, "invalid-selection"
    )
    assert [error["loc"] for error in problem["errors"]] == [["body", "subset"]]
    other = await http.post("/datasets/other/subsets", json={"tasks": [{"id": "a"}]})
    require_problem(other, 404, "unknown-dataset")


async def test_a_key_that_may_select_may_make_a_subset(tmp_path: Path):
    async with guarded(tmp_path) as http:
        await make_dataset(http)
        key = (await new_key(http, "select"))["key"]
        assert (await make(http, MINE, **bearer(key))).status_code == 200
