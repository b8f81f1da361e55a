"""A real service in a process of its own, which tests start, stop and kill."""

import os
import re
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.forked import ForkedProcess
from tests.ports import free_port, release

API_KEY = re.compile(rb"bots_[0-9a-f]{16}_[0-9a-f]{64}")
NOWHERE = "http://127.0.0.1:1"  # refuses at once, and no other test's server can take the port
# Our services speak plain HTTP. To read all known authorities takes 20 ms, and who waits for a start asks many times.
NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
START_S = 120.0  # a loaded machine imports numpy, scipy and pyarrow for the first time


def answers(url: str) -> bool:
    """Say whether somebody answers there, and well."""
    try:
        return httpx.get(url, timeout=5, verify=NO_AUTHORITIES).is_success
    except httpx.TransportError:
        return False


class ServiceProcess:
    """A service on one port, across restarts; on a database file of its own unless `database_url` names another."""

    def __init__(self, folder: Path, **settings: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / "service.log"
        settings.setdefault("database_url", f"sqlite:///{folder / 'bots.db'}")
        self._environment = {**os.environ, **{f"BOTS_{name.upper()}": value for name, value in settings.items()}}
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None

    @property
    def process(self) -> subprocess.Popen[bytes] | ForkedProcess:
        assert self._process is not None
        return self._process

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def launch(self) -> None:
        """Start it as a person does, and return at once."""
        command = [sys.executable, "-m", "bots_service", *self._arguments]
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                command, cwd=self.folder, env=self._environment, stdout=output, stderr=output
            )

    def fork(self) -> None:
        """Start it, which takes a tenth of what `launch` does, and return at once."""
        streams = [Path(os.devnull), self.log, self.log]
        self._process = ForkedProcess(self._arguments, self.folder, self._environment, streams)

    def start(self) -> None:
        self.fork()
        self.await_ready()

    def await_ready(self) -> None:
        give_up = time.monotonic() + START_S
        while time.monotonic() < give_up and self.process.poll() is None:
            if answers(f"{self.url}/readyz"):
                return
            time.sleep(0.05)
        pytest.fail(f"the service did not start (exit code {self.process.poll()}):\n{self.log.read_text()[-4000:]}")

    @property
    def _arguments(self) -> list[str]:
        return ["serve", "--host", "127.0.0.1", "--port", str(self.port)]

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        self.process.terminate()
        try:
            code = self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        assert not API_KEY.search(self.log.read_bytes()), f"{self.log} holds an API key"
        return code


@contextmanager
def running_service(folder: Path, **settings: str) -> Iterator[ServiceProcess]:
    service = ServiceProcess(folder, **settings)
    service.start()
    try:
        yield service
    finally:
        if service.process.poll() is None:
            service.stop()
        release(service.port)
