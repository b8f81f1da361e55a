import pytest

from bots_client import Client
from tests.cli.running import CommandLine
from tests.serving import running_service


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    with running_service(tmp_path_factory.mktemp("cli-service")) as running:
        yield running


@pytest.fixture
def bots(service, tmp_path):
    """Commands that find the service, run in an empty folder."""
    return CommandLine(service.url, tmp_path)


@pytest.fixture
def client(service):
    """Prepares what a command is tried on, quicker than another command could."""
    with Client(service.url) as connected:
        yield connected
