"""Services that share a PostgreSQL and a Redis, all of them real and our own to kill."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.machine import ROOT
from benchmarks.running import Service
from tests.servers import PostgresServer, RedisServer, running


@dataclass(frozen=True, slots=True)
class Cluster:
    """Services and what they share. Commits wait for the disk; Redis's append-only file does not, for a second."""

    postgres: PostgresServer
    redis: RedisServer
    services: list[Service]

    @property
    def ports(self) -> list[int]:
        """Where the services answer."""
        return [service.port for service in self.services]

    def start_stores(self) -> None:
        """Start PostgreSQL and Redis; return once both answer."""
        all_at_once([self.postgres.start, self.redis.start])

    def start_services(self) -> None:
        """Start the services; return once all are ready."""
        all_at_once(service.start for service in self.services)

    def kill(self) -> None:
        """End everything at once, as losing the machine would; the system still writes its buffers."""
        all_at_once([*(service.kill for service in self.services), self.postgres.kill, self.redis.kill])


@contextmanager
def running_cluster(*, services: int, tree: Path = ROOT) -> Iterator[Cluster]:
    """Start so many services, on a PostgreSQL and a Redis of their own; end all at the end.

    Args:
        services: how many.
        tree: the checkout whose code runs.

    Raises:
        RuntimeError: a server did not start, or there is none on this machine; the message says what to do.
    """
    with (
        running(PostgresServer()) as postgres,
        running(RedisServer()) as redis,
        tempfile.TemporaryDirectory(prefix="bots-bench-") as folder,
    ):
        settings = {"database_url": postgres.new_database(), "redis_url": redis.url}
        cluster = Cluster(postgres, redis, [Service(Path(folder), tree, **settings) for _ in range(services)])
        try:
            cluster.start_services()
            yield cluster
        finally:
            all_at_once(service.stop for service in cluster.services)


def all_at_once(work: Iterable[Callable[[], None]]) -> None:
    """Do all of it side by side; return once all is done."""
    with ThreadPoolExecutor(thread_name_prefix="cluster") as threads:
        for done in [threads.submit(part) for part in work]:
            done.result()
