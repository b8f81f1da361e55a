"""CONTRIBUTING's lists of what a change touches name files that exist, keep to their limits, and are complete."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STARTS = (ROOT / "service/bots_service", ROOT / "client", ROOT)
SECTION = re.compile(r"^## What a change touches\n(.*?)^## ", re.MULTILINE | re.DOTALL)
ITEM = re.compile(r"^- \*\*(?P<name>[^*]+)\*\* \(at most (?P<most>\d+)(?:; trace `(?P<trace>\w+)`)?\): (?P<text>.*)")
PATH = re.compile(r"`([\w/.-]+(?:/|\.(?:py|md|json|toml)))`")
# Files that only show an example of a thing, or are written by a tool, are no part of a change.
TRACED = ("service/**/*.py", "client/**/*.py", "tools/**/*.py", "docs/*.md")


@dataclass(frozen=True)
class Change:
    """One kind of change.

    most: how many files it may touch; trace: a word that occurs in each file of an example; shown: tests of the list.
    """

    name: str
    most: int
    trace: str | None
    paths: tuple[str, ...]
    shown: tuple[str, ...]


def changes() -> list[Change]:
    section = SECTION.search((ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    assert section is not None
    items = re.split(r"\n(?=- )", section[1])[1:]
    found = [ITEM.match(" ".join(item.split())) for item in items]
    assert all(found)
    return [
        Change(one["name"], int(one["most"]), one["trace"], *map(paths_in, one["text"].partition("Shown in")[::2]))
        for one in found
        if one
    ]


def paths_in(text: str) -> tuple[str, ...]:
    return tuple(PATH.findall(text))


def file_of(path: str) -> Path:
    """Return the file or folder that a path of the lists means."""
    return next(start / path for start in STARTS if (start / path).exists())


@pytest.mark.parametrize("change", changes(), ids=lambda change: change.name)
def test_each_file_of_a_change_exists_and_there_are_no_more_than_promised(change: Change):
    files = [file_of(path) for path in change.paths]
    assert 0 < len(set(files)) == len(files) <= change.most
    assert all(map(file_of, change.shown))


@pytest.mark.parametrize("change", [one for one in changes() if one.trace], ids=lambda change: change.name)
def test_a_list_is_complete_as_an_example_shows(change: Change):
    word = re.compile(rf"\b{change.trace}\b")
    traced = {path for pattern in TRACED for path in ROOT.glob(pattern) if word.search(path.read_text("utf-8"))}
    assert traced <= {file_of(path) for path in change.paths}
    assert traced


def test_every_change_that_was_promised_has_its_list():
    names = " ".join(change.name for change in changes())
    wanted = ("strategy", "parameter", "belief", "route", "store", "metric", "adapter", "report", "lifetime", "filter")
    assert [one for one in wanted if one not in names] == []
