"""What single pages say of the code and of the studies is so."""

import re
from pathlib import Path

import pytest

from bots_service.api.problems import HEADERS_TOO_LARGE, INTERNAL, KINDS, MALFORMED_REQUEST, METHOD_NOT_ALLOWED
from tools import architecture

ROOT = Path(__file__).parents[2]
TROUBLESHOOTING = (ROOT / "docs/troubleshooting.md").read_text("utf-8")
MESSAGES = [
    message
    for heading in re.findall(r"^### (.+)$", TROUBLESHOOTING, re.MULTILINE)
    for message in re.findall(r"`([^`]+)`", heading)
]
OF_NO_ERROR = (INTERNAL, METHOD_NOT_ALLOWED, MALFORMED_REQUEST, HEADERS_TOO_LARGE)
# Said by other programs: the shell and pip.
FOREIGN = {"bots: command not found", "Could not find a version that satisfies the requirement bots-client"}
SOURCES = [
    path.read_text("utf-8") for path in (ROOT / "Makefile", *ROOT.glob("service/**/*.py"), *ROOT.glob("client/**/*.py"))
]
ROW = re.compile(r"^\| (?P<method>[^|]+) \| (?P<gain>[+-]\d\.\d+ ± \d\.\d+) \| (?P<rollouts>[^|]+) \|", re.MULTILINE)
NAMES = {
    "uniform sampling": "uniform",
    "filtering as in DAPO": "DAPO's filter",
    "BOTS, `thompson`": "BOTS",
    "tracker, `pass` (the default)": "tracker, pass",
}


@pytest.mark.parametrize("message", [message for message in MESSAGES if message not in FOREIGN])
def test_each_message_of_troubleshooting_is_one_that_the_code_has(message: str):
    parts = [part.strip() for part in message.split("...") if part.strip(" ;")]
    assert any(all(part.strip("; ") in source for part in parts) for source in SOURCES)


def test_troubleshooting_has_every_type_of_problem_with_its_status():
    rows = re.findall(r"^\| (`.+?) \| ([\d, ]+) \|", TROUBLESHOOTING, re.MULTILINE)
    shown = {(name, int(status)) for names, codes in rows for name in re.findall("`([a-z-]+)`", names)
             for status in codes.split(", ")}  # fmt: skip
    kinds = {(kind.name, kind.status) for kind in (*OF_NO_ERROR, *KINDS.values())}
    assert kinds <= shown
    assert {name for name, _ in shown} == {name for name, _ in kinds}


def test_the_figures_of_the_alternatives_are_those_of_the_study():
    study = (ROOT / "docs/studies/methods.md").read_text("utf-8")
    rows = list(ROW.finditer((ROOT / "docs/alternatives.md").read_text("utf-8")))
    assert len(rows) == len(NAMES) + 2
    for row in rows:
        name = NAMES.get(row["method"], row["method"])
        found = re.search(rf"^\| interference \| {re.escape(name)} \|(.+)\|$", study, re.MULTILINE)
        assert found is not None
        _, gain, _, _, rollouts = (cell.strip() for cell in found[1].split("|"))
        assert row["gain"] == gain
        assert row["rollouts"].split()[0].rstrip(",") == rollouts.split()[0].rstrip(",")


def test_the_picture_of_the_architecture_is_the_one_that_the_tool_draws():
    assert architecture.main("--check") == 0
