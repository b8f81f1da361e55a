"""Whatever is wrong with a request: a 4xx problem, and nothing changed."""

from ast import literal_eval
from collections.abc import AsyncIterator
from typing import Any, get_args

import httpx
import pytest
import pytest_asyncio

from bots_service.core.belief import KINDS
from bots_service.core.run_settings import CapabilityRule, StrategyName
from bots_service.keys import Scope
from tests.api.conftest import serving
from tests.api.pools import RUN, make_dataset, report, require_problem, solved, standing

JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}
NEW = "/datasets/guru/runs/new"


# One service for all that is refused: each test checks that nothing changed.
pytestmark = pytest.mark.asyncio(loop_scope="module")
for_all = pytest_asyncio.fixture(scope="module", loop_scope="module")


@for_all
async def http(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(tmp_path_factory.mktemp("empty")) as client:
        yield client


@for_all
async def busy(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(tmp_path_factory.mktemp("busy")) as client:
        await make_dataset(client)
        await report(client, solved(1), solved(2))
        yield client


def outcome(**fields: Any) -> dict[str, Any]:
    return {"outcomes": [solved(3), {"task": "task-1", **fields}]}


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (outcome(successes=-1, trials=2), "invalid-outcomes"),
        (outcome(status="lost"), "invalid-input"),
        (outcome(successes=1, trials=2, tokens=-1), "invalid-input"),
        (outcome(successes="1", trials=2), "invalid-input"),
        (outcome(successes=1, trials=2, wins=1), "invalid-input"),
        ({"outcomes": [{"task": "nobody", "successes": 1, "trials": 1}]}, "invalid-outcomes"),
        ({"outcomes": [{"task": "x" * 10_000, "successes": 1, "trials": 1}]}, "invalid-input"),
        ({"outcomes": [solved(1)] * 65_537}, "invalid-input"),
        ({"outcomes": [], "selection_id": "0-0-0-0-abcdef"}, "invalid-selection"),
        ({"outcomes": [], "run": "../x"}, "invalid-input"),
        ({"outcomes": [], "dataset": "guru\n"}, "invalid-input"),
    ],
)
async def test_impossible_evidence_is_refused_and_changes_nothing(busy, body, name):
    before = await standing(busy)
    problem = require_problem(await busy.post("/report", json={"dataset": "guru", **body}), 422, name)
    assert problem["errors"]
    assert all(error["loc"][0] == "body" for error in problem["errors"])
    assert await standing(busy) == before


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "nan", "1e400", "-1e400", "0x1", "01", "1."])
async def test_numbers_that_json_has_not_are_refused(busy, number):
    before = await standing(busy)
    for field in ('"successes": %s, "trials": 8', '"successes": 1, "trials": %s', '"rewards": [%s]'):
        body = '{"dataset": "guru", "outcomes": [{"task": "task-1", %s}]}' % (field % number)
        answer = await busy.post("/report", content=body, headers=JSON)
        status, kind = (422, "invalid-input") if "400" in number else (400, "malformed-body")
        require_problem(answer, status, kind)
    assert await standing(busy) == before


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"count": -1}, "invalid-input"),
        ({"count": 10**9}, "invalid-input"),
        ({}, "invalid-selection"),
        ({"count": 2, "want_effective": 2}, "invalid-selection"),
        ({"count": 1, "tags": ["x"] * 65}, "invalid-input"),
        ({"count": 1, "colour": "red"}, "invalid-input"),
        ({"count": 1, "run": "default\n"}, "invalid-input"),
        ({"count": 20, "exclude": ["task-1"]}, "pool-too-small"),
    ],
)
async def test_impossible_selections_are_refused_and_lease_nothing(busy, body, name):
    before = await standing(busy)
    require_problem(await busy.post("/select", json={"dataset": "guru", **body}), 422, name)
    assert await standing(busy) == before


@pytest.mark.parametrize("field", ["successes", "wins"])
async def test_a_flaw_in_one_of_many_outcomes_is_named_by_its_place(busy, field):
    outcomes = [*map(solved, range(7)), {"task": "task-7", "successes": 1, "trials": 8} | {field: "many"}]
    answer = await busy.post("/report", json={"dataset": "guru", "outcomes": outcomes})
    problem = require_problem(answer, 422, "invalid-input")
    assert problem["errors"][0]["loc"] == ["body", "outcomes", 7, field]


