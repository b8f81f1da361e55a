"""Alerts fire in a running Prometheus when what they tell of befalls real services, and no sooner.

The rules are those that we ship, all their lengths of time divided by QUICKER; how much it takes is as shipped.
BotsLagging is left to promtool's case in test_alerts.py: while SQL answers, a replica folds within seconds what another
one committed, with or without Redis; so no server that is away keeps a run behind.
"""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.observability.causes import SERIAL, crowd, prepare, trainers
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
    ("BotsSelectsSlow", ""),
}  # what trainers do, while the service is well
BROKEN = {
    ("BotsStoreDown", "redis"),
    ("BotsStoreDown", "sql"),
    ("BotsErrorBudgetBurns", ""),
    ("BotsDown", ""),
}
Fired = set[tuple[str, str]]


def fired(prometheus: Prometheus) -> Fired:
    """Return which alerts fired so far, each with the run or the store that it names."""
    series = map(dict, prometheus.query('max_over_time(ALERTS{alertstate="firing"}[1h])'))
    return {(one["alertname"], one.get("run", one.get("store", ""))) for one in series}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Fired, Fired]]:
    """What fired while only trainers erred, and what fired after everything was broken, one after the other."""
    with ExitStack() as stack:
        postgres = stack.enter_context(running(PostgresServer(fsync="off")))
        redis = stack.enter_context(running(RedisServer()))
        stores = {"database_url": postgres.new_database(), "redis_url": redis.url}
        services = [ServiceProcess(tmp_path_factory.mktemp("service"), **stores, **SERIAL) for _ in range(2)]
        for service in services:
            service.start()
            stack.callback(service.kill)
        here, there = services
        prepare(here.url)
        ports = [service.port for service in services]
        folder = tmp_path_factory.mktemp("prometheus")
        prometheus = stack.enter_context(running_prometheus(folder, ports, quicker=QUICKER))

        def wait_for(*expected: tuple[str, str]) -> None:
            wait_until(lambda: fired(prometheus) >= set(expected), LATE_S)

        stack.enter_context(trainers(here.url))
        wait_for(*HEALTHY - {("BotsSelectsSlow", "")})
        with crowd(here.url):
            wait_for(("BotsSelectsSlow", ""))
        while_well = fired(prometheus)
        redis.kill()
        wait_for(("BotsStoreDown", "redis"))
        redis.start()
        postgres.kill()
        wait_for(("BotsStoreDown", "sql"), ("BotsErrorBudgetBurns", ""))
        there.kill()
        wait_for(("BotsDown", ""))
        yield while_well, fired(prometheus)


def test_only_what_trainers_did_is_told_while_the_service_is_well(story: tuple[Fired, Fired]):
    # A busy machine folds late, and says so.
    assert {one for one in story[0] if one[0] != "BotsLagging"} == HEALTHY


@pytest.mark.parametrize(("alert", "of"), sorted(HEALTHY | BROKEN))
def test_it_fires(story: tuple[Fired, Fired], alert: str, of: str):
    assert (alert, of) in story[1]


def test_every_alert_but_one_is_brought_about_here():
    assert {alert for alert, _ in HEALTHY | BROKEN} == BY_NAME.keys() - {"BotsLagging"}
