"""Every example of the README and the documents works as it stands there.

Each page gets a service of its own and an empty folder. Its blocks run in order, as a reader would type them: bash
blocks under `bash -euo pipefail`, python blocks in one session, so that a later block sees an earlier one's names.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import Block, blocks_of
from tests.serving import running_service

ROOT = Path(__file__).parents[2]
PAGES = [
    path for path in (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), ROOT / "client/README.md") if path.exists()
]
BLOCKS = {path.relative_to(ROOT).as_posix(): blocks_of(path.read_text("utf-8"), path.name) for path in PAGES}
WITH_EXAMPLES = [page for page, blocks in BLOCKS.items() if any(block.runs for block in blocks)]

# (page, reason) of each block that is not run, as often as it stands there. Whoever adds one says so here.
NOT_RUN: list[tuple[str, str]] = [
    ("README.md", "it needs your PostgreSQL and Redis"),
    ("docs/deployment.md", "installs into a folder of the system"),
    ("docs/deployment.md", "needs a Docker engine"),
    ("docs/deployment.md", "needs a Docker engine"),
    ("docs/deployment.md", "needs a Docker engine and a cluster"),
    ("docs/deployment.md", "needs a PostgreSQL and a Redis, and serves until it is stopped"),
    ("docs/deployment.md", "needs a cluster"),
]

# Where the pages say the service is; the tests put the real address there.
SHOWN_URL = "http://127.0.0.1:8000"
BLOCK_S = 180.0


def run_bash(block: Block, where: str) -> None:
    """Run the block as a script; fail with what it printed."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.code],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BLOCK_S,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(f"{where}: exit code {done.returncode}\n{block.code}\n{done.stdout}\n{done.stderr}", pytrace=False)


def run_python(block: Block, where: str, session: dict[str, object]) -> None:
    """Run the block in the page's session; a traceback names the line in the page."""
    code = compile("\n" * (block.line - 1) + block.code, where.rpartition(":")[0], "exec")
    try:
        exec(code, session)
    except Exception as error:  # whatever an example raises is this test's failure; the cause is kept
        raise AssertionError(f"{where}: {type(error).__name__}: {error}\n{block.code}") from error


@pytest.mark.parametrize("page", WITH_EXAMPLES)
def test_the_examples_of_a_page_work_in_order(page, tmp_path, monkeypatch):
    folder = tmp_path / "reader"
    folder.mkdir()
    with running_service(tmp_path / "service") as service:
        url = service.url
        monkeypatch.chdir(folder)
        monkeypatch.setenv("BOTS_URL", url)
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        session: dict[str, object] = {"__name__": "__main__"}
        for block in BLOCKS[page]:
            if not block.runs:
                continue
            where = f"{page}:{block.line}"
            live = Block(block.language, block.code.replace(SHOWN_URL, url), block.line)
            if live.language == "bash":
                run_bash(live, where)
            else:
                run_python(live, where, session)


def test_blocks_that_are_not_run_are_the_known_ones():
    skipped = [(page, block.not_run) for page, blocks in BLOCKS.items() for block in blocks if block.not_run]
    assert sorted(skipped) == sorted(NOT_RUN)
