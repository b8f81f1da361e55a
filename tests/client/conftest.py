import contextlib
import time
from types import SimpleNamespace

import pytest

from bots_client import Client, _http
from tests.client.scripted_server import ScriptedServer
from tests.serving import running_service


class Waits(list[float]):
    """Sleeps that only take note; once `starts_clock` was called, the client's clock moves on by them alone."""

    now = 1000.0
    time: SimpleNamespace

    def sleep(self, seconds: float) -> None:
        self.append(seconds)
        self.now += seconds

    def starts_clock(self) -> None:
        self.time.monotonic = lambda: self.now


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch):
    for name in ("BOTS_URL", "BOTS_API_KEY", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def open_until_the_end():
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def serve(open_until_the_end):
    return lambda *acts, **more: open_until_the_end.enter_context(ScriptedServer(*acts, **more))


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    """A live service for all tests; each takes a dataset of its own."""
    with running_service(tmp_path_factory.mktemp("service")) as service:
        yield service


@pytest.fixture
def waits(monkeypatch):
    waits = Waits()
    waits.time = SimpleNamespace(sleep=waits.sleep, monotonic=time.monotonic)
    monkeypatch.setattr(_http, "time", waits.time)
    return waits


@pytest.fixture
def connect(open_until_the_end, waits):
    """Make a client; its sleeps go to `waits`."""

    def connect_to(server_or_url, **arguments):
        url = getattr(server_or_url, "url", server_or_url)
        return open_until_the_end.enter_context(Client(url, **arguments))

    return connect_to
