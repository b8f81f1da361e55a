"""What requests take of each server: processor time, bytes on the wire and on the disk, round trips."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import psycopg
import redis

from benchmarks.cluster_processes import Cluster, all_at_once
from benchmarks.processor import processor_of
from benchmarks.relay import Relay, relaying
from benchmarks.running import Service
from bots_service.scaling.costs import ServerCost
from tests.servers import PostgresServer, RedisServer, running

STATISTICS_S = 11.0  # an idle backend of PostgreSQL adds its counts to the sums after 10 s
SETTLES_S = 1.5  # receipts are written after the answer; a run is looked at within a second
JOURNAL = "SELECT pg_total_relation_size('journal')"
SQL = f"""
    SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8, ({JOURNAL})::float8,
           (SELECT sum(pg_total_relation_size(oid)) FROM pg_class
            WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace)::float8 - ({JOURNAL})::float8
"""  # noqa: S608 - its parts stand here
FSYNCS = "SELECT coalesce(sum(fsyncs), 0)::float8 FROM pg_stat_io WHERE object = 'wal'"


@dataclass(frozen=True, slots=True)
class Meters:
    """Reads what the servers of a cluster took so far. waits_s: for PostgreSQL's statistics to be whole."""

    cluster: Cluster
    sql_wire: Relay
    redis_wire: Relay
    sql: "psycopg.Connection[tuple[float, ...]]"
    redis: redis.Redis
    waits_s: float

    def read(self) -> ServerCost:
        """Return what all took since they started, without what is known only later: `fsyncs`."""
        wal, journal, tables = self._row(SQL)
        info = self.redis.info("all")
        sql, hot = self.sql_wire.passed, self.redis_wire.passed
        return ServerCost(
            service_ms=1e3 * processor_of([service.process.pid for service in self.cluster.services])(),
            postgres_ms=1e3 * _with_ended(self.cluster.postgres.process.pid),
            redis_ms=1e3 * (info["used_cpu_user_main_thread"] + info["used_cpu_sys_main_thread"]),
            postgres_round_trips=sql.round_trips,
            postgres_bytes_in=sql.bytes_in,
            postgres_bytes_out=sql.bytes_out,
            redis_round_trips=hot.round_trips,
            redis_bytes_in=hot.bytes_in,
            redis_bytes_out=hot.bytes_out,
            wal_bytes=wal,
            journal_bytes=journal,
            table_bytes=tables,
            append_only_bytes=info["aof_current_size"],
        )

    def fsyncs(self) -> float:
        """Return how often the log of PostgreSQL was written to stable storage; takes some seconds."""
        time.sleep(self.waits_s)
        return self._row(FSYNCS)[0]

    def redis_memory(self) -> int:
        """Return the bytes that Redis's data take."""
        return int(self.redis.info("memory")["used_memory"])

    def _row(self, query: str) -> tuple[float, ...]:
        row = self.sql.execute(query).fetchone()
        assert row is not None
        return row


def _with_ended(pid: int) -> float:
    """Return the seconds of processor time of a process and its children, those that ended among them."""
    own = psutil.Process(pid).cpu_times()
    return processor_of([pid])() + own.children_user + own.children_system


def less(after: ServerCost, before: ServerCost) -> ServerCost:
    """Return what was taken between two readings."""
    return ServerCost(
        **{field.name: getattr(after, field.name) - getattr(before, field.name) for field in fields(ServerCost)}
    )


@contextmanager
def metered_cluster(services: int, *, waits_s: float) -> Iterator[Meters]:
    """Start so many services on a PostgreSQL and a Redis of their own, behind relays; end all at the end.

    The pages that PostgreSQL writes whole after a checkpoint are few: there is none within an hour. Redis does not
    rewrite its append-only file, so that its growth is what was written.

    Args:
        services: how many.
        waits_s: for PostgreSQL's statistics; with less than STATISTICS_S, some fsyncs are missed.
    """
    with (
        running(PostgresServer(checkpoint_timeout="1h", max_wal_size="20GB")) as postgres,
        running(RedisServer()) as hot,
        relaying(postgres.port) as sql_wire,
        relaying(hot.port) as redis_wire,
        TemporaryDirectory(prefix="bots-bench-") as folder,
        hot.client() as client,
    ):
        client.config_set("auto-aof-rewrite-percentage", 0)
        url = postgres.new_database()
        settings = {
            "database_url": url.replace(f":{postgres.port}/", f":{sql_wire.port}/"),
            "redis_url": hot.url.replace(f":{hot.port}/", f":{redis_wire.port}/"),
            "max_runs": "100000",
        }
        cluster = Cluster(postgres, hot, [Service(Path(folder), **settings) for _ in range(services)])
        try:
            cluster.start_services()
            with psycopg.connect(url, autocommit=True) as sql:
                yield Meters(cluster, sql_wire, redis_wire, sql, client, waits_s)
        finally:
            all_at_once(service.stop for service in cluster.services)
