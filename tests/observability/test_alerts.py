"""Each alert fires for its cause, and not for what is near it: series over minutes, in promtool's notation."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.observability.prometheus import DEPLOY, promtool
from tests.observability.test_prometheus import rules

POOL = '{dataset="pool", run="default", instance="a"}'
SELECTS = 'bots_http_requests_total{{route="/select", status="{}", instance="a"}}'


def growing(name: str, a_minute: float) -> tuple[str, str]:
    return f"{name}{POOL}", f"0+{a_minute}x200"


# alert -> (the labels that it fires with, series that make it fire, series that must not)
CASES: dict[str, tuple[dict[str, str], list[tuple[str, str]], list[tuple[str, str]]]] = {
    "BotsEffectiveTaskRatioCollapsed": (
        {"dataset": "pool", "run": "default"},
        [growing("bots_effective_tasks_total", 1), growing("bots_reported_tasks_total", 32)],
        [growing("bots_effective_tasks_total", 16), growing("bots_reported_tasks_total", 32)],
    ),
    "BotsRunStalled": (
        {"dataset": "pool", "run": "default"},
        [(f"bots_last_selection_timestamp_seconds{POOL}", "60x200"), (f"bots_leased_tasks{POOL}", "32x200")],
        [(f"bots_last_selection_timestamp_seconds{POOL}", "0+60x200"), (f"bots_leased_tasks{POOL}", "32x200")],
    ),
    "BotsSelectionNarrow": (
        {"dataset": "pool", "run": "default"},
        [(f"bots_narrow{POOL}", "1x200")],
        [(f"bots_narrow{POOL}", "0x200")],
    ),
    "BotsVerifierSuspect": (
        {"dataset": "pool", "run": "default"},
        [(f"bots_verifier_alarms{POOL}", "0x20 2x180")],
        [(f"bots_verifier_alarms{POOL}", "0x200")],
    ),
    "BotsDown": (
        {"job": "bots", "instance": "a"},
        [('up{job="bots", instance="a"}', "0x200")],
        [('up{job="bots", instance="a"}', "1x200"), ('up{job="else", instance="b"}', "0x200")],
    ),
    "BotsStoreDown": (
        {"instance": "a", "store": "redis"},
        [
            ('bots_store_up{instance="a", store="redis"}', "0x200"),
            ('bots_store_up{instance="a", store="sql"}', "1x200"),
        ],
        [('bots_store_up{instance="a", store="redis"}', "1x200")],
    ),
    "BotsErrorBudgetBurns": (
        {},
        [(SELECTS.format(200), "0+90x200"), (SELECTS.format(503), "0+10x200")],
        [(SELECTS.format(200), "0+999x200"), (SELECTS.format(503), "0+1x200"), (SELECTS.format(409), "0+90x200")],
    ),
}


BY_NAME = {rule["alert"]: rule for rule in rules()}
AT = "3h"


def test_every_alert_has_a_case():
    assert CASES.keys() == BY_NAME.keys()


@pytest.mark.parametrize("name", BY_NAME)
def test_it_fires_for_its_cause_and_not_for_what_is_near_it(name: str, tmp_path: Path):
    labels, cause, near = CASES[name]
    is_labelled: dict[str, Any] = {"exp_labels": {"severity": BY_NAME[name]["labels"]["severity"], **labels}}
    cases = [(cause, [is_labelled]), (near, [])]
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": series, "values": values} for series, values in given],
            "alert_rule_test": [{"eval_time": AT, "alertname": name, "exp_alerts": expected}],
        }
        for given, expected in cases
    ]
    rules_without_prose(tmp_path / "alerts.yml")
    (tmp_path / "cases.yml").write_text(yaml.safe_dump({"rule_files": ["alerts.yml"], "tests": tests}))
    assert "SUCCESS" in promtool("test", "rules", "cases.yml", folder=tmp_path)


def rules_without_prose(path: Path) -> None:
    """Write the rules without their annotations, which a case would otherwise have to repeat."""
    groups = yaml.safe_load((DEPLOY / "alerts.yml").read_text())
    for group in groups["groups"]:
        for rule in group["rules"]:
            assert set(rule.pop("annotations")) == {"summary", "description"}
    path.write_text(yaml.safe_dump(groups))
