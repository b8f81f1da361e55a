"""Grafana's dashboards, read."""

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DASHBOARDS = {
    path.stem: json.loads(path.read_text("utf-8")) for path in sorted(ROOT.glob("deploy/grafana/dashboards/*.json"))
}
METRIC = re.compile(r"\b(?:bots|process)_[a-z_]+")


def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the panels that show something: all but the headings."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def queries() -> list[tuple[str, str]]:
    """Return every query: where it stands, and what it asks."""
    return [
        (f"{name}, {panel['title']}, {target['refId']}", target["expr"])
        for name, board in DASHBOARDS.items()
        for panel in panels(board)
        for target in panel["targets"]
    ]


def questions() -> list[tuple[str, str, str]]:
    """Return of every variable that Prometheus is asked for: its name, the series that have it, and their label."""
    found = []
    for board in DASHBOARDS.values():
        for each in board["templating"]["list"]:
            if each["type"] == "query":
                match = re.fullmatch(r"label_values\((.+), (\w+)\)", each["query"]["query"])
                assert match, each
                found.append((each["name"], match[1], match[2]))
    return found
