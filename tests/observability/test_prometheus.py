"""What we ship for Prometheus, with a real one, at two services that share PostgreSQL and Redis."""

from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.observability.load import RUNS
from tests.observability.prometheus import DEPLOY, SOON_S, Prometheus, promtool
from tests.serving import ServiceProcess

OF_POOL = "dataset='pool'"


def history(service: ServiceProcess, run: str) -> list[dict[str, Any]]:
    answer = httpx.get(f"{service.url}/datasets/pool/runs/{run}/history?limit=1000", timeout=SOON_S)
    steps: list[dict[str, Any]] = answer.raise_for_status().json()["history"]
    return steps


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_configuration_and_rules_are_clean(tmp_path: Path):
    for name in ("prometheus.yml", "alerts.yml"):
        (tmp_path / name).write_text((DEPLOY / name).read_text())
    (tmp_path / "bots.key").write_text("a key")
    assert "SUCCESS" in promtool("check", "config", "prometheus.yml", folder=tmp_path)
    assert f"{len(rules())} rules found" in promtool("check", "rules", "alerts.yml")


@pytest.mark.parametrize("run", RUNS)
def test_the_sum_over_replicas_is_what_the_journal_says(
    prometheus: Prometheus, services: list[ServiceProcess], run: str
):
    steps = history(services[0], run)
    labels = f"{{{OF_POOL}, run='{run}'}}"
    for name in ("reported", "effective"):
        (told,) = prometheus.query(f"sum(bots_{name}_tasks_total{labels})").values()
        assert told == sum(step[name] for step in steps)
    (ratio,) = prometheus.query(
        f"sum(bots_effective_tasks_total{labels}) / sum(bots_reported_tasks_total{labels})"
    ).values()
    assert ratio == pytest.approx(sum(step["effective"] for step in steps) / sum(step["reported"] for step in steps))
    (brier,) = prometheus.query(
        f"sum(bots_prediction_squared_error_total{labels}) / sum(bots_rollouts_total{labels})"
    ).values()
    rollouts = sum(step["rollouts"] for step in steps)
    assert brier == pytest.approx(sum(step["brier"] * step["rollouts"] for step in steps) / rollouts)


@pytest.mark.parametrize("run", RUNS)
def test_the_largest_of_all_replicas_says_where_a_run_stands(
    prometheus: Prometheus, services: list[ServiceProcess], run: str
):
    (step,) = prometheus.query(f"max by (run) (bots_step{{{OF_POOL}, run='{run}'}})").values()
    assert step == len(history(services[0], run))
    assert prometheus.query(f"bots_uniform_effective_task_ratio{{{OF_POOL}, run='{run}'}} > 0")


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_each_alert_is_understood_and_quiet_while_all_is_well(prometheus: Prometheus, rule: dict[str, Any]):
    assert prometheus.query(rule["expr"]) == {}
    (loaded,) = [
        loaded
        for group in prometheus.api("rules")["groups"]
        for loaded in group["rules"]
        if loaded["name"] == rule["alert"]
    ]
    assert (loaded["health"], loaded["state"]) == ("ok", "inactive")
