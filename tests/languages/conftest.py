"""The programs of examples/languages, ready to run, and a service with keys for them."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bots_client import Client
from tests.languages.recording import PROGRAMS
from tests.serving import ServiceProcess, running_service

ROOT = Path(__file__).parents[2]
NEEDED = {"bash": ("bash", "curl", "jq"), "node": ("node",), "go": ("go",)}
ADMIN_KEY = "nobody-guesses-this-one"
LIFE_S = 60.0


class Program:
    """A trainer in some language, across restarts, with its checkpoint in a folder."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._command = command
        self._folder = folder
        self.checkpoint = folder / "checkpoint.json"
        self._process: subprocess.Popen[str] | None = None

    def run(self, url: str, *, steps: int, key: str = ADMIN_KEY) -> tuple[int, str, str]:
        """Train to a step; return the exit code (less than 0: the signal that ended it) and what was printed."""
        environment = {**os.environ, "BOTS_URL": url, "BOTS_API_KEY": key, "NO_PROXY": "127.0.0.1"}
        self._process = subprocess.Popen(
            [*self._command, str(steps), str(self.checkpoint)],
            cwd=self._folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # so that what it started can be ended with it
        )
        try:
            output, errors = self._process.communicate(timeout=LIFE_S)
        finally:
            if self._process.poll() is None:
                self.kill()
                self._process.communicate()
        return self._process.returncode, output, errors

    def kill(self) -> None:
        """End it with its children at once; callable from another thread."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def commands(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """How to start the program of each language that is installed here."""
    found = {language: all(shutil.which(program) for program in programs) for language, programs in NEEDED.items()}
    made = {"bash": ["bash", str(PROGRAMS / "trainer.sh")], "node": ["node", str(PROGRAMS / "trainer.mjs")]}
    if found["go"]:
        built = tmp_path_factory.mktemp("go") / "trainer"
        # The library's compiled parts are kept between runs: anew they take half a minute.
        environment = {
            **os.environ,
            "GOCACHE": str(ROOT / "build/go"),
            "GOFLAGS": "-buildvcs=false",
            "CGO_ENABLED": "0",
        }
        subprocess.run(["go", "build", "-o", built, PROGRAMS / "trainer.go"], env=environment, check=True)
        made["go"] = [str(built)]
    return {language: command for language, command in made.items() if found[language]}


@pytest.fixture(params=NEEDED)
def program(request: pytest.FixtureRequest, commands: dict[str, list[str]], tmp_path: Path) -> Program:
    """The trainer in one language after the other."""
    if request.param not in commands:
        pytest.skip(f"no {', '.join(NEEDED[request.param])} on this machine")
    return Program(commands[request.param], tmp_path)


@pytest.fixture(scope="session")
def guarded_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service that wants a key."""
    with running_service(tmp_path_factory.mktemp("service"), admin_key=ADMIN_KEY) as service:
        yield service


@pytest.fixture
def bots(guarded_service: ServiceProcess) -> Iterator[Client]:
    """A client that may do everything at a service without a dataset."""
    with Client(guarded_service.url, api_key=ADMIN_KEY) as client:
        for dataset in client.datasets():
            client.delete_dataset(dataset.name)
        yield client
