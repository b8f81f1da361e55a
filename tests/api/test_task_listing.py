import csv
import io

import pyarrow as pa
import pytest
from scipy.stats import betabinom

from tests.api.pools import RUN, make_dataset, report, require_problem, solved, tasks

SEGMENTS = ["untried", "aborting", "stuck", "teaching", "solved", "retired"]
SORTS = ["index", "mean", "distance", "effective", "variance", "attempts", "successes", "visits", "last_step"]


@pytest.fixture(params=["bots", "tracker"])
async def tried(http, request):
    """Return a client of a service with 50 tasks, some of which were tried, some retired."""
    await make_dataset(http, 50)
    assert (await http.put(RUN, json={"belief": request.param})).json()["settings"]["belief"] == request.param
    for task in range(12):
        await report(http, solved(task, task % 5, 8), solved(task + 20, 1, 2))
    await http.request("DELETE", "/datasets/guru/tasks", json={"ids": ["task-7", "task-45"]})
    return http


def value(task, sort):
    values = {
        **task,
        "index": int(task["id"].removeprefix("task-")),
        "distance": abs(task["mean"] - 0.5),
        "last_step": task["last_step"] or 0,
    }
    return values[sort]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("sort", SORTS)
async def test_paging_walks_every_task_exactly_once_in_order(tried, sort, descending):
    seen, cursor = [], None
    while True:
        query = {"sort": "-" * descending + sort, "limit": 7, **({"cursor": cursor} if cursor else {})}
        page = (await tried.get(f"{RUN}/tasks", params=query)).json()
        seen += page["tasks"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert sorted(task["id"] for task in seen) == sorted(f"task-{n}" for n in range(50) if n not in (7, 45))
    values = [value(task, sort) for task in seen]
    # The mean is divided again here, so equal values may differ in the last bit.
    ordered = sorted(values, reverse=descending)
    assert values == pytest.approx(ordered, rel=1e-12, abs=1e-12)


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


@pytest.mark.parametrize("search", ["", "x" * 129])
async def test_a_search_for_nothing_or_for_too_much_is_refused(tried, search):
    require_problem(await tried.get(f"{RUN}/tasks", params={"search": search}), 422, "invalid-request")


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


async def test_paging_walks_one_segment(tried):
    seen, cursor = [], None
    while True:
        query = {"segment": "teaching", "sort": "-mean", "limit": 3, **({"cursor": cursor} if cursor else {})}
        page = (await tried.get(f"{RUN}/tasks", params=query)).json()
        assert page["matching"] == page["segments"]["teaching"]
        seen += [task["id"] for task in page["tasks"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) == page["matching"] > 3


async def test_an_unknown_segment_is_refused_with_the_known_ones(tried):
    problem = require_problem(await tried.get(f"{RUN}/tasks?segment=lost"), 422, "invalid-request")
    assert all(segment in str(problem["errors"]) for segment in SEGMENTS)


async def test_successes_are_sums_of_scaled_rewards(http):
    await make_dataset(http, 5, reward_range=[-1.0, 1.0])
    await report(http, {"task": "task-1", "rewards": [-1.0, 0.5, 1.0]}, {"task": "task-2", "rewards": [-1.0, -1.0]})
    await report(http, {"task": "task-1", "rewards": [0.0]})
    listed = {task["id"]: task for task in (await http.get(f"{RUN}/tasks")).json()["tasks"]}
    assert (listed["task-1"]["attempts"], listed["task-1"]["successes"]) == (4, 0.75 + 1.0 + 0.5)
    assert (listed["task-2"]["attempts"], listed["task-2"]["successes"], listed["task-2"]["segment"]) == (2, 0, "stuck")
    assert (listed["task-3"]["successes"], listed["task-3"]["segment"]) == (0, "untried")


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


async def test_only_a_belief_of_betas_tells_alpha_and_beta(tried):
    kind = (await tried.get(RUN)).json()["settings"]["belief"]
    for task in (await tried.get(f"{RUN}/tasks?limit=1000")).json()["tasks"]:
        alpha, beta = task["alpha"], task["beta"]
        if kind == "tracker":
            assert (alpha, beta) == (None, None)
            continue
        assert task["mean"] == pytest.approx(alpha / (alpha + beta), rel=1e-12)
        assert task["variance"] == pytest.approx(alpha * beta / (alpha + beta) / (alpha + beta + 1), rel=1e-12)
        likely = betabinom(5, alpha - 0.5, beta - 0.5)  # reports of 8 rollouts and of 2: 5 of a task
        assert task["effective"] == pytest.approx(1 - likely.pmf(0) - likely.pmf(5), abs=1e-9)


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


async def test_the_arrow_stream_of_a_large_pool_comes_in_pieces(http):
    count = 140_000
    lines = b"".join(b'{"id": "task-%d"}\n' % number for number in range(count))
    await http.put("/datasets/guru", content=lines, headers={"Content-Type": "application/x-ndjson"})
    pieces = 0
    async with http.stream("GET", f"{RUN}/tasks", headers={"Accept": "application/vnd.apache.arrow.stream"}) as answer:
        body = b""
        async for piece in answer.aiter_raw():
            body += piece
            pieces += 1
    table = pa.ipc.open_stream(io.BytesIO(body)).read_all()
    assert table["id"].to_pylist() == [f"task-{number}" for number in range(count)]
    assert table["last_step"].null_count == count
