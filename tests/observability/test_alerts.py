"""Each alert fires for its cause, and not for what is near it."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.observability.alerts import CASES
from tests.observability.prometheus import DEPLOY, promtool
from tests.observability.test_prometheus import rules

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
