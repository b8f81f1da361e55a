"""Grafana's dashboards, without Grafana: their form, and whether a real Prometheus knows all that they ask."""

import json
import math
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.observability.load import ASTRAY, RUNS
from tests.observability.prometheus import SOON_S, Prometheus
from tests.serving import ServiceProcess
from tools.dashboards.training import CAME, TIMES

ROOT = Path(__file__).parents[2]
DASHBOARDS = {
    path.stem: json.loads(path.read_text("utf-8")) for path in sorted(ROOT.glob("deploy/grafana/dashboards/*.json"))
}
METRIC = re.compile(r"\b(?:bots|process)_[a-z_]+")


def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def queries() -> list[tuple[str, str]]:
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


ALL_RUNS = (*RUNS, ASTRAY)
LONG_ENOUGH = "2m"  # for all that the services did
# How Grafana writes the values that are chosen: of several, as a regular expression.
CHOSEN = {
    "$dataset": "pool",
    "$run": f"({'|'.join(ALL_RUNS)})",
    "$instance": "(127\\\\.0\\\\.0\\\\.1:.+)",
    "$window": LONG_ENOUGH,
    "$__range": LONG_ENOUGH,
    "$__rate_interval": LONG_ENOUGH,
}


def test_every_metric_exists(prometheus: Prometheus, services: list[ServiceProcess]):
    exposed = httpx.get(f"{services[0].url}/metrics", timeout=SOON_S).text
    there = {line.partition("{")[0].partition(" ")[0] for line in exposed.splitlines() if line[0] != "#"}
    asked = [expression for _, expression in queries()] + [series for _, series, _ in questions()]
    assert {name for expression in asked for name in METRIC.findall(expression)} <= there


@pytest.mark.parametrize("expression", [pytest.param(asked, id=where) for where, asked in queries()])
def test_a_panel_is_not_empty(prometheus: Prometheus, expression: str):
    values = prometheus.query(filled_in(expression)).values()
    assert any(map(math.isfinite, values))


def test_the_gain_is_measured_by_the_run_that_chooses_uniformly_which_has_none_itself(prometheus: Prometheus):
    def came(run: str) -> str:
        return filled_in(CAME.replace("$run", run))

    gains = prometheus.query(filled_in(TIMES))
    assert len(gains) == len(ALL_RUNS) - 1
    assert not any("other" in str(labels) for labels in gains)  # it chooses uniformly
    # In one question, so that both sides look at the same two minutes.
    (apart,) = prometheus.query(f"({filled_in(TIMES)}) - ({came('default')}) / scalar({came('other')})").values()
    assert apart == pytest.approx(0.0, abs=1e-9)


def filled_in(expression: str) -> str:
    for name, value in CHOSEN.items():
        expression = expression.replace(name, value)
    assert "$" not in expression
    return expression
