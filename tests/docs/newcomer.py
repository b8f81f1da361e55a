"""Plays a newcomer: runs every block of the README and the tutorial, in order, and checks what they print.

    python -m tests.docs.newcomer                               # in a fresh clone; make builds an environment: minutes
    python -m tests.docs.newcomer --environment .venv           # in a copy of this checkout, with its environment
    python -m tests.docs.newcomer --environment build/packages  # the same, with one that holds the built packages

A clone has what was committed; a copy has what git tracks, as it is now. Service and client are the environment's.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.docs.blocks import blocks_of
from tests.docs.reader import Reader
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/tutorial.md")
INSTALLS_S = 1800.0  # a block may install torch
# What a newcomer's shell has of ours: where programs are, and how pip and uv reach an index.
KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "OMP_NUM_THREADS")
KEPT_BEGINNINGS = ("PIP_", "UV_", "HTTP", "http", "NO_PROXY", "no_proxy")


def environment_in(home: Path, port: int) -> dict[str, str]:
    """Return the variables of a new user's shell: none of this project's except the port of the service."""
    kept = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith(KEPT_BEGINNINGS)}
    venv = os.environ.get("VIRTUAL_ENV", sys.prefix)
    path = [folder for folder in kept["PATH"].split(os.pathsep) if not folder.startswith(venv)]
    caches = {
        variable: os.environ.get(variable, str(Path.home() / ".cache" / program))
        for variable, program in (("PIP_CACHE_DIR", "pip"), ("UV_CACHE_DIR", "uv"))
    }
    ours = {"HOME": str(home), "PATH": os.pathsep.join(path), "HF_HUB_OFFLINE": "1", **caches}
    return {**kept, **ours, "BOTS_PORT": str(port)}


@contextmanager
def clone() -> Iterator[Path]:
    """Clone the repository into a folder that goes at the end."""
    with tempfile.TemporaryDirectory(prefix="newcomer-") as folder:
        subprocess.run(["git", "clone", "--quiet", str(ROOT), f"{folder}/bots"], check=True)
        yield Path(folder, "bots")


@contextmanager
def copy(environment: Path = Path(sys.prefix)) -> Iterator[Path]:
    """Copy what git tracks, with an environment as its .venv, into a folder that goes at the end."""
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    with tempfile.TemporaryDirectory(prefix="newcomer-") as folder:
        checkout = Path(folder, "bots")
        for name in filter(None, tracked.split("\0")):
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, checkout / name)
            os.utime(checkout / name, (0, 0))  # older than the environment, or make would install this copy into it
        (checkout / ".venv").symlink_to(environment.absolute())
        yield checkout


def read(page: str, checkout: Path) -> int:
    port = free_port()
    blocks = [block for block in blocks_of((checkout / page).read_text("utf-8"), page) if block.runs]
    with tempfile.TemporaryDirectory(prefix="home-") as home:
        variables = environment_in(Path(home), port)
        variables["BOTS_URL"] = url = f"http://127.0.0.1:{port}"
        with Reader(page, checkout, variables, url=url, block_s=INSTALLS_S) as reader:
            for block in blocks:
                began = time.monotonic()
                reader.do(block)
                print(f"{page}:{block.line}: {block.language}, {time.monotonic() - began:.1f} s", flush=True)
    shutil.rmtree(checkout / "data", ignore_errors=True)  # each page begins with an empty service
    return len(blocks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environment", type=Path, help="a folder; without one, make builds a new environment")
    asked = parser.parse_args()
    with clone() if asked.environment is None else copy(asked.environment) as checkout:
        count = sum(read(page, checkout) for page in PAGES)
    print(f"A newcomer ran {count} blocks")


if __name__ == "__main__":
    main()
