"""A panel, and the JSON that Grafana wants of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
Steps = tuple[tuple[float | None, str], ...]  # from which value on which colour; the first has no value
PLAIN: Steps = ((None, "blue"),)
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class Panel:
    """What a panel shows.

    queries: legend -> PromQL; of tables, column -> PromQL.
    says: what it means and what to do when it moves.
    unit: one of Grafana's, by its id.
    by: of tables, the label that names a row.
    steps: colours by value; of a time series, lines at these values.
    colors: of series whose colour means something, by their legend.
    names: what certain values are called.
    """

    title: str
    queries: Mapping[str, str]
    says: str
    unit: str
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    by: str = ""
    steps: Steps = PLAIN
    colors: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    stacked: bool = False
    most: float | None = None


def panel_json(panel: Panel) -> Json:
    """Return a panel's JSON without its number and its place."""
    defaults: Json = {
        "unit": panel.unit,
        "color": {"mode": "palette-classic" if panel.kind == "timeseries" else "thresholds"},
        "thresholds": {"mode": "absolute", "steps": [{"value": at, "color": color} for at, color in panel.steps]},
        "mappings": [_mapping(panel.names)] if panel.names else [],
        "custom": _custom(panel),
    }
    if panel.most is not None:
        defaults |= {"min": 0, "max": panel.most}
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.says,
        "datasource": SOURCE,
        "targets": [_target(panel, *query, place) for place, query in enumerate(panel.queries.items())],
        "fieldConfig": {"defaults": defaults, "overrides": [_colored(*each) for each in panel.colors.items()]},
        "options": _OPTIONS[panel.kind],
        "transformations": _as_rows(panel) if panel.kind == "table" else [],
    }


def _target(panel: Panel, legend: str, expression: str, place: int) -> Json:
    # What looks over the whole range shown is one number, not one at each point of it.
    instant = panel.kind == "table" or "$__range" in expression
    return {
        "refId": _ref(place),
        "datasource": SOURCE,
        "editorMode": "code",
        "expr": expression,
        "legendFormat": legend,
        "format": "table" if panel.kind == "table" else "time_series",
        "instant": instant,
        "range": not instant,
    }


def _ref(place: int) -> str:
    return "ABCDEFGH"[place]


def _custom(panel: Panel) -> Json:
    if panel.kind != "timeseries":
        return {}
    return {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 60 if panel.stacked else 8,
        "showPoints": "auto",
        "spanNulls": False,
        "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        "thresholdsStyle": {"mode": "dashed" if len(panel.steps) > 1 else "off"},
    }


def _mapping(names: Mapping[str, str]) -> Json:
    return {"type": "value", "options": {value: {"text": text} for value, text in names.items()}}


def _colored(legend: str, color: str) -> Json:
    fixed = {"id": "color", "value": {"mode": "fixed", "fixedColor": color}}
    return {"matcher": {"id": "byName", "options": legend}, "properties": [fixed]}


def _as_rows(panel: Panel) -> list[Json]:
    """Return how the answers become one table: a row for each value of the label, a column for each query."""
    values = {f"Value #{_ref(place)}": name for place, name in enumerate(panel.queries)}
    columns = values if len(values) > 1 else {"Value": next(iter(panel.queries))}
    times = dict.fromkeys(("Time", *(f"Time {number}" for number in range(1, len(columns) + 1))), True)
    return [
        {"id": "joinByField", "options": {"byField": panel.by, "mode": "outer"}},
        {"id": "organize", "options": {"excludeByName": times, "renameByName": columns, "indexByName": {}}},
        {"id": "sortBy", "options": {"fields": {}, "sort": [{"field": panel.by}]}},
    ]


_LEGEND = {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []}
_LAST = {"calcs": ["lastNotNull"], "fields": "", "values": False}
_OPTIONS: dict[str, Json] = {
    "timeseries": {"legend": _LEGEND, "tooltip": {"mode": "multi", "sort": "desc"}},
    "stat": {"reduceOptions": _LAST, "colorMode": "value", "graphMode": "none", "textMode": "auto", "wideLayout": True},
    "table": {"showHeader": True, "cellHeight": "sm"},
}
