"""What single pages say of the code and of the studies is so."""

import re
from pathlib import Path

import yaml

from bots_service.api.problems import kind_of
from bots_service.metrics import Metrics
from tests.api.test_problems import all_errors

ROOT = Path(__file__).parents[2]
TROUBLESHOOTING = (ROOT / "docs/troubleshooting.md").read_text("utf-8")
SIGNALS = (ROOT / "docs/signals.md").read_text("utf-8")
ALERTS = (ROOT / "deploy/prometheus/alerts.yml").read_text("utf-8")
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
    kinds = set(map(kind_of, all_errors()))
    assert {(name, status) for status, name in kinds} <= shown
    assert {name for name, _ in shown} == {name for _, name in kinds}


def test_the_figures_of_the_alternatives_are_those_of_the_study():
    study = (ROOT / "docs/studies/methods.md").read_text("utf-8")
    rows = list(ROW.finditer((ROOT / "docs/alternatives.md").read_text("utf-8")))
    assert len(rows) == len(NAMES) + 2
    for row in rows:
        name = NAMES.get(row["method"], row["method"])
        found = re.search(rf"^\| interference \| {re.escape(name)} \|(.+)\|$", study, re.MULTILINE)
        assert found is not None
        _, gain, rollouts = (cell.strip() for cell in found[1].split("|"))
        assert row["gain"] == gain
        assert row["rollouts"].split()[0].rstrip(",") == rollouts.split()[0].rstrip(",")


def counted() -> set[str]:
    metrics = Metrics()
    metrics.watch(bool, dict)
    metrics.requests.watch_line(int)
    endings = {"counter": "_total", "info": "_info"}
    families = list(metrics.registry.collect())
    return {family.name + endings.get(family.type, "") for family in families if family.name.startswith("bots_")}


def test_the_signals_are_every_metric_once_and_no_other():
    rows = re.findall(r"^\| ((?:`bots_[a-z_]+`(?:, )?)+) \|", SIGNALS, re.MULTILINE)
    told = [name for row in rows for name in re.findall("`(bots_[a-z_]+)`", row)]
    assert len(told) == len(set(told))
    assert set(told) == counted() >= set(re.findall(r"\bbots_[a-z_]+", SIGNALS))


def test_the_signals_are_every_alert_with_its_severity():
    rules = [rule for group in yaml.safe_load(ALERTS)["groups"] for rule in group["rules"]]
    shipped = {rule["alert"]: rule["labels"]["severity"] for rule in rules}
    assert dict(re.findall(r"^\| `(Bots\w+)` \| (\w+) \|", SIGNALS, re.MULTILINE)) == shipped


def test_alerts_ask_for_no_metric_that_is_not_there():
    assert {name.removesuffix("_bucket") for name in re.findall(r"\bbots_[a-z_]+", ALERTS)} <= counted()
