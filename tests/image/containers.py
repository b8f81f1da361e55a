"""Containers of the tests: one at a time, and those of docker-compose.yml together on one network."""

import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from tests.deploy.files import compose, environment_example, seconds
from tests.image import trainers
from tests.image.engine import EngineError, inspect, podman, run
from tests.image.parts import IMAGE, SERVERS
from tests.servers import wait_until
from tests.serving import NO_AUTHORITIES

PREFIX = f"bots-test-{os.getpid()}"
START_S = 120.0
VARIABLE = re.compile(r"(?<!\$)\$\{(\w+)(?::[-?]([^}]*))?\}")
# What a user fills into .env.
VALUES = {
    **environment_example(),
    "POSTGRES_PASSWORD": "made-for-postgres",
    "REDIS_PASSWORD": "made-for-redis",
    "BOTS_ADMIN_KEY": "made-for-the-operator-of-this-test",
}
# What the official image's own script does, with Debian's programs.
START_POSTGRES = """
set -eu
PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
data=$HOME/data
if [ ! -s "$data/PG_VERSION" ]; then
    echo "$POSTGRES_PASSWORD" >/tmp/password
    initdb --pgdata="$data" --encoding=UTF8 --auth=scram-sha-256 --username="$POSTGRES_USER" \\
        --pwfile=/tmp/password >/dev/null
    echo "host all all all scram-sha-256" >>"$data/pg_hba.conf"
    echo "create database $POSTGRES_DB" | postgres --single -D "$data" postgres >/dev/null
fi
exec postgres -D "$data" -c listen_addresses='*' -c unix_socket_directories=/tmp
"""


def filled_in(text: str) -> str:
    """Return a text of the compose file with its variables filled in."""
    return VARIABLE.sub(lambda found: VALUES.get(found[1]) or found[2] or "", text).replace("$$", "$")


def service(name: str) -> dict[str, Any]:
    """Return a service of docker-compose.yml."""
    return compose()["services"][name]


def options_of(name: str) -> list[str]:
    """Return podman's options for a service as docker-compose.yml has it; volumes with names are left out."""
    told = service(name)
    variables = {**(VALUES if "env_file" in told else {}), **told.get("environment", {})}
    options = [f"--env={key}={filled_in(str(value))}" for key, value in variables.items()]
    options += ["--read-only"] if told.get("read_only") else []
    options += [f"--cap-drop={each.lower()}" for each in told.get("cap_drop", [])]
    options += [f"--security-opt={each.removesuffix(':true')}" for each in told.get("security_opt", [])]
    options += [f"--volume={each['target']}" for each in told.get("volumes", []) if isinstance(each, dict)]
    if "stop_grace_period" in told:
        options.append(f"--stop-timeout={seconds(told['stop_grace_period']):.0f}")
    if "deploy" in told:
        options.append(f"--memory={told['deploy']['resources']['limits']['memory']}")
    return options


class Container:
    """A container under a name, which may be started again from another image."""

    def __init__(self, name: str, image: str, *options: str, command: tuple[str, ...] = ()) -> None:
        """Prepare it; nothing runs yet."""
        self.name = f"{PREFIX}-{name}"
        self.image = image
        self.options = options
        self.command = command

    def start(self) -> None:
        """Start it, from its image."""
        # Health checks are asked for by the tests: podman leaves their timing to systemd, which may be missing.
        fixed = ("--detach", "--name", self.name, "--health-interval=disable")
        podman("run", *fixed, *self.options, self.image, *self.command)

    def execute(self, *command: str) -> str:
        """Return what a command in it says.

        Raises:
            EngineError: it failed.
        """
        return podman("exec", self.name, *command)

    def does(self, *command: str) -> bool:
        """Say whether a command in it succeeds."""
        try:
            self.execute(*command)
        except EngineError:
            return False
        return True

    def is_well(self) -> bool:
        """Say what the image's health check says."""
        try:
            podman("healthcheck", "run", self.name)
        except EngineError:
            return False
        return True

    @property
    def url(self) -> str:
        """The address of its service, from outside."""
        (network,) = inspect(self.name)["NetworkSettings"]["Networks"].values()
        return f"http://{network['IPAddress']}:8000"

    def wait_until_ready(self) -> None:
        """Return once its service is ready."""

        def is_ready() -> bool:
            assert inspect(self.name)["State"]["Running"], self.log()
            try:
                return httpx.get(f"{self.url}/readyz", timeout=5, verify=NO_AUTHORITIES).is_success
            except httpx.TransportError:
                return False

        wait_until(is_ready, START_S)

    def stop(self) -> int:
        """End it as the engine does, by its signal first, and return its exit code."""
        began = time.monotonic()
        podman("stop", self.name)
        print(f"{self.name} stopped within {time.monotonic() - began:.1f} s")
        return inspect(self.name)["State"]["ExitCode"]

    def kill(self) -> None:
        """End it at once, as a crash does; `podman start` brings it back."""
        podman("kill", "--signal", "KILL", self.name)
        podman("wait", self.name)

    def finish(self) -> int:
        """Wait for its end, and return its exit code."""
        return int(podman("wait", self.name))

    def log(self) -> str:
        """Return what it wrote."""
        return run("podman", "logs", self.name, errors=subprocess.STDOUT)

    def remove(self) -> None:
        """Remove it with its unnamed volumes, whatever it does."""
        podman("rm", "--force", "--ignore", "--time=0", "--volumes", self.name)


