"""The names that a release promises are found where they stand."""

import pytest

from bots_service.settings import Settings
from tools.public_names import public_names

METRICS = """# HELP bots_reports_total Reports.
# TYPE bots_reports_total counter
bots_reports_total 3
# TYPE process_open_fds gauge
"""
NAMES = public_names(METRICS)


@pytest.mark.parametrize(
    "name",
    [
        "client Client.select(count)",
        "client Outcome.rewards(task)",
        "client Receipt.effective",
        "client Selector",
        "client UnreachableError",
        "command bots datasets import <files>",
        "command bots runs show --json",
        f"variable BOTS_PORT={Settings.model_fields['port'].default}",
        "metric bots_reports_total counter",
    ],
)
def test_each_kind_of_name_is_found(name: str):
    assert name in NAMES


def test_what_nobody_outside_uses_is_left_out():
    assert [name for name in NAMES if "process_open_fds" in name or "._" in name or "(self)" in name] == []
