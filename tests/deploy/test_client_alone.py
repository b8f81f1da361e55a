"""The client installs by itself, with httpx as its only dependency."""

import subprocess
import sys
from pathlib import Path

from bots_client import Client, Task
from tests.serving import running_service

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from importlib.metadata import distributions
from bots_client import ResilientClient, Selector
url, spool = sys.argv[1:]
selector = Selector(ResilientClient(url, spool=spool), "guru", ids=["a", "b", "c"])
selection = selector.next(2)
assert not selection.is_local, selector.client.health
selector.observe(selection.ids[0], [1, 0])
assert selector.step().step == 1
print(*sorted(one.metadata["Name"].lower() for one in distributions()))
"""


def test_the_client_alone_selects_in_an_empty_environment(tmp_path):
    environment = tmp_path / "empty"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    python = environment / "bin" / "python"
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet"]
    subprocess.run([*pip, "install", "--constraint", ROOT / "constraints.txt", ROOT / "client"], check=True)

    with running_service(tmp_path / "service") as service:
        with Client(service.url) as bots:
            bots.create_dataset("guru", [Task(task) for task in "abc"])
        command = [python, "-c", PROGRAM, service.url, str(tmp_path / "spool")]
        said = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path).stdout

    installed = set(said.split()) - {"pip", "setuptools"}
    assert installed == {"bots-client", "httpx", "httpcore", "h11", "anyio", "idna", "certifi", "typing_extensions"}
