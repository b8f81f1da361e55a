"""Two services on one PostgreSQL and one Redis, with a faulty network between every two of them."""

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.servers import PostgresServer, RedisServer, Server
from tests.serving import ServiceProcess
from tests.system.faults.faulty_proxy import FaultyProxy

STARTS = 30  # a start that meets a fault ends; an orchestrator would start the service again


class Cluster:
    """The servers, the way to each service, and the proxies."""

    def __init__(self, folder: Path, *, seed: int, **settings: str) -> None:
        self.postgres, self.redis = PostgresServer(), RedisServer()
        self.postgres.start()
        self.redis.start()
        self.database_url = self.postgres.new_database()
        self.proxies: list[FaultyProxy] = []
        self.services: list[ServiceProcess] = []
        self.urls: list[str] = []
        for number, name in enumerate("ab"):
            to_sql = self._proxy(self.postgres.port, seed * 10 + number)
            to_hot = self._proxy(self.redis.port, seed * 10 + 2 + number)
            service = ServiceProcess(
                folder / name,
                database_url=self.database_url.replace(str(self.postgres.port), str(to_sql.port)),
                redis_url=self.redis.url.replace(str(self.redis.port), str(to_hot.port)),
                log_level="warning",
                **settings,
            )
            self.services.append(service)
            self.urls.append(f"http://127.0.0.1:{self._proxy(service.port, seed * 10 + 4 + number).port}")

    def _proxy(self, port: int, seed: int) -> FaultyProxy:
        self.proxies.append(FaultyProxy(port, seed=seed))
        return self.proxies[-1]

    @property
    def direct(self) -> list[str]:
        return [service.url for service in self.services]

    def start(self) -> None:
        with ThreadPoolExecutor() as pool:
            list(pool.map(start, self.services))

    def disturb(self, share: float) -> None:
        for proxy in self.proxies:
            proxy.share = share

    def kill(self) -> None:
        """End everything at once, as when the power goes."""
        for service in self.services:
            if service.is_running:
                service.kill()
        for server in (self.redis, self.postgres):
            if server.is_running:
                server.kill()

    def close(self) -> None:
        self.kill()
        for proxy in self.proxies:
            proxy.close()
        for server in (self.redis, self.postgres):
            server.close()


@contextmanager
def cluster(folder: Path, *, seed: int, **settings: str) -> Iterator[Cluster]:
    with ExitStack() as stack:
        made = Cluster(folder, seed=seed, **settings)
        stack.callback(made.close)
        made.start()
        yield made


def start(service: ServiceProcess) -> None:
    for _ in range(STARTS - 1):
        try:
            service.start()
        except pytest.fail.Exception:
            if service.process.poll() is None:
                service.kill()
        else:
            return
    service.start()


class Chaos:
    """Kills a server about every second, and starts it again; wipes Redis now and then.

    A round is one of each, in random order. deeds: what was done; rounds: how many were completed.
    """

    def __init__(self, cluster: Cluster, *, seed: int) -> None:
        self.deeds: list[str] = []
        self.rounds = 0
        self.failed: BaseException | None = None
        self._cluster = cluster
        self._rng = random.Random(seed)
        self._starting: list[Future[None]] = []

    def work(self, until: threading.Event) -> None:
        """Go on until told to stop; everything runs again then."""
        try:
            with ThreadPoolExecutor() as self._starters:
                while not until.is_set():
                    self._round(until)
                self._started()
        except BaseException as error:
            self.failed = error
            raise

    def _round(self, until: threading.Event) -> None:
        deeds = [self._kill_a_service, self._kill_redis, self._kill_postgres, self._wipe_redis]
        for deed in self._rng.sample(deeds, len(deeds)):
            if until.wait(self._rng.uniform(0.5, 1.5)):
                return
            deed()
        self.rounds += 1

    def _kill_a_service(self) -> None:
        """Kill one while the other one works: somebody must answer now and then."""
        self._started()
        place = self._rng.randrange(2)
        self.deeds.append(f"service {'ab'[place]}")
        service = self._cluster.services[place]
        service.kill()
        self._starting = [self._starters.submit(start, service)]

    def _started(self) -> None:
        for starting in self._starting:
            starting.result()

    def _kill_redis(self) -> None:
        self._kill("redis", self._cluster.redis)

    def _kill_postgres(self) -> None:
        self._kill("postgres", self._cluster.postgres)

    def _kill(self, name: str, server: Server) -> None:
        self.deeds.append(name)
        server.kill()
        time.sleep(self._rng.uniform(0.0, 1.0))
        server.start()

    def _wipe_redis(self) -> None:
        self.deeds.append("flush")
        with self._cluster.redis.client() as client:
            client.flushall()
