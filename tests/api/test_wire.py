"""What only a real server on a real socket shows."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.pools import RUN, require_problem, solved, tasks
from tests.servers import wait_until
from tests.serving import ServiceProcess, running_service

MIB = 2**20


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with running_service(tmp_path_factory.mktemp("wire"), log_format="json") as running:
        httpx.put(f"{running.url}/datasets/guru", json={"tasks": tasks(0) + [{"id": f"task-{n}"} for n in range(20)]})
        yield running


@pytest.fixture
def client(service: ServiceProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=60) as http:
        yield http


def standing(client: httpx.Client) -> list[Any]:
    return [client.get(path).json() for path in (RUN, f"{RUN}/tasks", "/datasets")]


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/select"), ("POST", "/report"), ("PUT", "/datasets/big"), ("PATCH", RUN)]
)
def test_a_body_of_100_mb_is_refused_whether_or_not_it_says_so(client, method, path):
    before = standing(client)

    def pieces() -> Iterator[bytes]:
        yield from (b" " * MIB for _ in range(100))

    json_type = {"Content-Type": "application/json"}
    require_problem(client.request(method, path, content=b" " * 100 * MIB, headers=json_type), 413, "payload-too-large")
    require_problem(client.request(method, path, content=pieces(), headers=json_type), 413, "payload-too-large")
    assert standing(client) == before


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
    client.post(f"{RUN}/snapshots?limit=3", headers=headers)
    client.get("/datasets/unknown", headers=headers)

    def lines_written() -> list[dict[str, Any]]:
        told = [json.loads(line) for line in service.log.read_text().splitlines() if "look-for-me" in line]
        return [line for line in told if line["event"] == "request"]

    wait_until(lambda: len(lines_written()) >= 2)  # a line is written once its answer is on the way
    lines = lines_written()
    assert [(line["method"], line["route"], line["status"], line["level"]) for line in lines] == [
        ("POST", "/datasets/{dataset}/runs/{run}/snapshots", 201, "info"),
        ("GET", "/datasets/{dataset}", 404, "warning"),
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
