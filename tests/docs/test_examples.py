"""Every example of the README and the documents works as it stands there.

Each page gets a service of its own and an empty folder. A reader runs its blocks in order: bash blocks in one shell,
python blocks in one Python, so that a later block sees an earlier one's names. Its `bots` is one that has its modules
already: the pages call it some two hundred times. tests/cli/test_cli_service.py runs the installed one.
"""

import os
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import blocks_of
from tests.docs.reader import Reader
from tests.forked import bots_program
from tests.serving import running_service

ROOT = Path(__file__).parents[2]
PAGES = [
    path
    for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), ROOT / "client/README.md")
    if path.name != "tutorial.md"  # it needs TRL: tests/trainers/test_pages.py
]
BLOCKS = {path.relative_to(ROOT).as_posix(): blocks_of(path.read_text("utf-8"), path.name) for path in PAGES}
WITH_EXAMPLES = [page for page, blocks in BLOCKS.items() if any(block.runs for block in blocks)]

# (page, reason) of each block that is not run, as often as it stands there. A new one must be added here.
NOT_RUN: list[tuple[str, str]] = [
    ("docs/backups.md", "needs a database of your own"),
    ("docs/deployment.md", "installs into a folder of the system"),
    ("docs/deployment.md", "needs a Docker engine"),
    ("docs/deployment.md", "needs a Docker engine"),
    ("docs/deployment.md", "needs a Docker engine and a cluster"),
    ("docs/deployment.md", "needs a PostgreSQL and a Redis, and serves until it is stopped"),
    ("docs/deployment.md", "needs a cluster"),
    ("docs/deployment.md", "needs Slurm"),
    ("docs/deployment.md", "needs an account of a cloud"),
    ("docs/deployment.md", "needs a Kubernetes cluster"),
    ("docs/references.md", "it needs the datasets"),
]


@pytest.mark.parametrize("page", WITH_EXAMPLES)
def test_the_examples_of_a_page_work_in_order(page, tmp_path):
    folder = tmp_path / "reader"
    folder.mkdir()
    (folder / ".venv").symlink_to(sys.prefix)
    with running_service(tmp_path / "service") as service, bots_program(tmp_path / "programs") as programs:
        path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])
        environment = {**os.environ, "PATH": path, "BOTS_URL": service.url, "BOTS_SPOOL": str(tmp_path / "spool")}
        with Reader(page, folder, environment, url=service.url) as reader:
            for block in BLOCKS[page]:
                if block.runs and block.ready_at is None:  # the service is there already
                    reader.do(block)


def test_blocks_that_are_not_run_are_the_known_ones():
    skipped = [(page, block.not_run) for page, blocks in BLOCKS.items() for block in blocks if block.not_run]
    assert sorted(skipped) == sorted(NOT_RUN)
