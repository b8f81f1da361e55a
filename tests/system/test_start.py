"""Who is let in gets an answer: the service accepts nobody before it can answer, at its start."""

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.servers import wait_until
from tests.serving import ServiceProcess

ANSWER_S = 2.0  # 0.05 s where nothing else runs; a service that still starts would take 3 s there
START_S = 120.0
BUSY = 6
LIVEZ = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


def first_answer_s(service: ServiceProcess, *, meanwhile: Callable[[], object] = lambda: None) -> float:
    """Return the time from the first connection that is accepted to the answer of /livez, which must be 200."""
    give_up = time.monotonic() + START_S
    while time.monotonic() < give_up and service.process.poll() is None:
        try:
            connection = socket.create_connection(("127.0.0.1", service.port))
        except ConnectionRefusedError:
            meanwhile()
            time.sleep(0.005)
            continue
        with connection:
            accepted = time.monotonic()
            connection.settimeout(START_S)
            connection.sendall(LIVEZ)
            answer = connection.recv(1024)
            assert answer.startswith(b"HTTP/1.1 200"), answer
            return time.monotonic() - accepted
    pytest.fail(f"nobody was let in:\n{service.log.read_text()[-4000:]}")


@pytest.fixture
def services(tmp_path: Path) -> Iterator[tuple[ServiceProcess, ServiceProcess]]:
    """Two services at one address, not started; they are stopped if they run at the end."""
    one, other = ServiceProcess(tmp_path / "one"), ServiceProcess(tmp_path / "other")
    other.port = one.port
    yield one, other
    for service in (one, other):
        if service.is_running:
            service.stop()


def test_on_a_busy_machine_the_first_who_is_let_in_is_answered_soon(services: tuple[ServiceProcess, ServiceProcess]):
    service, _ = services
    service.launch()
    busy: list[subprocess.Popen[bytes]] = []

    def when_stores_open() -> None:  # not from the start: ten times as slow, that would take half a minute
        if not busy and (service.folder / "bots.db").exists():
            busy.extend(subprocess.Popen([sys.executable, "-Sc", "while True: pass"]) for _ in range(BUSY))

    try:
        took_s = first_answer_s(service, meanwhile=when_stores_open)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert len(busy) == BUSY
    assert took_s < ANSWER_S


def test_of_two_services_that_start_at_one_address_one_serves_and_the_other_says_why_not(
    services: tuple[ServiceProcess, ServiceProcess],
):
    for service in services:
        service.fork()
    wait_until(lambda: any(service.process.poll() is not None for service in services), START_S)
    refused, serving = sorted(services, key=lambda service: service.is_running)
    assert refused.process.returncode == 1
    (said,) = refused.log.read_text().splitlines()
    assert f"can't listen on 127.0.0.1:{serving.port}: Address already in use; choose another --port" in said
    assert first_answer_s(serving) < ANSWER_S
