"""A dashboard: its variables, and its panels in rows; and the JSON that Grafana wants of it.

Grafana's classic model, in its last version, 42: it is written by Grafana 12.1 and read by all that came after.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tools.dashboards.panels import SOURCE, Json, Panel, panel_json

SCHEMA_VERSION = 42
COLUMNS = 24
LABEL_VALUES = 1  # Grafana's number for this kind of query
PROVISIONED = {"text": "Prometheus", "value": "bots-prometheus"}  # deploy/grafana/provisioning names it so


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under a heading."""

    title: str
    panels: Sequence[Panel]


def variable(name: str, label: str, query: str, *, multi: bool = True) -> Json:
    """Return a variable whose values Prometheus knows; one that may have several stands for all at first."""
    chosen = {"text": ["All"], "value": ["$__all"]} if multi else {}
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": SOURCE,
        "query": {"query": query, "qryType": LABEL_VALUES, "refId": name},
        "refresh": 2,  # whenever the time range changes: runs come and go
        "sort": 1,
        "multi": multi,
        "includeAll": multi,
        "current": chosen,
        "options": [],
        "regex": "",
        "hide": 0,
    }


def window(*lengths: str, chosen: str) -> Json:
    """Return the variable `window`: over how long counters are looked at."""
    options = [{"text": length, "value": length, "selected": length == chosen} for length in lengths]
    return {
        "type": "custom",
        "name": "window",
        "label": "over the last",
        "query": ",".join(lengths),
        "current": {"text": chosen, "value": chosen},
        "options": options,
        "multi": False,
        "includeAll": False,
        "hide": 0,
    }


SOURCES: Json = {
    "type": "datasource",
    "name": "datasource",
    "label": "Prometheus",
    "query": "prometheus",
    "current": PROVISIONED,
    "options": [],
    "regex": "",
    "refresh": 1,
    "multi": False,
    "includeAll": False,
    "hide": 0,
}


def dashboard(uid: str, title: str, says: str, variables: Sequence[Json], rows: Sequence[Row]) -> Json:
    """Return the JSON of a dashboard."""
    return {
        "uid": uid,
        "title": title,
        "description": says,
        "tags": ["bots"],
        "schemaVersion": SCHEMA_VERSION,
        "editable": False,  # a provisioned one can't be saved; "Save as" makes a copy
        "graphTooltip": 1,
        "timezone": "browser",
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "links": [_LINK],
        "annotations": {"list": []},
        "templating": {"list": [SOURCES, *variables]},
        "panels": _placed(rows),
    }


_LINK: Json = {
    "title": "BOTS",
    "type": "dashboards",
    "tags": ["bots"],
    "asDropdown": True,
    "icon": "external link",
    "includeVars": False,
    "keepTime": True,
    "targetBlank": False,
    "tooltip": "",
    "url": "",
}


def _placed(rows: Sequence[Row]) -> list[Json]:
    """Return the panels from left to right, each row below the one before."""
    placed: list[Json] = []
    y = 0
    for row in rows:
        heading = {"type": "row", "title": row.title, "collapsed": False, "panels": []}
        placed.append({"id": len(placed) + 1, **heading, "gridPos": {"x": 0, "y": y, "w": COLUMNS, "h": 1}})
        x, y, below = 0, y + 1, y + 1
        for panel in row.panels:
            if x + panel.width > COLUMNS:
                x, y = 0, below
            place = {"x": x, "y": y, "w": panel.width, "h": panel.height}
            placed.append({"id": len(placed) + 1, **panel_json(panel), "gridPos": place})
            x, below = x + panel.width, max(below, y + panel.height)
        y = below
    return placed
