import csv
import io

import pyarrow as pa
import pytest

from tests.api.pools import RUN, make_dataset, report, require_problem, solved, tasks

SEGMENTS = ["untried", "aborting", "stuck", "teaching", "solved", "retired"]


@pytest.fixture(params=["bots", "tracker"])
async def tried(http, request):
    """Return a client of a service with 50 tasks, some of which were tried, some retired."""
    await make_dataset(http, 50)
    assert (await http.put(RUN, json={"belief": request.param})).json()["settings"]["belief"] == request.param
    for task in range(12):
        await report(http, solved(task, task % 5, 8), solved(task + 20, 1, 2))
    await http.request("DELETE", "/datasets/guru/tasks", json={"ids": ["task-7", "task-45"]})
    return http


async def test_ids_and_a_tag_narrow_the_list(tried):
    listed = (await tried.get(f"{RUN}/tasks", params={"ids": ["task-3", "task-4", "task-7"]})).json()["tasks"]
    assert [task["id"] for task in listed] == ["task-3", "task-4"]
    listed = (await tried.get(f"{RUN}/tasks", params={"tag": "code", "limit": 1000})).json()["tasks"]
    tagged = {task["id"] for task in tasks(50) if "code" in task["tags"]} - {"task-45"}
    assert {task["id"] for task in listed} == tagged
    assert all(task["tags"] == ["code"] for task in listed)


async def test_a_search_narrows_the_list_and_tells_how_many_match(tried):
    with_a_four = [task for task in tasks(50) if "4" in task["id"] and task["id"] != "task-45"]
    coded = {task["id"] for task in with_a_four if "code" in task["tags"]}
    seen: list[str] = []
    cursor = None
    while cursor is not None or not seen:
        query = {"search": "4", "tag": "code", "sort": "-mean", "limit": 2, **({"cursor": cursor} if cursor else {})}
        page = (await tried.get(f"{RUN}/tasks", params=query)).json()
        assert page["matching"] == len(coded)
        seen += [task["id"] for task in page["tasks"]]
        cursor = page["next_cursor"]
    assert len(seen) == len(coded)
    assert set(seen) == coded
    everyone = (await tried.get(f"{RUN}/tasks", params={"limit": 1})).json()
    assert everyone["matching"] == 50 - 2
    none = (await tried.get(f"{RUN}/tasks", params={"search": "task-4task"})).json()
    assert none == {"tasks": [], "matching": 0, "segments": dict.fromkeys(SEGMENTS, 0), "next_cursor": None}


async def test_the_segments_part_the_tasks_and_their_counts_follow_the_other_filters(tried):
    await report(tried, *[solved(task, 16, 16) for task in (30, 31)] * 4)  # task 31 was solved half the time before
    counts, listed = (await tried.get(f"{RUN}/tasks")).json()["segments"], {}
    for segment in SEGMENTS:
        answer = (await tried.get(f"{RUN}/tasks", params={"segment": segment, "limit": 1000})).json()
        assert {task["segment"] for task in answer["tasks"]} <= {segment}
        listed[segment] = {task["id"] for task in answer["tasks"]}
        assert answer["matching"] == len(listed[segment])
        assert answer["segments"] == counts
    assert counts == {segment: len(ids) for segment, ids in listed.items()}
    assert listed["retired"] == {"task-7", "task-45"}
    assert listed["stuck"] == {f"task-{task}" for task in (0, 5, 10)}
    attempted = {f"task-{task}" for task in (*range(12), *range(20, 32))} - listed["retired"]
    assert listed["teaching"] | listed["solved"] == attempted - listed["stuck"]
    assert listed["untried"] == {f"task-{task}" for task in range(50)} - attempted - listed["retired"]
    query = {"segment": "untried", "search": "4", "tag": "math"}
    found = (await tried.get(f"{RUN}/tasks", params=query)).json()
    coded = {task["id"] for task in tasks(50) if "4" in task["id"] and "math" in task["tags"]}
    assert found["segments"] == {segment: len(ids & coded) for segment, ids in listed.items()}
    assert {task["id"] for task in found["tasks"]} == listed["untried"] & coded


async def test_an_unknown_segment_is_refused_with_the_known_ones(tried):
    problem = require_problem(await tried.get(f"{RUN}/tasks?segment=lost"), 422, "invalid-request")
    assert all(segment in str(problem["errors"]) for segment in SEGMENTS)


async def test_a_task_tells_its_interval_and_how_often_and_when_it_was_tried(tried):
    listed = {task["id"]: task for task in (await tried.get(f"{RUN}/tasks?limit=1000")).json()["tasks"]}
    assert (listed["task-3"]["attempts"], listed["task-3"]["last_step"]) == (8, 4)
    assert (listed["task-23"]["attempts"], listed["task-23"]["last_step"]) == (2, 4)
    assert (listed["task-15"]["attempts"], listed["task-15"]["last_step"]) == (0, None)
    for task in listed.values():
        low, high = task["interval"]
        assert 0 <= low < task["mean"] < high <= 1
        assert 0 <= task["effective"] <= 1
        assert 0 < task["variance"] <= 0.25


async def test_the_arrow_stream_equals_the_listing(tried):
    listed = (await tried.get(f"{RUN}/tasks?limit=1000")).json()["tasks"]
    answer = await tried.get(f"{RUN}/tasks", headers={"Accept": "application/vnd.apache.arrow.stream"})
    assert answer.headers["content-type"] == "application/vnd.apache.arrow.stream"
    rows = pa.ipc.open_stream(io.BytesIO(answer.content)).read_all().to_pylist()
    for row in rows:
        row["interval"] = [row.pop("low"), row.pop("high")]
    assert rows == [{name: field for name, field in task.items() if name != "tags"} for task in listed]


@pytest.mark.parametrize("query", [{}, {"segment": "stuck", "sort": "-mean"}, {"tag": "code", "search": "4"}])
async def test_csv_has_the_tasks_of_all_pages(tried, query):
    listed = (await tried.get(f"{RUN}/tasks", params={**query, "limit": 1000})).json()["tasks"]
    answer = await tried.get(f"{RUN}/tasks", params={**query, "format": "csv", "limit": 1})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="guru-default-tasks.csv"'
    for task in listed:
        task["low"], task["high"] = task.pop("interval")
        task["tags"] = ";".join(task["tags"])
    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert rows == [{name: "" if field is None else str(field) for name, field in task.items()} for task in listed]
    accepted = await tried.get(f"{RUN}/tasks", params=query, headers={"Accept": "text/csv"})
    assert accepted.text == answer.text


async def test_csv_keeps_ids_as_they_are(http):
    ids = ["=1+1", "@a", "-b", 'a "quoted", id', "é;", "+c"]
    await http.put("/datasets/guru", json={"tasks": [{"id": name, "tags": ["b", "a"]} for name in ids]})
    text = (await http.get(f"{RUN}/tasks?format=csv")).text
    assert text.count("\r\n") == text.count("\n") == 1 + len(ids)
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [(row["id"], row["tags"]) for row in rows] == [(name, "a;b") for name in ids]


async def test_an_unknown_format_is_refused(tried):
    require_problem(await tried.get(f"{RUN}/tasks?format=xlsx"), 422, "invalid-request")
