"""What every answer says beside its body, and what no body may say."""

import re

import pytest

from bots_service.retention import DOCS_CACHED_S
from tests.api.pools import RUN, make_dataset, require_problem, solved


@pytest.mark.parametrize(
    "path", ["/livez", "/readyz", "/version", "/whoami", RUN, f"{RUN}/export", "/docs", "/metrics", "/none"]
)
async def test_no_answer_may_be_kept_or_taken_for_something_else(http, path):
    await make_dataset(http)
    answer = await http.get(path)
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"


async def test_what_is_the_same_for_all_may_be_kept(http):
    for path, said in (("/", "no-cache"), ("/docs/swagger-ui.css", f"max-age={DOCS_CACHED_S:.0f}")):
        answer = await http.get(path)
        assert (answer.headers["Cache-Control"], answer.headers["X-Content-Type-Options"]) == (said, "nosniff")


async def test_the_documentation_runs_its_own_scripts_only_and_in_no_frame(http):
    answer = await http.get("/docs")
    policy = dict(part.strip().split(" ", 1) for part in answer.headers["Content-Security-Policy"].split(";"))
    assert policy["script-src"] == "'self'"
    assert re.findall(r"<script[^>]*>(.*?)</script>", answer.text, re.DOTALL) == ["", ""]
    assert (policy["default-src"], policy["frame-ancestors"]) == ("'none'", "'none'")


NAMES_WITH_A_LINE_FEED = {
    "a run": ("POST", "/select", {"dataset": "guru", "run": "default\n", "count": 1}),
    "a dataset": ("POST", "/report", {"dataset": "guru\n", "outcomes": [solved(1)]}),
    "a parent": ("PUT", "/datasets/guru/runs/new", {"fork": {"run": "default\n"}}),
    "a key": ("POST", "/keys", {"name": "one\n", "scopes": ["admin"], "datasets": ["*"]}),
    "a key's dataset": ("POST", "/keys", {"name": "one", "scopes": ["admin"], "datasets": ["*", "a-one\n"]}),
}


@pytest.mark.parametrize("what", NAMES_WITH_A_LINE_FEED)
async def test_a_name_with_a_line_feed_at_its_end_is_refused(http, what):
    await make_dataset(http)
    method, path, body = NAMES_WITH_A_LINE_FEED[what]
    require_problem(await http.request(method, path, json=body), 422, "invalid-request")


@pytest.mark.parametrize(
    ("method", "path", "body", "twice"),
    [
        ("POST", "/select", '{"dataset": "guru", "count": 4, "count": 5}', "count"),
        ("POST", "/report", '{"dataset": "guru", "outcomes": [{"task": "task-1", "task": "task-2"}]}', "task"),
        ("PATCH", RUN, '{"target": 0.5, "target": 0.75}', "target"),
        ("PATCH", RUN, '{"target": 0.5, "tar\\u0067et": 0.75}', "target"),
        ("POST", f"{RUN}/rewind", '{"step": 0, "step": 1}', "step"),
        ("PUT", "/datasets/guru/runs/new", '{"seed": 1, "fork": {"run": "default", "run": "other"}}', "run"),
        ("DELETE", "/datasets/guru/tasks", '{"ids": ["task-1"], "ids": ["task-2"]}', "ids"),
    ],
)
async def test_a_body_that_names_something_twice_is_refused(http, method, path, body, twice):
    await make_dataset(http)
    answer = await http.request(method, path, content=body, headers={"Content-Type": "application/json"})
    problem = require_problem(answer, 422, "invalid-request")
    assert problem["errors"] == [{"loc": ["body", twice], "msg": "this name occurs twice in one object"}]
