"""What single pages say of the code and of the studies is so."""

import re
from pathlib import Path

from bots_service.api.problems import HEADERS_TOO_LARGE, INTERNAL, KINDS, MALFORMED_REQUEST, METHOD_NOT_ALLOWED

ROOT = Path(__file__).parents[2]
TROUBLESHOOTING = (ROOT / "docs/troubleshooting.md").read_text("utf-8")
OF_NO_ERROR = (INTERNAL, METHOD_NOT_ALLOWED, MALFORMED_REQUEST, HEADERS_TOO_LARGE)
ROW = re.compile(r"^\| (?P<method>[^|]+) \| (?P<gain>[+-]\d\.\d+ ± \d\.\d+) \| (?P<rollouts>[^|]+) \|", re.MULTILINE)
NAMES = {
    "uniform sampling": "uniform",
    "filtering as in DAPO": "DAPO's filter",
    "BOTS, `thompson`": "BOTS",
    "tracker, `pass` (the default)": "tracker, pass",
}


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
