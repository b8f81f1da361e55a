"""Two replicas for the tests of a file."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.servers import RedisServer
from tests.serving import ServiceProcess
from tests.system.replica import ADMIN_KEY


@pytest.fixture(scope="module")
def services(
    tmp_path_factory: pytest.TempPathFactory, module_postgres_url: str, redis_server: RedisServer
) -> Iterator[list[ServiceProcess]]:
    """Two services that started with one empty database and Redis."""
    with redis_server.client() as client:
        client.flushall()
    folder = tmp_path_factory.mktemp("replicas")
    settings = {"database_url": module_postgres_url, "redis_url": redis_server.url, "redis_timeout_s": "10"}
    both = [ServiceProcess(folder / name, admin_key=ADMIN_KEY, **settings) for name in ("a", "b")]
    with ThreadPoolExecutor() as pool:
        list(pool.map(ServiceProcess.start, both))
    yield both
    for service in both:
        service.stop()
