"""PostgreSQL or Redis that takes connections and answers nothing: requests are answered in time, and probes tell."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.servers import PostgresServer, RedisServer, Server, wait_until
from tests.serving import ServiceProcess, running_service

DEADLINE_S = 2.0
SOON_S = 60.0
REPORT = {"dataset": "pool", "outcomes": [{"task": "a", "successes": 1, "trials": 2}]}
SELECT = {"dataset": "pool", "count": 1}
RUN = "/datasets/pool/runs/default"


@pytest.fixture
def service(tmp_path: Path, postgres_url: str, redis_server: RedisServer) -> Iterator[ServiceProcess]:
    redis_server.client().flushall()
    settings = {"database_url": postgres_url, "redis_url": redis_server.url, "request_timeout_s": str(DEADLINE_S)}
    with running_service(tmp_path, **settings) as service:
        tasks = [{"id": "a"}, {"id": "b"}]
        httpx.put(f"{service.url}/datasets/pool", json={"tasks": tasks}, timeout=SOON_S).raise_for_status()
        assert post(service, "/report", REPORT).status_code == post(service, "/select", SELECT).status_code == 200
        yield service


@contextmanager
def hanging(*servers: Server) -> Iterator[None]:
    for server in servers:
        server.hang()
    try:
        yield
    finally:
        for server in servers:
            server.resume()


def post(service: ServiceProcess, path: str, body: dict[str, Any], key: str | None = None) -> httpx.Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    return httpx.post(f"{service.url}{path}", json=body, headers=headers, timeout=SOON_S)


def metrics(service: ServiceProcess) -> str:
    return httpx.get(f"{service.url}/metrics", timeout=SOON_S).text


def ready(service: ServiceProcess) -> tuple[int, str]:
    start = time.monotonic()
    answer = httpx.get(f"{service.url}/readyz", timeout=SOON_S)
    assert time.monotonic() - start < SOON_S / 2  # it waits for nobody
    return answer.status_code, answer.json()["status"]


def test_a_postgresql_that_hangs_is_told_in_time_and_loses_nothing(service: ServiceProcess, postgres: PostgresServer):
    with hanging(postgres):
        wait_until(lambda: ready(service) == (200, "degraded"))
        start = time.monotonic()
        answer = post(service, "/report", REPORT, key="k")
        assert time.monotonic() - start < DEADLINE_S + SOON_S / 4
        assert answer.status_code == 503
        assert answer.json()["type"].rpartition(":")[2] in {"deadline-passed", "storage-unavailable"}
        assert int(answer.headers["Retry-After"]) >= 1
        assert post(service, "/select", SELECT).status_code == 200
        assert httpx.get(f"{service.url}/livez", timeout=SOON_S).status_code == 200
    wait_until(lambda: ready(service) == (200, "ready"))
    wait_until(lambda: post(service, "/report", REPORT, key="k").status_code == 200)
    assert httpx.get(f"{service.url}{RUN}", timeout=SOON_S).json()["seq"] == 2


def test_a_select_ends_when_its_client_leaves(tmp_path: Path, postgres_url: str, postgres: PostgresServer):
    patience_s = 50.0
    settings = {"database_url": postgres_url, "request_timeout_s": "100", "database_timeout_s": "100"}
    with running_service(tmp_path, **settings) as service:
        httpx.put(f"{service.url}/datasets/pool", json={"tasks": [{"id": "a"}]}, timeout=SOON_S).raise_for_status()
        with hanging(postgres):
            with pytest.raises(httpx.ReadTimeout):  # the run was not asked for yet, so it must be read
                httpx.post(f"{service.url}/select", json=SELECT, timeout=httpx.Timeout(SOON_S, read=1.0))
            left = 'bots_http_requests_total{method="POST",route="/select",status="499"} 1.0'
            wait_until(lambda: left in metrics(service), patience_s)
        assert post(service, "/select", SELECT).status_code == 200


def test_a_redis_that_hangs_holds_up_nobody(service: ServiceProcess, redis_server: RedisServer):
    with hanging(redis_server):
        wait_until(lambda: ready(service) == (200, "degraded"))
        start = time.monotonic()
        assert post(service, "/report", REPORT).json()["seq"] == 2
        assert post(service, "/select", SELECT).json()["degraded"] is True
        assert time.monotonic() - start < SOON_S / 2
    wait_until(lambda: ready(service) == (200, "ready"))


def test_without_both_it_is_not_ready_until_they_are_back(
    service: ServiceProcess, postgres: PostgresServer, redis_server: RedisServer
):
    with hanging(postgres, redis_server):
        wait_until(lambda: ready(service) == (503, "unavailable"))
        assert post(service, "/report", REPORT).status_code == 503
    wait_until(lambda: ready(service) == (200, "ready"))
    wait_until(lambda: post(service, "/report", REPORT).status_code == 200)
