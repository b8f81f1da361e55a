import csv
import io

import pyarrow as pa
import pytest

from tests.api.pools import RUN, make_dataset, report, solved, tasks

SEGMENTS = ["untried", "aborting", "stuck", "teaching", "solved", "retired"]


@pytest.fixture
async def tried(http):
    """Return a client of a service with 50 tasks, some of which were tried, some retired."""
    await make_dataset(http, 50)
    for task in range(12):
        await report(http, solved(task, task % 5, 8), solved(task + 20, 1, 2))
    await http.request("DELETE", "/datasets/guru/tasks", json={"ids": ["task-7", "task-45"]})
    return http


async def test_a_search_narrows_the_list_which_comes_in_pages_and_tells_how_many_match(tried):
    coded = {task["id"] for task in tasks(50) if "4" in task["id"] and "code" in task["tags"]} - {"task-45"}
    query = {"search": "4", "tag": "code", "sort": "-mean", "limit": len(coded) - 1}
    page = (await tried.get(f"{RUN}/tasks", params=query)).json()
    rest = (await tried.get(f"{RUN}/tasks", params={**query, "cursor": page["next_cursor"]})).json()
    assert {task["id"] for task in page["tasks"] + rest["tasks"]} == coded
    assert (len(rest["tasks"]), page["matching"], rest["matching"]) == (1, len(coded), len(coded))
    none = (await tried.get(f"{RUN}/tasks", params={"search": "task-4task"})).json()
    assert none == {"tasks": [], "matching": 0, "segments": dict.fromkeys(SEGMENTS, 0), "next_cursor": None}


async def test_the_arrow_stream_equals_the_listing(tried):
    listed = (await tried.get(f"{RUN}/tasks?limit=1000")).json()["tasks"]
    answer = await tried.get(f"{RUN}/tasks", headers={"Accept": "application/vnd.apache.arrow.stream"})
    assert answer.headers["content-type"] == "application/vnd.apache.arrow.stream"
    rows = pa.ipc.open_stream(io.BytesIO(answer.content)).read_all().to_pylist()
    for row in rows:
        row["interval"] = [row.pop("low"), row.pop("high")]
    assert rows == [{name: field for name, field in task.items() if name != "tags"} for task in listed]


def as_read(field):
    if field is None:
        return ""
    return field if isinstance(field, float) else str(field)


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
    assert [
        {name: float(text) if isinstance(task[name], float) else text for name, text in row.items()}
        for row, task in zip(rows, listed, strict=True)
    ] == [{name: as_read(field) for name, field in task.items()} for task in listed]
    accepted = await tried.get(f"{RUN}/tasks", params=query, headers={"Accept": "text/csv"})
    assert accepted.text == answer.text


async def test_csv_keeps_ids_as_they_are(http):
    ids = ["=1+1", "@a", "-b", 'a "quoted", id', "é;", "+c"]
    await http.put("/datasets/guru", json={"tasks": [{"id": name, "tags": ["b", "a"]} for name in ids]})
    text = (await http.get(f"{RUN}/tasks?format=csv")).text
    assert text.count("\r\n") == text.count("\n") == 1 + len(ids)
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    assert [(row["id"], row["tags"]) for row in rows] == [(name, "a;b") for name in ids]
