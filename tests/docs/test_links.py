"""Every relative link of the pages leads to a file, and to a heading of it where it names one."""

import re
from pathlib import Path

import pytest

from tests.docs.blocks import blocks_of

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "client/*.md", "docs/**/*.md", "examples/**/*.md")
    for page in ROOT.glob(pattern)
)
LINK = re.compile(r"\]\((?!\w+:)([^)\s]*)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def prose_of(page: Path) -> str:
    """Return a page without its fenced blocks, where brackets mean something else."""
    lines = page.read_text("utf-8").splitlines()
    for block in blocks_of("\n".join(lines), page.name):
        for at in range(block.line - 1, block.line - 1 + block.code.count("\n")):
            lines[at] = ""
    return "\n".join(lines)


def anchors_of(page: Path) -> set[str]:
    """Return what GitHub calls the headings of a page."""
    texts = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in HEADING.findall(prose_of(page)))
    return {re.sub(r"[^\w\- ]", "", text).replace(" ", "-") for text in texts}


def broken(page: Path) -> list[str]:
    wrong = []
    for link in LINK.findall(prose_of(page)):
        file, _, anchor = link.partition("#")
        target = page.parent / file if file else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors_of(target)):
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", PAGES)
def test_every_relative_link_of_a_page_leads_somewhere(page):
    assert broken(ROOT / page) == []


def test_links_that_lead_nowhere_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# Big `words`, all\n[a](#big-words-all) [b](#small) [c](other.md) [d](https://example.org/x)\n"
        "```python\nrows[0](missing)\n```\n[e](page.md#big-words-all)\n"
    )
    assert broken(page) == ["#small", "other.md"]
