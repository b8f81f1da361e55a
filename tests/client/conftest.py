import contextlib

import pytest

from tests.client.callers import AsyncCaller, SyncCaller, Waits
from tests.client.scripted_server import ScriptedServer
from tests.serving import running_service


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
    """Start a server that plays some acts."""
    return lambda *acts, **more: open_until_the_end.enter_context(ScriptedServer(*acts, **more))


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    """A live service for all tests; each takes a dataset of its own."""
    with running_service(tmp_path_factory.mktemp("service")) as service:
        yield service


@pytest.fixture
def waits():
    return Waits()


@pytest.fixture(params=[SyncCaller, AsyncCaller], ids=["sync", "async"])
def connect(request, open_until_the_end, waits):
    """Make a client of either kind; its sleeps go to `waits`."""

    def connect_to(server_or_url, **arguments):
        url = getattr(server_or_url, "url", server_or_url)
        return open_until_the_end.enter_context(contextlib.closing(request.param(url, waits, **arguments)))

    return connect_to
