"""docs/signals.md tells of every metric, and of no other."""

import re
from pathlib import Path

import yaml

from bots_service.metrics.process import Metrics

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "signals.md"
ROW = re.compile(r"^\| ((?:`bots_[a-z_]+`(?:, )?)+) \|", re.MULTILINE)


def counted() -> set[str]:
    """Return the names of all metrics, as Prometheus knows them; histograms without their endings."""
    metrics = Metrics()
    metrics.watch_stores(dict)
    metrics.watch_state(bool)
    metrics.requests.watch_line(int)
    endings = {"counter": "_total", "info": "_info"}
    families = list(metrics.registry.collect())
    return {family.name + endings.get(family.type, "") for family in families if family.name.startswith("bots_")}


def test_the_page_tells_of_every_metric_and_of_no_other():
    rows = ROW.findall(PAGE.read_text())
    told = [name for row in rows for name in re.findall("`(bots_[a-z_]+)`", row)]
    assert len(told) == len(set(told))
    assert set(told) == counted()


def test_the_page_tells_of_every_alert_and_its_severity():
    groups = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())["groups"]
    shipped = {rule["alert"]: rule["labels"]["severity"] for group in groups for rule in group["rules"]}
    assert dict(re.findall(r"^\| `(Bots\w+)` \| (\w+) \|", PAGE.read_text(), re.MULTILINE)) == shipped


def test_rules_ask_for_no_metric_that_is_not_there():
    asked = set(re.findall(r"\bbots_[a-z_]+", (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text()))
    assert {name.removesuffix("_bucket") for name in asked} <= counted()


def test_every_metric_that_the_page_mentions_exists():
    mentioned = set(re.findall(r"\bbots_[a-z_]+", PAGE.read_text()))
    assert mentioned <= counted()
