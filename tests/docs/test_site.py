"""The site of the documentation: it is built without a warning, which a link that leads nowhere would be."""

import os
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

import bots_client
from tools.docs_site import links

ROOT = Path(__file__).parents[2]
LOADED = re.compile(r'<(?:script|img|source|iframe|link)\b[^>]*\b(?:src|srcset|href)="?((?:https?:)?//[^"\s>]+)')
LINKED = re.compile(r'<link\b[^>]*\brel="?(?:canonical|next|prev)\b[^>]*>')  # they say where, and load nothing


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def test_pages_load_nothing_from_another_host(site: Path):
    pages = [LINKED.sub("", page.read_text("utf-8")) for page in site.rglob("*.html")]
    assert len(pages) > 20
    assert [found for page in pages for found in LOADED.findall(page)] == []


def test_the_reference_has_every_name_of_the_client_and_every_command(site: Path):
    client = (site / "client/reference/index.html").read_text("utf-8")
    names = [name for name in bots_client.__all__ if name != "__version__"]
    for name in (*names, "Client.select", "Selector.observe"):
        assert f'id="bots_client.{name}"' in client, name
    commands = (site / "cli-reference/index.html").read_text("utf-8")
    assert all(f'id="{command}"' in commands for command in ("bots-select", "bots-datasets-import"))
    assert (site / "search/search_index.json").exists()


@pytest.mark.parametrize(
    ("page", "text", "shown"),
    [
        ("docs/trainers/verl.md", "[a](../cli.md#runs) [b](../../README.md)", "[a](../cli.md#runs) [b](../index.md)"),
        ("docs/trainers/verl.md", "[c](../../client/README.md) [e](#here)", "[c](../client/README.md) [e](#here)"),
        (
            "docs/trainers/verl.md",
            "```python\nrows[0](../../README.md)\n```",
            "```python\nrows[0](../../README.md)\n```",
        ),
        ("docs/languages.md", "[x](../examples/languages/trainer.sh)", "[x](source/examples/languages/trainer.sh.md)"),
        ("README.md", '<img src="docs/images/run-light.png">', '<img src="images/run-light.png">'),
    ],
)
def test_links_between_files_become_links_between_pages(page: str, text: str, shown: str):
    assert links.with_links_of_the_site(PurePosixPath(page), text) == shown
