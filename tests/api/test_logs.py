"""Lines of the log: one JSON object each, with the names of what they tell, and never a key."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from structlog.testing import capture_logs

from tests.api.conftest import serving
from tests.api.keyed import OPERATOR, bearer
from tests.api.pools import MODELS, RUN, make_dataset, report, select, solved, tasks
from tests.serving import API_KEY, running_service


def lines_of(log: Path) -> list[dict[str, Any]]:
    """Return the lines; only the greeting, which is for people, is no JSON."""
    greeting, *lines = sorted(log.read_text().splitlines(), key=lambda line: line.startswith("{"))
    assert greeting.startswith("BOTS listens on ")
    return [json.loads(line) for line in lines]


def ask(http: httpx.Client, method: str, path: str, **more: Any) -> httpx.Response:
    """Send a request that names itself by its route."""
    return http.request(method, path, headers={"X-Request-Id": f"{method} {path}", **more.pop("headers", {})}, **more)


def test_each_line_names_its_request_and_its_run(tmp_path: Path):
    settings = {"log_format": "json", "log_level": "debug"}
    with running_service(tmp_path, **settings) as service, httpx.Client(base_url=service.url, timeout=60) as http:
        ask(http, "PUT", "/datasets/guru", json={"reference_models": MODELS, "tasks": tasks(5)})
        ask(http, "POST", "/report", json={"dataset": "guru", "outcomes": [solved(1)]})
        ask(http, "POST", "/select", json={"dataset": "guru", "run": "default", "count": 1})
        ask(http, "GET", RUN)
        ask(http, "GET", "/datasets/guru/runs/unknown")
        ask(http, "GET", "/version")
    requests = [line for line in lines_of(service.log) if line["event"] == "request"]
    lines = {line["request_id"]: line for line in requests if line["route"] != "/readyz"}
    of_a_run = {"dataset": "guru", "run": "default"}
    assert {name: {key: line[key] for key in ("dataset", "run") if key in line} for name, line in lines.items()} == {
        "PUT /datasets/guru": {"dataset": "guru"},
        "POST /report": of_a_run,
        "POST /select": of_a_run,
        f"GET {RUN}": of_a_run,
        "GET /datasets/guru/runs/unknown": {"dataset": "guru", "run": "unknown"},
        "GET /version": {},
    }


async def test_a_slow_select_or_report_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with serving(tmp_path) as http:
        await make_dataset(http)
        with capture_logs() as quick:
            await report(http, solved(1))
        monkeypatch.setattr("bots_service.api.middleware.SLOW_S", 0.0)
        with capture_logs() as slow:
            await report(http, solved(1))
            await select(http, 2)
            await http.get(RUN)
    assert [line["log_level"] for line in quick] == ["debug"]
    levels = {line["route"]: line["log_level"] for line in slow}
    assert levels == {"/report": "warning", "/select": "warning", "/datasets/{dataset}/runs/{run}": "debug"}


async def test_what_changes_something_leaves_a_line_and_what_only_reads_hides_no_other(tmp_path: Path):
    async with serving(tmp_path) as http:
        await make_dataset(http)
        with capture_logs() as said:
            await http.get(RUN)
            await http.patch(RUN, json={"target": 0.2})
            await http.get("/datasets/guru/runs/unknown")
    levels = [(line["method"], line["log_level"]) for line in said if line["event"] == "request"]
    assert levels == [("GET", "debug"), ("PATCH", "info"), ("GET", "warning")]


async def test_what_is_bound_for_one_request_is_gone_with_it(tmp_path: Path):
    async with serving(tmp_path) as http:
        await make_dataset(http)
        await report(http, solved(1))
    assert structlog.contextvars.get_contextvars() == {}


def test_no_key_in_the_place_of_a_name_gets_into_a_line(tmp_path: Path):
    settings = {"log_format": "json", "log_level": "debug", "admin_key": OPERATOR}
    with running_service(tmp_path, **settings) as service, httpx.Client(base_url=service.url, timeout=60) as http:
        key = http.post(
            "/keys", json={"name": "all", "scopes": ["admin"], "datasets": ["*"]}, headers=bearer(OPERATOR)
        ).json()["key"]
        mistakes = [(key, key), (key, OPERATOR), (OPERATOR, OPERATOR), (OPERATOR, key)]
        for mistaken, of in mistakes:
            http.delete(f"/datasets/{mistaken}", headers=bearer(of))
            http.get(f"/datasets/{mistaken}/runs/{mistaken}", headers=bearer(of))
            body = {"dataset": mistaken, "run": mistaken}
            http.post("/select", json={**body, "count": 1}, headers=bearer(of))
            http.post("/report", json={**body, "outcomes": []}, headers=bearer(of))
    written = service.log.read_bytes()
    lines = [line for line in lines_of(service.log) if line.get("status") == 404]
    assert len(lines) == 4 * len(mistakes)
    assert {line["key"] for line in lines} == {key.split("_")[1], "BOTS_ADMIN_KEY"}
    assert not API_KEY.search(written)
    assert OPERATOR.encode() not in written


def test_the_console_shows_what_a_terminal_would_act_on(tmp_path: Path):
    with running_service(tmp_path, log_format="console") as service, httpx.Client(base_url=service.url) as http:
        ask(http, "GET", "/datasets/red%1B%5B31m%E2%80%AEtxt/runs/%0Aforged")
    text = service.log.read_text()
    assert not [line for line in text.splitlines() if not line.isprintable()]
    assert "red\\x1b[31m\\u202etxt" in text
    assert "\\nforged" in text
