"""Several workers behind one socket: one service, whose parts may die and are replaced."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cli.running import CommandLine
from tests.servers import PostgresServer, RedisServer, running, wait_until
from tests.serving import ServiceProcess

WORKERS = 2
SOON_S = 60.0
OUTCOME = {"task": "a", "successes": 1, "trials": 2}


@pytest.fixture
def service(tmp_path: Path, postgres_url: str, redis_server: RedisServer):
    redis_server.client().flushall()
    service = ServiceProcess(
        tmp_path, workers=str(WORKERS), database_url=postgres_url, redis_url=redis_server.url, drain_s="0.5"
    )
    service.start()
    yield service
    if service.process.poll() is None:
        service.stop()


def workers_of(service: ServiceProcess) -> set[int]:
    """Return the processes that listen, apart from the one that watches over them."""
    found = set()
    for child in psutil.Process(service.process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # also of one that is dead, and not yet buried
            if "spawn_main" in " ".join(child.cmdline()):
                found.add(child.pid)
    return found


def report(service: ServiceProcess, key: str) -> httpx.Response:
    body = {"dataset": "pool", "outcomes": [OUTCOME]}
    return httpx.post(f"{service.url}/report", json=body, headers={"Idempotency-Key": key}, timeout=SOON_S)


def make_pool(service: ServiceProcess) -> None:
    httpx.put(f"{service.url}/datasets/pool", json={"tasks": [{"id": "a"}]}, timeout=SOON_S).raise_for_status()


def seq(service: ServiceProcess) -> int:
    return httpx.get(f"{service.url}/datasets/pool/runs/default", timeout=SOON_S).json()["seq"]


def counted(service: ServiceProcess, name: str) -> dict[str, float]:
    text = httpx.get(f"{service.url}/metrics", timeout=SOON_S).raise_for_status().text
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {sample.labels["worker"]: sample.value for sample in samples if sample.name == name}


def test_workers_serve_and_count_as_one_and_end_as_one(service: ServiceProcess):
    make_pool(service)
    wait_until(lambda: "listens on" in service.log.read_text(), SOON_S)  # once a worker answered who watches over them
    wait_until(lambda: len(workers_of(service)) == WORKERS, SOON_S)
    wait_until(lambda: len(counted(service, "bots_ready")) == WORKERS, SOON_S)
    for number in range(20):
        assert report(service, str(number)).json()["seq"] == number + 1
    assert {sum(counted(service, "bots_reports_total").values()) for _ in range(10)} == {20}
    assert set(counted(service, "bots_ready")) == {str(pid) for pid in workers_of(service)}

    hanging = min(workers_of(service))
    os.kill(hanging, signal.SIGSTOP)
    assert len(counted(service, "bots_ready")) == WORKERS - 1  # left out, and the others are not held up for long
    os.kill(hanging, signal.SIGCONT)
    assert len(counted(service, "bots_ready")) == WORKERS

    pids = workers_of(service)
    assert service.stop() == 0
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert service.log.read_text().count("listens on") == 1


@pytest.fixture
def launched(tmp_path: Path, redis_server: RedisServer) -> Iterator[Callable[[str], ServiceProcess]]:
    """Launches a service on a database, without waiting for it; stops it at the end."""
    services = list[ServiceProcess]()

    def launch(database_url: str) -> ServiceProcess:
        stores = {"database_url": database_url, "redis_url": redis_server.url}
        services.append(ServiceProcess(tmp_path, workers=str(WORKERS), drain_s="0.5", **stores))
        services[-1].launch()
        return services[-1]

    yield launch
    for service in services:
        if service.is_running:
            service.stop()


def test_a_worker_that_dies_is_replaced_once_there_is_a_database_and_none_outlives_who_watches_over_them(launched):
    with running(PostgresServer()) as postgres:
        service = launched(postgres.url())
        service.await_ready()
        wait_until(lambda: "listens on" in service.log.read_text(), SOON_S)
        make_pool(service)
        postgres.kill()
        victim, survivor = workers_of(service)
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: service.log.read_text().count("worker_died") >= 2, SOON_S)  # the next one can't start either
        assert service.process.poll() is None
        assert httpx.get(f"{service.url}/livez", timeout=SOON_S).is_success
        postgres.start()
        wait_until(lambda: set(counted(service, "bots_ready").values()) == {1.0}, SOON_S)
        wait_until(lambda: len(counted(service, "bots_ready")) == WORKERS, SOON_S)
        assert report(service, "after").json()["seq"] == 1
        pids = workers_of(service)
        assert survivor in pids
        service.kill()
        wait_until(lambda: not any(psutil.pid_exists(pid) for pid in pids), SOON_S)


def start_in_vain(folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {f"BOTS_{name.upper()}": value for name, value in settings.items()}
    command = [sys.executable, "-m", "bots_service", "serve", "--port", "0"]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SOON_S, check=False
    )


@pytest.mark.parametrize("settings", [{}, {"redis_url": "redis://localhost"}, {"database_url": "postgresql://db/bots"}])
def test_several_workers_need_what_they_can_share(tmp_path: Path, settings: dict[str, str]):
    given = {f"BOTS_{name.upper()}": value for name, value in settings.items()}
    ended = CommandLine("", tmp_path)("serve", "--port", "0", BOTS_WORKERS="2", **given)
    assert "2 workers need PostgreSQL and Redis" in ended.assert_one_line(1)


def test_workers_that_can_not_start_end_the_service_and_say_why(
    tmp_path: Path, postgres: PostgresServer, redis_server: RedisServer
):
    missing = postgres.url("missing")
    started = time.monotonic()
    ended = start_in_vain(tmp_path, workers="2", database_url=missing, redis_url=redis_server.url)
    assert ended.returncode == 1
    assert '"missing" does not exist' in ended.stderr
    assert "listens on" not in ended.stderr
    assert time.monotonic() - started < SOON_S
