"""A PostgreSQL with a standby that can take over."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from tests.servers import PostgresServer, running, wait_until


class PostgresStandby(PostgresServer):
    """A standby, made of its primary's data."""

    def __init__(self, primary: PostgresServer, **settings: str) -> None:
        """Copy the primary's data; it must run.

        Args:
            primary: whom it follows.
            settings: of PostgreSQL.
        """
        self._primary = primary
        super().__init__(**settings)

    def making(self) -> list[str]:
        """Return the command line that copies its primary's data."""
        whose = ["--host", "127.0.0.1", "--port", str(self._primary.port), "--username", "bots"]
        command = [str(self.binaries / "pg_basebackup"), *whose, "--pgdata", str(self.data), "--write-recovery-conf"]
        return [*command, "--checkpoint", "fast", "--no-sync"]

    def cut_off(self) -> None:
        """Let nothing more of the primary reach it."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
            connection.execute("SELECT pg_reload_conf()")
            wait_until(lambda: connection.execute("SELECT 1 FROM pg_stat_wal_receiver").fetchone() is None)

    def promote(self) -> None:
        """Make it the primary."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute("SELECT pg_promote()")


@dataclass(frozen=True, slots=True)
class Pair:
    """A primary and its standby, with a database."""

    primary: PostgresServer
    standby: PostgresStandby
    database: str

    @property
    def url(self) -> str:
        """The service's database URL: it names both servers, and the service finds out which one is the primary."""
        hosts = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
        return f"postgresql://bots@{hosts}/{self.database}?target_session_attrs=read-write"

    @property
    def standby_url(self) -> str:
        """The database at the standby."""
        return self.standby.url(self.database)

    def fail_over(self) -> None:
        """Kill the primary, and promote the standby."""
        self.primary.kill()
        self.standby.promote()


@contextmanager
def pair(*, synchronous: bool) -> Iterator[Pair]:
    """Start both.

    Args:
        synchronous: whether a commit returns only once the standby has it on its disk, too.
    """
    names = {"synchronous_standby_names": "*"} if synchronous else {}
    with running(PostgresServer()) as primary:
        database = primary.new_database().rpartition("/")[2]
        with (
            running(PostgresStandby(primary)) as standby,
            psycopg.connect(primary.url(), autocommit=True) as connection,
        ):
            for name, value in names.items():
                connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
            connection.execute("SELECT pg_reload_conf()")
            state = "sync" if synchronous else "async"
            asked = "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = %s"
            wait_until(lambda: connection.execute(asked, [state]).fetchone() is not None)
            yield Pair(primary, standby, database)
