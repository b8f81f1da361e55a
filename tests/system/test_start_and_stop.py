"""Who is let in gets an answer: nobody is before the service can answer, and SIGTERM under load resets nobody."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
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


CALLERS = 16
SOON_S = 30.0


@dataclass
class Callers:
    """Clients that report as fast as they can, each over one kept connection, until nobody listens any more."""

    service: ServiceProcess
    answered: list[int] = field(default_factory=list)
    last_of_connection: int = 0
    unanswered: list[Exception] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        tasks = [{"id": f"t{task}"} for task in range(500)]
        httpx.put(f"{self.service.url}/datasets/pool", json={"tasks": tasks}).raise_for_status()
        self.threads = [threading.Thread(target=self._call, args=(number,)) for number in range(CALLERS)]
        for thread in self.threads:
            thread.start()
        wait_until(lambda: len(self.answered) > 5 * CALLERS)

    def join(self) -> None:
        for thread in self.threads:
            thread.join()

    def _call(self, number: int) -> None:
        body = {"dataset": "pool", "outcomes": [{"task": f"t{number}", "successes": 1, "trials": 2}]}
        with httpx.Client(timeout=30) as http:
            while True:
                try:
                    answer = http.post(f"{self.service.url}/report", json=body)
                except httpx.ConnectError:
                    return  # nobody listens any more: nothing was sent
                except httpx.TransportError as error:
                    self.unanswered.append(error)
                    return
                self.answered.append(answer.status_code)
                self.last_of_connection += answer.headers.get("connection") == "close"


def assert_all_was_answered_and_is_there(callers: Callers, service: ServiceProcess) -> None:
    assert callers.unanswered == []
    assert set(callers.answered) == {200}
    service.start()
    assert httpx.get(f"{service.url}/datasets/pool/runs/default").json()["seq"] == len(callers.answered)
    assert service.stop() == 0


def test_a_quick_stop_under_load_answers_every_request_that_was_sent(tmp_path):
    service = ServiceProcess(tmp_path)
    service.start()
    callers = Callers(service)
    callers.start()
    assert service.stop() == 0
    callers.join()
    assert_all_was_answered_and_is_there(callers, service)


def test_a_service_that_drains_goes_on_answering_and_resets_nobody(tmp_path):
    service = ServiceProcess(tmp_path, drain_s="2.5")
    service.start()
    callers = Callers(service)
    callers.start()
    before = callers.last_of_connection
    service.process.terminate()
    wait_until(lambda: httpx.get(f"{service.url}/readyz").status_code == 503)
    assert httpx.get(f"{service.url}/readyz").json()["status"] == "draining"
    answered = len(callers.answered)
    wait_until(lambda: len(callers.answered) > answered + CALLERS)  # new connections are let in, too
    callers.join()
    assert service.process.wait(SOON_S) == 0
    assert before == 0
    assert callers.last_of_connection > 2 * CALLERS
    assert_all_was_answered_and_is_there(callers, service)


def connected(service: ServiceProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", service.port), timeout=SOON_S)


def ask(connection: socket.socket) -> str:
    connection.sendall(b"GET /livez HTTP/1.1\r\nHost: bots\r\n\r\n")
    return answer_on(connection)


def answer_on(connection: socket.socket) -> str:
    received = b""
    while not received.endswith(b"}"):
        piece = connection.recv(65_536)
        assert piece, f"half an answer: {received!r}"
        received += piece
    return received.decode().lower()


def test_idle_connections_are_answered_while_it_drains_and_then_closed_without_a_reset(tmp_path):
    service = ServiceProcess(tmp_path, drain_s="2")
    service.start()
    with connected(service) as silent, connected(service) as idle, connected(service) as waking:
        assert "connection: close" not in ask(idle)
        assert "connection: close" not in ask(waking)
        service.process.terminate()
        wait_until(lambda: httpx.get(f"{service.url}/readyz").status_code == 503)
        assert "connection: close" in ask(waking)
        # An orderly end is b""; a reset would raise.
        assert [connection.recv(1) for connection in (waking, idle, silent)] == [b"", b"", b""]
        assert service.process.wait(SOON_S) == 0
