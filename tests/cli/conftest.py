import subprocess
import time

import pytest

from bots_client import Client
from tests.cli.running import BOTS, CommandLine, clean_environment
from tests.serving import running_service

SOON_S = 60.0


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


@pytest.fixture
def serve(tmp_path):
    """Start `bots serve` in the folder; gives the process, and the line that says where it listens, or why not."""
    processes = []

    def start(*arguments, **environment):
        log = tmp_path / "said"
        with log.open("wb") as said:
            process = subprocess.Popen(
                [*BOTS, "serve", *arguments],
                cwd=tmp_path,
                env=clean_environment(**environment),
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,
            )
        processes.append(process)
        give_up = time.monotonic() + SOON_S
        while time.monotonic() < give_up:
            has_ended = process.poll() is not None  # asked first: what it said before is there now
            for line in log.read_text().splitlines():
                if line.startswith(("BOTS listens", "bots:")):
                    return process, line
            assert not has_ended, log.read_text()
            time.sleep(0.05)
        pytest.fail("it said nothing")

    yield start
    for process in processes:
        process.kill()
        process.communicate()
