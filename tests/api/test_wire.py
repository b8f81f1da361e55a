"""What only a real server on a real socket shows, and its log: one line for each act, and never a key."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from tests.api.conftest import serving
from tests.api.pools import OPERATOR, RUN, bearer, make_dataset, report, require_problem, select, solved, tasks
from tests.servers import wait_until
from tests.serving import API_KEY, ServiceProcess, running_service


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with running_service(tmp_path_factory.mktemp("wire"), log_format="json") as running:
        made = {"tasks": tasks(0) + [{"id": f"task-{n}"} for n in range(20)]}
        httpx.put(f"{running.url}/datasets/guru", json=made, timeout=60)
        yield running


@pytest.fixture
def client(service: ServiceProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=60) as http:
        yield http


def standing(client: httpx.Client) -> list[Any]:
    return [client.get(path).json() for path in (RUN, f"{RUN}/tasks", "/datasets")]


def test_a_connection_that_breaks_in_the_middle_of_a_body_changes_nothing(service, client):
    before = standing(client)
    body = json.dumps({"dataset": "guru", "outcomes": [solved(1)]}).encode()
    lines = b'{"id": "a"}\n' * 10
    for target, kind, part in (
        ("POST /report", "application/json", body[:-5]),
        ("PUT /datasets/cut", "application/x-ndjson", lines),
    ):
        with socket.create_connection(("127.0.0.1", service.port)) as connection:
            head = f"{target} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\nContent-Length: {len(part) + 5}\r\n\r\n"
            connection.sendall(head.encode() + part)
    assert standing(client) == before
    require_problem(client.get("/datasets/cut"), 404, "unknown-dataset")


def test_the_log_has_one_line_for_each_act_and_each_refusal_with_its_id_and_no_headers(service, client):
    headers = {"X-Request-Id": "look-for-me", "Authorization": "Bearer a-secret", "Idempotency-Key": "another-secret"}
    client.post(f"{RUN}/rewind", json={"step": 0}, headers=headers)
    client.get("/datasets/unknown/runs/r/history?limit=3", headers=headers)

    def lines_written() -> list[dict[str, Any]]:
        told = [json.loads(line) for line in service.log.read_text().splitlines() if "look-for-me" in line]
        return [line for line in told if line["event"] == "request"]

    wait_until(lambda: len(lines_written()) >= 2)  # a line is written once its answer is on the way
    lines = lines_written()
    assert [(line["method"], line["route"], line["status"], line["level"]) for line in lines] == [
        ("POST", "/datasets/{dataset}/runs/{run}/rewind", 200, "info"),
        ("GET", "/datasets/{dataset}/runs/{run}/history", 404, "warning"),
    ]
    assert all(line["request_id"] == "look-for-me" and line["ms"] > 0 for line in lines)
    assert "secret" not in service.log.read_text()


def test_answers_hold_ids_of_any_script(client):
    pool: list[dict[str, Any]] = [{"id": "\u4efb\u52a1-1", "tags": ["\u6570\u5b66"]}, {"id": "t\u00e2che \U0001f600"}]
    assert client.put("/datasets/words", json={"tasks": pool}).status_code == 201
    chosen = client.post("/select", json={"dataset": "words", "count": 1, "tags": ["\u6570\u5b66"]}).json()["tasks"]
    assert chosen[0]["id"] == pool[0]["id"]
    listed = client.get("/datasets/words/runs/default/tasks", params={"ids": pool[1]["id"]}).json()["tasks"]
    assert [task["id"] for task in listed] == [pool[1]["id"]]


async def test_a_slow_select_or_report_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with serving(tmp_path) as http:
        await make_dataset(http)
        with capture_logs() as quick:
            await report(http, solved(1))
        monkeypatch.setattr("bots_service.api.app.SLOW_S", 0.0)
        with capture_logs() as slow:
            await report(http, solved(1))
            await select(http, 2)
            await http.get(RUN)
    assert [line["log_level"] for line in quick] == ["debug"]
    levels = {line["route"]: line["log_level"] for line in slow}
    assert levels == {"/report": "warning", "/select": "warning", "/datasets/{dataset}/runs/{run}": "debug"}


def test_the_console_shows_what_a_terminal_would_act_on(tmp_path: Path):
    with running_service(tmp_path, log_format="console") as service, httpx.Client(base_url=service.url) as http:
        http.get("/datasets/red%1B%5B31m%E2%80%AEtxt/runs/%0Aforged")
    text = service.log.read_text()
    assert not [line for line in text.splitlines() if not line.isprintable()]
    assert "red\\x1b[31m\\u202etxt" in text
    assert "\\nforged" in text


def use_in_every_way(url: str) -> list[str]:
    """Use keys well and badly, and return all of them."""
    with httpx.Client(base_url=url, headers=bearer(OPERATOR), timeout=60) as http:
        wanted = {"name": "all", "scopes": ["admin"], "datasets": ["*"]}
        kinds: list[dict[str, Any]] = [{}, {"expires_in_seconds": 1e-6}]
        kinds += [{"datasets": ["mine"]}, {}]
        made = [
            http.post("/keys", json={**wanted, **more}, headers={"Idempotency-Key": f"{number}"}).json()
            for number, more in enumerate(kinds)
        ]
        http.post("/keys", json=wanted, headers={"Idempotency-Key": "0"})
        http.get("/keys")
        keys = [key["key"] for key in made]
        http.delete(f"/keys/{made[-1]['id']}")
        wrong = [f"bots_{made[0]['id']}_{'0' * 64}", f"bots_{'0' * 16}_{keys[0][-64:]}", keys[0] + "0", keys[0].upper()]
        for key in keys + wrong:
            http.put("/datasets/guru", json={"tasks": [{"id": "task-1"}]}, headers=bearer(key))
            http.post("/select", json={"dataset": "guru", "count": 1}, headers=bearer(key))
            http.post("/report", json={"dataset": "guru", "outcomes": [solved(1)]}, headers=bearer(key))
            http.post("/select", content=b"{", headers={**bearer(key), "Content-Type": "application/json"})
            http.get("/datasets", headers={"Authorization": key})
            http.get("/datasets", params={"key": key})
            # Mistakes that people make: the key where its id or a name belongs.
            for path in (f"/keys/{key}", f"/datasets/{key}", f"/{key}"):
                http.delete(path)
                http.delete(path, headers=bearer(key))
    return [*keys, *wrong, OPERATOR]


def test_no_key_gets_into_the_log(tmp_path: Path):
    with running_service(tmp_path, log_format="json", log_level="debug", admin_key=OPERATOR) as service:
        keys = use_in_every_way(service.url)
        written = service.log.read_bytes()
    lines = [json.loads(line) for line in written.splitlines() if line.startswith(b"{")]
    told = {(line["event"], line.get("status")) for line in lines}
    assert {("request", 200), ("request", 401), ("request", 403)} <= told
    assert API_KEY.search(keys[0].encode())
    assert not API_KEY.search(written)
    assert [key for key in keys if key.encode() in written] == []
    assert [key for key in keys[:4] if key[-64:].encode() in written] == []
