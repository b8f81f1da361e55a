"""Alerts fire in a running Prometheus when what they tell of befalls real services, and no sooner; Alertmanager tells.

The rules are those that we ship, all their lengths of time divided by QUICKER; how much it takes is as shipped.
BotsLagging is left to promtool's case in test_alerts.py: while SQL answers, a replica folds within seconds what another
one committed, with or without Redis; so no server that is away keeps a run behind.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from tests.observability.alertmanager import Alertmanager, running_alertmanager
from tests.observability.causes import PATIENT, prepare, slow, trainers
from tests.observability.prometheus import Prometheus, running_prometheus
from tests.observability.test_alerts import BY_NAME
from tests.servers import PostgresServer, RedisServer, running, wait_until
from tests.serving import ServiceProcess

QUICKER = 60
LATE_S = 120.0
HEALTHY = {
    ("BotsEffectiveTaskRatioCollapsed", "solved"),
    ("BotsBeliefDrifted", "drifted"),
    ("BotsRunStalled", "stalled"),
    ("BotsSelectionNarrow", "narrow"),
    ("BotsVerifierSuspect", "outage"),
    ("BotsEffectiveTaskRatioCollapsed", "outage"),
    ("BotsSelectsSlow", ""),
}  # what trainers do, while the service is well
BROKEN = {
    ("BotsStoreDown", "redis"),
    ("BotsStoreDown", "sql"),
    ("BotsErrorBudgetBurns", ""),
    ("BotsDown", ""),
}
Fired = set[tuple[str, str]]
Labels = Mapping[str, str]


def of_labels(series: Iterable[Labels]) -> Fired:
    """Return the names of alerts, each with the run or the store that it is about."""
    return {(one["alertname"], one.get("run", one.get("store", ""))) for one in series}


def fired(prometheus: Prometheus) -> Fired:
    """Return which alerts fired so far."""
    return of_labels(map(dict, prometheus.query('max_over_time(ALERTS{alertstate="firing"}[1h])')))


def told(alertmanager: Alertmanager, status: str) -> Fired:
    """Return which alerts Alertmanager told of."""
    return of_labels(alert["labels"] for alert in alertmanager.told(status))


@dataclass(frozen=True, slots=True)
class Story:
    """What fired while only trainers erred, what fired once everything had been broken, and who told of it."""

    while_well: Fired
    in_the_end: Fired
    alertmanager: Alertmanager


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """What happened to two services, their stores and their trainers."""
    with ExitStack() as stack:
        postgres = stack.enter_context(running(PostgresServer(fsync="off")))
        redis = stack.enter_context(running(RedisServer()))
        stores = {"database_url": postgres.new_database(), "redis_url": redis.url}
        services = [ServiceProcess(tmp_path_factory.mktemp("service"), **stores, **PATIENT) for _ in range(2)]
        for service in services:
            service.start()
            stack.callback(service.kill)
        here, there = services
        prepare(here.url)
        ports = [service.port for service in services]
        folder = tmp_path_factory.mktemp("prometheus")
        alertmanager = stack.enter_context(running_alertmanager(folder))
        prometheus = stack.enter_context(
            running_prometheus(folder, ports, quicker=QUICKER, alertmanager=alertmanager.address)
        )

        def wait_for(*expected: tuple[str, str]) -> None:
            wait_until(lambda: fired(prometheus) >= set(expected), LATE_S)

        stack.enter_context(trainers(here.url))
        wait_for(*HEALTHY - {("BotsSelectsSlow", "")})
        with slow(redis):
            wait_for(("BotsSelectsSlow", ""))
        while_well = fired(prometheus)
        redis.kill()
        wait_for(("BotsStoreDown", "redis"))
        redis.start()
        postgres.kill()
        wait_for(("BotsStoreDown", "sql"), ("BotsErrorBudgetBurns", ""))
        there.kill()
        wait_for(("BotsDown", ""))
        wait_until(lambda: told(alertmanager, "firing") >= fired(prometheus), LATE_S)
        yield Story(while_well, fired(prometheus), alertmanager)


def test_only_what_trainers_did_is_told_while_the_service_is_well(story: Story):
    # A busy machine folds late, and says so.
    assert {one for one in story.while_well if one[0] != "BotsLagging"} == HEALTHY


@pytest.mark.parametrize(("alert", "of"), sorted(HEALTHY | BROKEN))
def test_it_fires(story: Story, alert: str, of: str):
    assert (alert, of) in story.in_the_end


def test_alertmanager_tells_of_each_alert_with_words_for_people(story: Story):
    assert told(story.alertmanager, "firing") >= HEALTHY | BROKEN
    for alert in story.alertmanager.told("firing"):
        assert alert["labels"]["severity"] in {"warning", "critical"}
        words = f"{alert['annotations']['summary']} {alert['annotations']['description']}"
        assert "{{" not in words
        assert "<no value>" not in words


def test_alertmanager_tells_when_a_store_is_back(story: Story):
    assert ("BotsStoreDown", "redis") in told(story.alertmanager, "resolved")


def test_every_alert_but_one_is_brought_about_here():
    assert {alert for alert, _ in HEALTHY | BROKEN} == BY_NAME.keys() - {"BotsLagging"}
