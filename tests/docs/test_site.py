"""The site of the documentation: it is built without a warning, and no link of it leads nowhere."""

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urljoin, urlsplit

import pytest

import bots_client
from tools.docs_site import links, reference

ROOT = Path(__file__).parents[2]
HOST = "http://site.example/"
LOADED = {"script": "src", "img": "src", "source": "srcset", "iframe": "src"}
LOADED_RELS = {"stylesheet", "icon", "preload", "modulepreload", "preconnect"}


class Html(HTMLParser):
    """What one page of HTML has: ids, where its links lead, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.leads: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag says."""
        said = {name: value or "" for name, value in attrs}
        self.ids |= {said[name] for name in ("id", "name") if name in said}
        if tag == "a" and "href" in said:
            self.leads.append(said["href"])
        if tag in LOADED and said.get(LOADED[tag]):
            self.loads.append(said[LOADED[tag]])
        if tag == "link" and LOADED_RELS & set(said.get("rel", "").split()):
            self.loads.append(said["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Html]:
    """Every page of the site by its address, built as `make docs` does, and the addresses of all other files."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {
        urljoin(HOST, file.relative_to(folder).as_posix().removesuffix("index.html")): Html(
            file.read_text("utf-8") if file.suffix == ".html" and file.name != "404.html" else ""
        )
        for file in files
    }


def test_every_link_of_the_site_leads_to_a_page_and_to_a_place_on_it(site: dict[str, Html]):
    dead = []
    for address, page in site.items():
        for link in {*page.leads, *page.loads}:
            whole = urlsplit(urljoin(address, link))
            if whole.netloc != urlsplit(HOST).netloc or whole.scheme not in ("http", "https"):
                continue
            there = site.get(unquote(urljoin(HOST, whole.path)))
            if there is None or (whole.fragment and unquote(whole.fragment) not in there.ids):
                dead.append(f"{address}: {link}")
    assert dead == []


def test_pages_load_nothing_from_another_host(site: dict[str, Html]):
    loaded = {urlsplit(urljoin(HOST, link)).netloc for page in site.values() for link in page.loads}
    assert loaded == {urlsplit(HOST).netloc}


def test_the_reference_has_every_name_of_the_client_and_every_command(site: dict[str, Html]):
    client = site[f"{HOST}client/reference/"].ids
    assert {f"bots_client.{name}" for name in bots_client.__all__ if name != "__version__"} <= client
    assert {"bots_client.Client.select", "bots_client.Selector.observe"} <= client
    assert {"bots-select", "bots-datasets-import"} <= site[f"{HOST}cli-reference/"].ids


def test_the_search_knows_the_pages(site: dict[str, Html]):
    assert f"{HOST}search/search_index.json" in site


def test_every_name_of_the_reference_is_exported():
    assert {name for _, names in reference.CLIENT for name in names} <= set(bots_client.__all__)


def test_links_between_files_become_links_between_pages():
    page = PurePosixPath("docs/trainers/verl.md")
    text = "[a](../cli.md#runs) [b](../../README.md) [c](../../client/README.md) [d](https://x.org/y.md) [e](#here)\n"
    code = "```python\nrows[0](../../README.md)\n```\n"
    assert links.with_links_of_the_site(page, text + code) == (
        "[a](../cli.md#runs) [b](../index.md) [c](../client/README.md) [d](https://x.org/y.md) [e](#here)\n" + code
    )


def test_pictures_of_the_readme_are_found_and_linked_source_is_shown():
    home = PurePosixPath("README.md")
    assert (
        links.with_links_of_the_site(home, '<img src="docs/images/run-light.png">')
        == '<img src="images/run-light.png">'
    )
    page = PurePosixPath("docs/languages.md")
    assert links.with_links_of_the_site(page, "[x](../examples/languages/trainer.sh)") == (
        "[x](source/examples/languages/trainer.sh.md)"
    )
