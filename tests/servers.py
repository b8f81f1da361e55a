"""Real PostgreSQL and Redis servers, children of the tests, on free ports of this machine's loopback."""

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psutil
import psycopg
import redis
from psycopg import sql

from tests.ports import free_port, release
from tests.server_binaries import environment, postgres_binaries, redis_executable

START_S = 60.0
NOBODY = 65534  # PostgreSQL refuses to run as root


class Server:
    """A server process, across restarts. Subclasses say how it starts and when it answers."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="bots-server-"))
        self.folder.chmod(0o755)
        self.port = free_port()
        self.log = self.folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment(),
                start_new_session=True,
                **self.identity(),
            )
        give_up = time.monotonic() + START_S
        while time.monotonic() < give_up and self.is_running:
            if self.answers():
                return
            time.sleep(0.02)
        self.kill()
        raise RuntimeError(f"{self.command()[0]} did not start:\n{self.log.read_text()[-4000:]}")

    def kill(self) -> None:
        """End it and its children at once, as a crash of the machine does; return once all are gone."""
        processes = self._stopped()
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()
        wait_until(lambda: not any(map(_is_alive, processes)))

    def hang(self) -> None:
        """Stop it and its children in their tracks: connections stay open, and nothing is answered."""
        self._stopped()

    def resume(self) -> None:
        """Let it go on after `hang`."""
        for process in reversed(self._family()):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()

    def close(self) -> None:
        if self.is_running:
            self.kill()
        shutil.rmtree(self.folder)
        release(self.port)

    def command(self) -> list[str]:
        raise NotImplementedError

    def identity(self) -> dict[str, Any]:
        return {}

    def answers(self) -> bool:
        raise NotImplementedError

    def _family(self) -> list[psutil.Process]:
        """Return the process and its descendants: PostgreSQL's have sessions of their own, so no group holds all."""
        if not self.is_running:
            return []
        parent = psutil.Process(self.process.pid)
        return [parent, *parent.children(recursive=True)]

    def _stopped(self) -> list[psutil.Process]:
        """Stop the process, so that it makes no more children, then these; return all."""
        if self.is_running:
            self.process.send_signal(signal.SIGSTOP)
        family = self._family()
        for process in family[1:]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()
        return family


class RedisServer(Server):
    """A Redis with an append-only file, and `noeviction`."""

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url, socket_timeout=5)

    def command(self) -> list[str]:
        options = ["--port", self.port, "--bind", "127.0.0.1", "--dir", self.folder, "--appendonly", "yes"]
        return [redis_executable(), *map(str, options), "--save", ""]

    def answers(self) -> bool:
        try:
            with redis.Redis.from_url(self.url, socket_timeout=1) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False


class PostgresServer(Server):
    """A PostgreSQL with its own data, and as many databases as are asked for."""

    def __init__(self, **settings: str) -> None:
        super().__init__()
        self.data = self.folder / "data"
        self.binaries = postgres_binaries(self.folder)
        self._settings = settings
        self._numbers = itertools.count()
        if os.geteuid() == 0:
            os.chown(self.folder, NOBODY, NOBODY)
        made = subprocess.run(self.making(), capture_output=True, check=False, env=environment(), **self.identity())
        if made.returncode != 0:
            self.close()
            raise RuntimeError(f"its data could not be made:\n{made.stderr.decode()}")

    def making(self) -> list[str]:
        options = ["--username", "bots", "--auth", "trust", "--no-sync", "--encoding", "UTF8", "--locale", "C"]
        return [str(self.binaries / "initdb"), "--pgdata", str(self.data), *options]

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://bots@127.0.0.1:{self.port}/{database}"

    def new_database(self, *, like: str | None = None) -> str:
        """Create a database, empty or a copy of the one at a URL, and return its URL."""
        name = f"made_{next(self._numbers)}"
        template = "template1" if like is None else like.rpartition("/")[2]
        how = "CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY"  # through the log, as by default, takes half longer
        create = sql.SQL(how).format(sql.Identifier(name), sql.Identifier(template))
        self._execute(create)
        return self.url(name)

    def drop_database(self, url: str) -> None:
        name = url.rpartition("/")[2]
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def command(self) -> list[str]:
        settings = {"listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": "", **self._settings}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(self.binaries / "postgres"), "-D", str(self.data), *options]

    def identity(self) -> dict[str, Any]:
        return nobody()

    def answers(self) -> bool:
        return can_connect(self.url())

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)


def nobody() -> dict[str, Any]:
    """Return the user for servers that refuse to run as root, as keyword arguments of Popen."""
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


def can_connect(url: str) -> bool:
    try:
        with psycopg.connect(url, connect_timeout=2) as connection:
            connection.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


AnyServer = TypeVar("AnyServer", bound=Server)


@contextmanager
def running(server: AnyServer) -> Iterator[AnyServer]:
    try:
        server.start()
        yield server
    finally:
        server.close()


def wait_until(is_so: Callable[[], bool], seconds: float = 30.0) -> None:
    """Return once it is so."""
    give_up = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < give_up
        time.sleep(0.02)


def _is_alive(process: psutil.Process) -> bool:
    # A process whose parent was killed may wait for long to be collected; it holds nothing any more.
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