BROKEN = (b"", b"{", b"[1,", b"\xff\xfe{}", b"{} {}", b"nothing", b'{"dataset": "\xff"}', b'{"a": ' + b"[" * 100_000)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/select"),
        ("POST", "/report"),
        ("PUT", "/datasets/x"),
        ("PATCH", RUN),
        ("DELETE", "/datasets/guru/tasks"),
    ],
)
async def test_bodies_that_are_not_whole_json_of_the_right_type_are_refused(busy, method, path):
    before = await standing(busy)
    for broken in BROKEN:
        answer = await busy.request(method, path, content=broken, headers=JSON)
        assert answer.status_code in (400, 422), (broken[:20], answer.text)
        kind = "malformed-body" if answer.status_code == 400 else "invalid-input"
        require_problem(answer, answer.status_code, kind)
    for shape in (b"[]", b"null", b"3", b'"text"'):
        require_problem(await busy.request(method, path, content=shape, headers=JSON), 422, "invalid-input")
    for headers in ({"Content-Type": "text/plain"}, {"Content-Type": ""}, {**JSON, "Content-Encoding": "gzip"}):
        answer = await busy.request(method, path, content=b"{}", headers=headers)
        require_problem(answer, 415, "unsupported-media-type")
    assert await standing(busy) == before


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ({"id": "x" * 10_000}, "invalid-tasks"),
        ({"id": "task-0"}, "invalid-tasks"),
        ({"id": "a", "reference_pass_rates": [0.5]}, "invalid-tasks"),
        ({"id": "a", "level": 3}, "invalid-input"),
    ],
)
async def test_impossible_tasks_are_refused_in_json_and_ndjson_alike(http, task, name):
    good = {"id": "task-0", "reference_pass_rates": [0.25, 0.5]}
    header = {"reference_models": ["weak", "strong"]}
    whole = {**header, "tasks": [good, task]}
    problem = require_problem(await http.put("/datasets/guru", json=whole), 422, name)
    assert problem["errors"][0]["loc"][:3] == ["body", "tasks", 1]
    lines = b"\n".join(httpx.Request("PUT", "http://x", json=line).content for line in (header, good, task))
    again = require_problem(await http.put("/datasets/guru", content=lines, headers=NDJSON), 422, name)
    assert again["errors"] == problem["errors"]
    assert (await http.get("/datasets")).json() == {"datasets": [], "next_cursor": None}


@pytest.mark.parametrize(
    "path",
    [
        "/datasets?limit=0",
        "/datasets?cursor=broken",
        "/datasets/.hidden",
        f"/datasets/{'x' * 129}",
        f"{RUN}/tasks?sort=colour",
        f"{RUN}/tasks?segment=lost",
        f"{RUN}/tasks?format=xlsx",
        f"{RUN}/leases?limit=1001",
        f"{RUN}/journal?limit=201",
        f"{RUN}/tasks?tag=nobody",
        f"{RUN}/tasks?{'&'.join(['ids=task-1'] * 1001)}",
        f"{RUN}/history?after_step=99999999999999999999999",
        f"{RUN}/history?limt=5",
        f"{RUN}?run=other",
    ],
)
async def test_impossible_questions_are_refused(busy, path):
    answer = await busy.get(path)
    require_problem(answer, 422, answer.json()["type"].rpartition(":")[2])
    assert answer.json()["errors"]


async def test_an_unknown_parameter_is_named_with_what_was_meant(busy):
    answer = require_problem(await busy.get(f"{RUN}/history?limt=5"), 422, "invalid-input")
    assert answer["errors"] == [
        {
            "loc": ["query", "limt"],
            "msg": "'limt' is not one of after_step, cursor, limit; did you mean 'limit'?",
        }
    ]
    answer = require_problem(await busy.post("/select?count=3", json={"dataset": "guru"}), 422, "invalid-input")
    assert answer["errors"] == [{"loc": ["query", "count"], "msg": "this route takes no parameters"}]


