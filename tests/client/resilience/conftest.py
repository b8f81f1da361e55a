import re
import signal

import pytest

from bots_client import ResilientClient, Selector, Task
from bots_client._resilience import connection
from tests.client.resilience.worlds import IDS
from tests.serving import ServiceProcess


@pytest.fixture
def dataset(service, request):
    """A dataset of 40 tasks on the live service."""
    name = re.sub(r"\W", "-", f"{request.path.stem}-{request.node.name}")[-100:].lstrip("-_")
    with ResilientClient(service.url).direct as bots:
        bots.create_dataset(name, [Task(task) for task in IDS])
    return name


@pytest.fixture
def selector(connect, service, dataset):
    return Selector(connect(service), dataset, ids=IDS)


@pytest.fixture
def own_service(tmp_path):
    """A service that the test may kill, with the dataset guru of 40 tasks."""
    service = ServiceProcess(tmp_path / "service")
    service.start()
    with ResilientClient(service.url, spool=tmp_path / "spool").direct as bots:
        bots.create_dataset("guru", [Task(task) for task in IDS])
    yield service
    if service.process.poll() is None:
        service.process.send_signal(signal.SIGCONT)
        service.kill()


@pytest.fixture
def quick_looks(monkeypatch):
    """Look for a service that is away several times within a test."""
    monkeypatch.setattr(connection, "FIRST_PAUSE_S", 0.05)
    monkeypatch.setattr(connection, "MAX_PAUSE_S", 0.2)


@pytest.fixture
def connect(tmp_path, open_until_the_end):
    """Make resilient clients that keep their reports in one folder."""

    def connect_to(server_or_url, **how):
        url = getattr(server_or_url, "url", server_or_url)
        client = ResilientClient(url, **{"spool": tmp_path / "spool", **how})
        open_until_the_end.callback(client.direct.close)
        return client

    return connect_to
