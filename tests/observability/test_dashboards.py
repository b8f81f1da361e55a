"""Grafana's dashboards, without Grafana: their form, and whether a real Prometheus knows all that they ask."""

import itertools
import math
from typing import Any

import httpx
import pytest
import yaml

from tests.observability.dashboards import DASHBOARDS, METRIC, ROOT, VARIABLE, panels, queries, questions
from tests.observability.load import ASTRAY, RUNS
from tests.observability.prometheus import SOON_S, Prometheus
from tests.serving import ServiceProcess
from tools.dashboards.training import CAME, MEASURED, MODELLED, TIMES

COLUMNS = 24
KINDS = {"timeseries", "stat", "table"}
GRAFANAS_OWN = {"__rate_interval", "__range"}
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

every_dashboard = pytest.mark.parametrize("board", DASHBOARDS.values(), ids=DASHBOARDS)


@every_dashboard
def test_ids_titles_and_queries_are_told_apart(board: dict[str, Any]):
    for key in ("id", "title"):
        named = [panel[key] for panel in board["panels"]]
        assert len(set(named)) == len(named), key
    for panel in panels(board):
        for key in ("refId", "legendFormat", "expr"):
            named = [target[key] for target in panel["targets"]]
            assert len(set(named)) == len(named), (panel["title"], key)


@every_dashboard
def test_panels_lie_beside_each_other_and_not_on_each_other(board: dict[str, Any]):
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= COLUMNS, panel["title"]
        columns = range(place["x"], place["x"] + place["w"])
        cells = set(itertools.product(columns, range(place["y"], place["y"] + place["h"])))
        assert not cells & taken, panel["title"]
        taken |= cells


@every_dashboard
def test_each_panel_says_what_it_shows_in_which_unit_and_what_to_do(board: dict[str, Any]):
    for panel in panels(board):
        assert panel["type"] in KINDS
        assert panel["targets"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["description"].endswith((".", "?")), panel["title"]
        first, *others = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        assert first["value"] is None
        assert [each["value"] for each in others] == sorted(each["value"] for each in others)


@every_dashboard
def test_all_data_comes_from_the_source_that_is_provisioned(board: dict[str, Any]):
    (source,) = yaml.safe_load((ROOT / "deploy/grafana/provisioning/datasources/prometheus.yml").read_text())[
        "datasources"
    ]
    (chosen,) = [each for each in board["templating"]["list"] if each["type"] == "datasource"]
    assert (chosen["query"], chosen["current"]["value"]) == (source["type"], source["uid"])
    asked = [each for each in board["templating"]["list"] if each["type"] == "query"]
    for each in [*asked, *panels(board), *(target for panel in panels(board) for target in panel["targets"])]:
        assert each["datasource"] == {"type": source["type"], "uid": f"${{{chosen['name']}}}"}


@every_dashboard
def test_every_variable_is_declared_and_used(board: dict[str, Any]):
    declared = {each["name"] for each in board["templating"]["list"]}
    texts = [target["expr"] for panel in panels(board) for target in panel["targets"]]
    texts += [str(each.get("query")) for each in board["templating"]["list"]]
    used = {name for text in texts for name in VARIABLE.findall(text)}
    assert used - GRAFANAS_OWN == declared - {"datasource"}


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


def test_where_the_run_that_chooses_uniformly_is_over_the_gain_is_modelled(prometheus: Prometheus):
    over = filled_in(MEASURED).replace(f"[{LONG_ENOUGH}])", f"[{LONG_ENOUGH}] ) * 0")  # it closes no more steps
    assert prometheus.query(over) == {}
    gains = prometheus.query(filled_in(TIMES).replace(filled_in(MEASURED), over))
    modelled = prometheus.query(filled_in(f"({CAME}) / {MODELLED}"))
    assert gains == {labels: pytest.approx(modelled[labels], rel=0.1) for labels in gains}
    assert len(gains) == len(ALL_RUNS) - 1


@pytest.mark.parametrize(("name", "series", "label"), questions())
def test_a_variable_has_the_values_that_there_are(
    prometheus: Prometheus, services: list[ServiceProcess], name: str, series: str, label: str
):
    there = {
        "dataset": {"pool"},
        "run": set(ALL_RUNS),
        "instance": {f"127.0.0.1:{service.port}" for service in services},
    }
    assert set(prometheus.api(f"label/{label}/values", **{"match[]": filled_in(series)})) == there[name]


def filled_in(expression: str) -> str:
    """Return a query as Grafana sends it."""
    for name, value in CHOSEN.items():
        expression = expression.replace(name, value)
    assert "$" not in expression
    return expression
