"""The client installs alone, with httpx as its only dependency, also on the oldest Python that it promises."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bots_client import Client, Task
from tests.serving import running_service

ROOT = Path(__file__).parents[2]
OLDEST = "3.10"
PROGRAM = """
import sys
from importlib import import_module
from importlib.metadata import distributions
from pkgutil import walk_packages
import bots_client
from bots_client import Client, DeadlineExceededError, ResilientClient, Selector
url, spool = sys.argv[1:]
own = [each.name for each in walk_packages(bots_client.__path__, "bots_client.")]
for name in own:
    if not name.startswith("bots_client.integrations."):
        import_module(name)
selector = Selector(ResilientClient(url, spool=spool), "guru", ids=["a", "b", "c"])
selection = selector.next(2)
assert not selection.is_local, selector.client.health
selector.observe(selection.ids[0], [1, 0])
assert selector.step().step == 1

with Client(url) as bots:
    assert bots.dataset("guru").created_at.tzinfo is not None
with Client(url, deadline_s=1e-6) as bots:
    try:
        bots.dataset("guru")
    except DeadlineExceededError:
        pass
    else:
        raise AssertionError("no deadline")
print(*sorted(one.metadata["Name"].lower() for one in distributions()))
"""


def found_pythons(version: str) -> Iterator[str]:
    """Yield the Pythons of a version that run on this machine."""
    installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for command in (f"python{version}", *map(str, installed)):
        if (
            shutil.which(command)
            and subprocess.run([command, "-c", ""], capture_output=True, check=False).returncode == 0
        ):
            yield command


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client's package."""
    folder = tmp_path_factory.mktemp("wheel")
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--wheel",
        "--outdir",
        folder,
        ROOT / "client",
    ]
    subprocess.run(command, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_the_client_alone_selects_in_an_empty_environment_of_the_oldest_python_here(tmp_path, wheel):
    pythons = [*found_pythons(OLDEST), sys.executable]
    environment = tmp_path / "empty"
    subprocess.run([pythons[0], "-m", "venv", "--without-pip", environment], check=True)  # to install it takes seconds
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "--no-input", "--quiet"]
    subprocess.run([*pip, "install", "--constraint", ROOT / "constraints.txt", wheel], check=True)

    with running_service(tmp_path / "service") as service:
        with Client(service.url) as bots:
            bots.create_dataset("guru", [Task(task) for task in "abc"])
        command = [python, "-c", PROGRAM, service.url, str(tmp_path / "spool")]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    installed = set(done.stdout.split())
    needed = {"bots-client", "httpx", "httpcore", "h11", "anyio", "idna", "certifi", "typing_extensions"}
    assert installed - {"exceptiongroup"} == needed  # which anyio takes before Python 3.11
