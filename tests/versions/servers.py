"""PgBouncer in front of a PostgreSQL, a standby that can take over, and servers that speak TLS."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.server_binaries import debian_program
from tests.servers import NOBODY, PostgresServer, RedisServer, Server, can_connect, nobody, running, wait_until

SETTINGS = """
[databases]
* = host=127.0.0.1 port={server} user=bots

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
admin_users = bots
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 500
server_login_retry = 1
"""


class PgBouncer(Server):
    def __init__(self, postgres: PostgresServer, *, mode: str = "transaction", size: int = 4) -> None:
        super().__init__()
        self._postgres = postgres
        self._settings = self.folder / "pgbouncer.ini"
        self._settings.write_text(SETTINGS.format(server=postgres.port, port=self.port, mode=mode, size=size), "utf-8")

    def through(self, url: str) -> str:
        return url.replace(f":{self._postgres.port}/", f":{self.port}/")

    def command(self) -> list[str]:
        return [debian_program("usr/sbin/pgbouncer"), str(self._settings)]

    def identity(self) -> dict[str, Any]:
        return nobody()

    def answers(self) -> bool:
        return can_connect(self.through(self._postgres.url()))


class PostgresStandby(PostgresServer):
    """A standby, made of its primary's data."""

    def __init__(self, primary: PostgresServer, **settings: str) -> None:
        self._primary = primary
        super().__init__(**settings)

    def making(self) -> list[str]:
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
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute("SELECT pg_promote()")


@dataclass(frozen=True, slots=True)
class Pair:
    primary: PostgresServer
    standby: PostgresStandby
    database: str

    @property
    def url(self) -> str:
        hosts = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
        return f"postgresql://bots@{hosts}/{self.database}?target_session_attrs=read-write"

    @property
    def standby_url(self) -> str:
        return self.standby.url(self.database)

    def fail_over(self) -> None:
        self.primary.kill()
        self.standby.promote()


@contextmanager
def pair(*, synchronous: bool) -> Iterator[Pair]:
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


DAYS = "2"
EXTENSIONS = "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n"


@dataclass(frozen=True, slots=True)
class Authority:
    """An authority, with a certificate for 127.0.0.1, for servers and clients alike."""

    ca: Path
    certificate: Path
    key: Path


def authority(folder: Path) -> Authority:
    made = Authority(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    ca_key, request, extensions = folder / "ca.key", folder / "server.csr", folder / "extensions"
    extensions.write_text(EXTENSIONS, "utf-8")
    new = ["req", "-newkey", "rsa:2048", "-nodes"]
    signed: list[str | Path] = [
        "-CA",
        made.ca,
        "-CAkey",
        ca_key,
        "-CAcreateserial",
        "-days",
        DAYS,
        "-extfile",
        extensions,
    ]
    commands: list[list[str | Path]] = [
        [*new, "-x509", "-days", DAYS, "-subj", "/CN=Tests", "-keyout", ca_key, "-out", made.ca],
        [*new, "-subj", "/CN=bots", "-keyout", made.key, "-out", request],
        ["x509", "-req", "-in", request, *signed, "-out", made.certificate],
    ]
    for arguments in commands:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)
    folder.chmod(0o755)
    return made


class TlsPostgres(PostgresServer):
    """A PostgreSQL that lets nobody in without TLS."""

    def __init__(self, files: Authority) -> None:
        super().__init__(ssl="on", ssl_cert_file="server.pem", ssl_key_file="server.key")
        self._files = files
        for file in (files.certificate, files.key):
            copy = self.data / file.name
            shutil.copyfile(file, copy)
            copy.chmod(0o600)
            if os.geteuid() == 0:
                os.chown(copy, NOBODY, NOBODY)
        (self.data / "pg_hba.conf").write_text("hostssl all all 127.0.0.1/32 trust\n", "utf-8")

    def secured(self, url: str) -> str:
        """Return a URL for clients that trust the authority alone."""
        return f"{url}?sslmode=verify-full&sslrootcert={self._files.ca}"


class TlsRedis(RedisServer):
    """A Redis that lets nobody in without TLS and a certificate of the authority."""

    def __init__(self, files: Authority) -> None:
        super().__init__()
        self._files = files

    @property
    def bare_url(self) -> str:
        return f"rediss://127.0.0.1:{self.port}/0"

    @property
    def url(self) -> str:
        files = self._files
        own = f"ssl_certfile={files.certificate}&ssl_keyfile={files.key}"
        return f"{self.bare_url}?ssl_ca_certs={files.ca}&{own}"

    def command(self) -> list[str]:
        files = self._files
        ports = ["--tls-port", str(self.port), "--port", "0", "--tls-ca-cert-file", str(files.ca)]
        return [*super().command(), *ports, "--tls-cert-file", str(files.certificate), "--tls-key-file", str(files.key)]
