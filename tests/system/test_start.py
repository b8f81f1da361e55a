"""Who is let in gets an answer: the service accepts nobody before it can answer, at its start."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bots_service.storage.sql.migrate import upgrade
from tests.servers import wait_until
from tests.serving import ServiceProcess

ANSWER_S = 2.0  # 0.05 s where nothing else runs; a service that still starts would take 3 s there
START_S = 120.0
BUSY = 10
LIVEZ = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


@dataclass
class BusyMachine:
    """Processes that keep the processors busy, from when it is told to begin."""

    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def begin(self) -> None:
        self.running += [subprocess.Popen([sys.executable, "-Sc", "while True: pass"]) for _ in range(BUSY)]

    def end(self) -> None:
        for process in self.running:
            process.kill()
            process.wait()


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
def busy_machine() -> Iterator[BusyMachine]:
    machine = BusyMachine()
    yield machine
    machine.end()


@pytest.fixture
def launched() -> Iterator[Callable[..., ServiceProcess]]:
    """Launches services; those that run at the end are stopped."""
    services: list[ServiceProcess] = []

    def launch(folder: Path, *, port: int | None = None, **settings: str) -> ServiceProcess:
        service = ServiceProcess(folder, **settings)
        service.port = service.port if port is None else port
        service.launch()
        services.append(service)
        return service

    yield launch
    for service in services:
        if service.process.poll() is None:
            service.stop()


def test_on_a_busy_machine_the_first_who_is_let_in_is_answered_soon(
    tmp_path: Path, launched: Callable[..., ServiceProcess], busy_machine: BusyMachine
):
    service = launched(tmp_path)

    def when_stores_open() -> None:  # not from the start: ten times as slow, that would take half a minute
        if not busy_machine.running and (tmp_path / "bots.db").exists():
            busy_machine.begin()

    took_s = first_answer_s(service, meanwhile=when_stores_open)
    assert len(busy_machine.running) == BUSY
    assert took_s < ANSWER_S


def test_of_two_services_that_start_at_one_address_one_serves_and_the_other_says_why_not(
    tmp_path: Path, launched: Callable[..., ServiceProcess]
):
    one = launched(tmp_path / "one")
    other = launched(tmp_path / "other", port=one.port)
    wait_until(lambda: any(service.process.poll() is not None for service in (one, other)), START_S)
    refused, serving = (one, other) if one.process.poll() is not None else (other, one)
    assert refused.process.returncode == 1
    (said,) = refused.log.read_text().splitlines()
    assert f"can't listen on 127.0.0.1:{one.port}: Address already in use; choose another --port" in said
    assert first_answer_s(serving) < ANSWER_S


ASK_WHAT_IS_LOADED = """
import asyncio, sys
from bots_service.settings import Settings
from bots_service.storage.sql.migrate import upgrade
from bots_service.wiring import build_app
app = build_app(Settings())
async def start():
    async with app.router.lifespan_context(app):
        pass
asyncio.run(start())
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_a_start_on_sqlite_loads_no_code_for_servers_and_migrations_that_it_has_no_use_for(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'bots.db'}"
    upgrade(url)
    environment = os.environ | {"BOTS_DATABASE_URL": url}
    command = [sys.executable, "-c", ASK_WHAT_IS_LOADED]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "sqlalchemy" in loaded
    assert loaded & {"alembic", "psycopg", "redis", "typer", "httpx"} == set()