async def test_bodies_beyond_their_limit_are_refused_by_header_and_by_count(tmp_path):
    limit = 2**12
    async with serving(tmp_path, max_upload_bytes=limit) as http:
        await make_dataset(http)
        before = await standing(http)

        async def chunks(count: int):
            for _ in range(count):
                yield b" " * 2**16

        for method, path, mebibytes in (
            ("POST", "/select", 8),
            ("POST", "/report", 8),
            ("PATCH", RUN, 1),
            ("PUT", RUN, 1),
        ):
            size = mebibytes * 2**20
            declared = await http.request(
                method, path, content=b"{}", headers={**JSON, "Content-Length": str(size + 1)}
            )
            require_problem(declared, 413, "payload-too-large")
            counted = await http.request(method, path, content=chunks(size // 2**16 + 1), headers=JSON)
            require_problem(counted, 413, "payload-too-large")
        for kind in ("application/json", "application/x-ndjson"):
            answer = await http.put("/datasets/big", content=chunks(1), headers={"Content-Type": kind})
            require_problem(answer, 413, "payload-too-large")
        assert await standing(http) == before


async def test_a_line_longer_than_a_mebibyte_is_refused(http):
    async def chunks():
        yield b'{"id": "'
        for _ in range(40):
            yield b"x" * 2**15

    answer = await http.put("/datasets/guru", content=chunks(), headers=NDJSON)
    require_problem(answer, 413, "payload-too-large")


KEY = {"name": "ours", "datasets": ["*"]}


@pytest.mark.parametrize(
    ("method", "path", "body", "loc", "choices"),
    [
        ("PUT", NEW, {"strategy": "pas"}, ["strategy"], get_args(StrategyName)),
        ("PATCH", RUN, {"strategy": "pas"}, ["strategy"], get_args(StrategyName)),
        ("PUT", NEW, {"capability": "papers"}, ["capability"], get_args(CapabilityRule)),
        ("PUT", NEW, {"belief": "trackers"}, ["belief"], tuple(KINDS)),
        ("POST", "/report", {"dataset": "guru", **outcome(status="abort")}, ["outcomes", 1, "status"], ["aborted"]),
        ("POST", "/keys", {**KEY, "scopes": ["read", "reports"]}, ["scopes", 1], list(Scope)),
    ],
)
async def test_a_misspelled_choice_is_answered_with_all_choices_and_the_nearest(busy, method, path, body, loc, choices):
    kind = "invalid-settings" if "belief" in body else "invalid-input"
    (flaw,) = require_problem(await busy.request(method, path, json=body), 422, kind)["errors"]
    assert flaw["loc"] == ["body", *loc]
    said, meant = flaw["msg"].split("; ")
    assert set(said.split(" is not one of ")[1].split(", ")) == set(choices)
    wrong = literal_eval(said.split(" is not one of ")[0])
    nearest = {"pas": "pass", "papers": "paper", "trackers": "tracker", "abort": "aborted", "reports": "report"}
    assert meant == f"did you mean {nearest[wrong]!r}?"


@pytest.mark.parametrize(
    ("method", "path", "body", "loc", "meant"),
    [
        ("PUT", NEW, {"stratgy": "pass"}, ["stratgy"], "strategy"),
        ("POST", "/select", {"datset": "guru", "count": 1}, ["datset"], "dataset"),
        ("POST", "/report", {"dataset": "guru", **outcome(succeses=1)}, ["outcomes", 1, "succeses"], "successes"),
        ("PUT", "/datasets/new", {"tasks": [{"id": "a", "tag": ["b"]}]}, ["tasks", 0, "tag"], "tags"),
    ],
)
async def test_an_unknown_field_is_named_with_what_was_meant(busy, method, path, body, loc, meant):
    (flaw,) = require_problem(await busy.request(method, path, json=body), 422, "invalid-input")["errors"]
    assert flaw["loc"] == ["body", *loc]
    assert flaw["msg"].endswith(f"; did you mean {meant!r}?")


async def test_a_name_that_is_none_is_told_without_a_pattern(busy):
    for answer in (
        await busy.put("/datasets/my data", json={"tasks": []}),
        await busy.post("/report", json={"dataset": "my data", "outcomes": []}),
    ):
        (flaw,) = require_problem(answer, 422, "invalid-input")["errors"]
        assert flaw["loc"][1] == "dataset"
        assert not set(flaw["msg"]) & set("^[]{}")
