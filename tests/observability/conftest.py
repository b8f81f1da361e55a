"""Two services that share PostgreSQL and Redis, at work, and a real Prometheus that looks at them."""

import time
from collections.abc import Iterator

import pytest

from tests.observability.load import Load
from tests.observability.prometheus import EVERY_S, Prometheus, running_prometheus
from tests.servers import PostgresServer, RedisServer, wait_until
from tests.serving import ServiceProcess

REPORTS = 60


@pytest.fixture(scope="session")
def services(
    tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer, redis_server: RedisServer
) -> Iterator[list[ServiceProcess]]:
    redis_server.client().flushall()
    url = postgres.new_database()
    settings = {"database_url": url, "redis_url": redis_server.url}
    both = [ServiceProcess(tmp_path_factory.mktemp("service"), **settings) for _ in range(2)]
    for service in both:
        service.start()
    yield both
    for service in both:
        service.stop()
    postgres.drop_database(url)


@pytest.fixture(scope="session")
def load(services: list[ServiceProcess]) -> Load:
    return Load(services)


@pytest.fixture(scope="session")
def prometheus(
    services: list[ServiceProcess], load: Load, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prometheus]:
    """A Prometheus that saw half of what the services did: a counter shows its growth from the second look on."""
    load.train(REPORTS)
    load.stumble()
    with running_prometheus(tmp_path_factory.mktemp("prometheus"), [service.port for service in services]) as started:
        wait_until(lambda: min(started.query("count_over_time(bots_ready[1m])").values(), default=0) >= 2)
        load.train(REPORTS)
        load.stumble()
        load.settle()
        time.sleep(7 * EVERY_S)  # the gauges of a run are looked up every second or more seldom
        yield started
