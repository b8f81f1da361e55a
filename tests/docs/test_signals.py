"""docs/signals.md tells of every metric, and of no other."""

import re
from pathlib import Path

from bots_service.metrics.process import Metrics

PAGE = Path(__file__).parents[2] / "docs" / "signals.md"
ROW = re.compile(r"^\| ((?:`bots_[a-z_]+`(?:, )?)+) \|", re.MULTILINE)


def counted() -> set[str]:
    """Return the names of all metrics, as Prometheus knows them; histograms without their endings."""
    metrics = Metrics()
    metrics.watch_stores(dict)
    metrics.watch_state(bool)
    metrics.requests.watch_line(int, int)
    endings = {"counter": "_total", "info": "_info"}
    families = list(metrics.registry.collect())
    return {family.name + endings.get(family.type, "") for family in families if family.name.startswith("bots_")}


def test_the_page_tells_of_every_metric_and_of_no_other():
    rows = ROW.findall(PAGE.read_text())
    told = [name for row in rows for name in re.findall("`(bots_[a-z_]+)`", row)]
    assert len(told) == len(set(told))
    assert set(told) == counted()


def test_every_metric_that_the_page_mentions_exists():
    mentioned = set(re.findall(r"\bbots_[a-z_]+", PAGE.read_text()))
    assert mentioned <= counted()