@contextmanager
def network() -> Iterator[str]:
    """Make a network without a way out, as docker-compose.yml's `inside`; yield its name."""
    podman("network", "create", "--internal", PREFIX)
    try:
        yield PREFIX
    finally:
        podman("network", "rm", "--force", PREFIX)


@contextmanager
def volume(name: str) -> Iterator[str]:
    """Make a volume, and remove it in the end; yield its name."""
    full = f"{PREFIX}-{name}"
    podman("volume", "create", full)
    try:
        yield full
    finally:
        podman("volume", "rm", "--force", full)


@contextmanager
def started(container: Container) -> Iterator[Container]:
    """Start a container, and remove it in the end."""
    try:
        container.start()
        yield container
    finally:
        container.remove()


class Deployment:
    """What docker-compose.yml describes, without nginx: servers, the migration, two replicas."""

    def __init__(self, network_name: str, stack: ExitStack) -> None:
        """Start all of it; `stack` removes it."""
        self.image = IMAGE
        self._inside = f"--network={network_name}"
        self._stack = stack
        data = {name: stack.enter_context(volume(name)) for name in ("postgres", "redis")}
        self.postgres = self._server(
            "postgres", f"--volume={data['postgres']}:/var/lib/postgresql", command=("sh", "-c", START_POSTGRES)
        )
        self.redis = self._server(
            "redis",
            f"--volume={data['redis']}:/var/lib/redis",
            "--workdir=/var/lib/redis",
            command=tuple(shlex.split(filled_in(service("redis")["command"]))),
        )
        self.wait_for_servers()
        self.migrate()
        self.replicas = [self._add(self.replica(number)) for number in (1, 2)]
        for replica in self.replicas:
            replica.wait_until_ready()

    def _server(self, name: str, *options: str, command: tuple[str, ...]) -> Container:
        own = (*options_of(name), self._inside, f"--network-alias={name}", f"--user={name}")
        return self._add(Container(name, SERVERS, *own, *options, command=command))

    def _add(self, container: Container) -> Container:
        return self._stack.enter_context(started(container))

    def wait_for_servers(self) -> None:
        """Return once the compose file's health checks of both servers succeed."""
        for name, container in (("postgres", self.postgres), ("redis", self.redis)):
            kind, *check = service(name)["healthcheck"]["test"]
            words = ("sh", "-c", filled_in(check[0])) if kind == "CMD-SHELL" else tuple(check)
            wait_until(partial(container.does, *words), START_S)

    def migrate(self) -> None:
        """Run the job that brings the tables to the newest revision."""
        job = Container("migrate", self.image, *options_of("migrate"), self._inside, command=("migrate",))
        with started(job):
            assert job.finish() == 0, job.log()

    def replica(self, number: int) -> Container:
        """Return a replica of this image, not started: others find all of them under the name `bots`."""
        return Container(f"bots-{number}", self.image, *options_of("bots"), self._inside, "--network-alias=bots")

    def trainers(self, dataset: str) -> Container:
        """Return trainers at this deployment, not started: a program in the image, which has the client."""
        own = (self._inside, "--read-only", f"--env=BOTS_API_KEY={VALUES['BOTS_ADMIN_KEY']}", "--entrypoint=python")
        script = Path(trainers.__file__).read_text("utf-8")
        return Container(
            "trainers", IMAGE, *own, "--stop-timeout=90", command=("-c", script, "http://bots:8000", dataset)
        )
