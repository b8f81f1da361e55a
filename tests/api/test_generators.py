"""Datasets of generators over HTTP: made in each format, drawn with seeds, reported group by group."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.api.pools import RUN, report, require_problem, select

IDS = ["add-2", "add-4"]
LINES = b"".join(b'{"id": "%s"}\n' % one.encode() for one in IDS)
NDJSON = {"Content-Type": "application/x-ndjson"}


def parquet(tmp_path):
    table = pa.table({"id": IDS}).replace_schema_metadata({"bots": '{"generators": true}'})
    pq.write_table(table, tmp_path / "pool.parquet")
    return (tmp_path / "pool.parquet").read_bytes()


@pytest.fixture
async def made(http):
    answer = await http.put("/datasets/guru", json={"generators": True, "tasks": [{"id": one} for one in IDS]})
    assert answer.status_code == 201, answer.text
    assert answer.json()["generators"] is True
    return http


async def test_all_formats_make_the_same_dataset(made, tmp_path):
    files = [
        (b'{"generators": true}\n' + LINES, NDJSON, {}),
        (LINES, NDJSON, {"generators": "true"}),
        (parquet(tmp_path), {"Content-Type": "application/vnd.apache.parquet"}, {}),
    ]
    for content, headers, query in files:
        answer = await made.put("/datasets/guru", content=content, headers=headers, params=query)
        assert answer.status_code == 200, answer.text
    plain = await made.put("/datasets/guru", content=LINES, headers=NDJSON)
    assert plain.status_code == 409
    assert (await made.put("/datasets/plain", content=LINES, headers=NDJSON)).json()["generators"] is False


async def test_query_and_body_may_not_contradict_each_other(http):
    content = b'{"generators": false}\n' + LINES
    answer = await http.put("/datasets/guru", content=content, headers=NDJSON, params={"generators": "true"})
    problem = require_problem(answer, 422, "invalid-tasks")
    assert problem["errors"][0]["loc"] == ["query", "generators"]


async def test_each_draw_has_a_seed_and_each_group_counts(made):
    selection = await select(made, 6)
    pairs = [(task["id"], task["seed"]) for task in selection["tasks"]]
    assert len(set(pairs)) == 6
    assert all(0 <= seed < 2**53 for _, seed in pairs)
    outcomes = [{"task": task, "seed": seed, "rewards": [0, 1]} for task, seed in pairs]
    receipt = await report(made, *outcomes, selection_id=selection["selection_id"])
    assert (receipt["reported"], receipt["effective"], receipt["distinct_tasks"]) == (6, 6, 2)
    run = (await made.get(RUN)).json()
    assert run["totals"]["reported"] == 6
    assert run["leased"] == 0
    tags = (await made.get(f"{RUN}/tasks")).json()["tasks"]
    assert sum(task["attempts"] for task in tags) == 12


async def test_seeds_that_can_not_be_are_refused(made):
    for seed in (-1, 2**53, 0.5, "x"):
        told = {"dataset": "guru", "outcomes": [{"task": "add-2", "rewards": [1], "seed": seed}]}
        assert (await made.post("/report", json=told)).status_code == 422


async def test_a_strategy_for_tasks_is_refused_and_the_answer_names_those_for_generators(made):
    answer = await made.patch(RUN, json={"strategy": "shuffle"})
    assert answer.status_code == 422
    assert "pass, thompson, uniform" in answer.json()["errors"][0]["msg"]
