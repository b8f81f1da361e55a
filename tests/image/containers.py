"""Containers without a daemon, by buildah and podman: images made here, and the services of docker-compose.yml."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.deploy.files import ROOT, compose, dockerfile, environment_example, seconds
from tests.image import trainers
from tests.servers import wait_until
from tests.serving import answers

FOLDER = ROOT / "build/image"
TOOLS = ("buildah", "debootstrap", "iptables", "podman", "runc")
COMMAND_S = 120.0
BUILD_S = 1800.0


class EngineError(Exception):
    """A command of the engine failed; the message is what it said."""


def why_not() -> str | None:
    """Return what keeps this machine from running containers as these tests do; None if nothing is known to."""
    if os.geteuid() != 0:
        return "these containers are started by root"
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    return f"{', '.join(missing)} missing: `make test-image` installs them on Debian" if missing else None


@cache
def environment() -> dict[str, str]:
    """Return the variables that lead buildah and podman to settings of these tests.

    Docker's usual limits are higher than a machine may allow that is a container itself; these are enough here.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    storage = FOLDER / "storage.conf"
    storage.write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{FOLDER}/store"\nrunroot = "{FOLDER}/run"\n', "utf-8"
    )
    # runc: it also runs where the kernel has only the older control groups.
    engine = FOLDER / "containers.conf"
    engine.write_text(
        '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=2048:2048"]\n'
        f'[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\ntmp_dir = "{FOLDER}/tmp"\n'
        f'[network]\nnetwork_backend = "netavark"\nnetwork_config_dir = "{FOLDER}/networks"\n',
        "utf-8",
    )
    return {**os.environ, "CONTAINERS_STORAGE_CONF": str(storage), "CONTAINERS_CONF": str(engine)}


def run(*command: str | Path, timeout_s: float = COMMAND_S, errors: int = subprocess.PIPE) -> str:
    """Return what a command says on standard output, without space around it.

    Raises:
        EngineError: it failed.
    """
    done = subprocess.run(
        command,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    if done.returncode != 0:
        said = f"{done.stdout[-2000:]}{(done.stderr or '')[-4000:]}"
        raise EngineError(f"{' '.join(map(str, command))}: {done.returncode}\n{said}")
    return done.stdout.strip()


def podman(*words: str, timeout_s: float = COMMAND_S) -> str:
    return run("podman", *words, timeout_s=timeout_s)


def inspect(name: str) -> dict[str, Any]:
    (found,) = json.loads(podman("inspect", name))
    return found


def has_image(name: str) -> bool:
    try:
        podman("image", "exists", name)
    except EngineError:
        return False
    return True


def build(folder: Path, tag: str, *more: str) -> None:
    """Build the image of a folder's Dockerfile, from what is there alone.

    Its format is Docker's, as the health check needs it. Steps that did not change are taken from the last build.
    """
    fixed = ("bud", "--isolation", "chroot", "--pull-never", "--layers", "--format", "docker")
    run("buildah", *fixed, *more, "--tag", tag, str(folder), timeout_s=BUILD_S)


SUITE = "bookworm"
SERVERS = "localhost/debian-servers"
IMAGE = "localhost/bots:local"
WHEELS = FOLDER / "wheels"
# The packages of each image; Debian's Python stands in for that of the Dockerfile's base.
PACKAGES = {"base": ("ca-certificates", "python3", "python3-venv"), "servers": ("postgresql", "redis-server")}
# Debian's Python is older than 3.11.3, where asyncio has it, so redis wants it.
OLD_PYTHONS_NEED = ["async-timeout>=4.0.3"]


def base_image() -> str:
    (name,) = {each["value"].split()[0] for each in dockerfile() if each["instruction"] == "FROM"}
    return f"docker.io/library/{name}"


def import_bases() -> None:
    """Make the images of Debian's packages, unless they are there."""
    wanted = {"base": base_image(), "servers": SERVERS}
    missing = {part: name for part, name in wanted.items() if not has_image(name)}
    with ThreadPoolExecutor() as pool:
        list(pool.map(unpack, missing))
    for part, name in missing.items():
        tree = FOLDER / part
        run("tar", "--create", "--file", f"{tree}.tar", "--directory", str(tree), ".", timeout_s=BUILD_S)
        podman("import", f"{tree}.tar", name, timeout_s=BUILD_S)
        tree.with_suffix(".tar").unlink()
        shutil.rmtree(tree)


def unpack(part: str) -> None:
    tree = FOLDER / part
    shutil.rmtree(tree, ignore_errors=True)
    packages = f"--include={','.join(PACKAGES[part])}"
    run("debootstrap", "--variant=minbase", packages, SUITE, tree, *mirror(), timeout_s=BUILD_S)
    for leftover in (tree / "var/cache/apt/archives").glob("*.deb"):
        leftover.unlink()
    if part == "base":
        (tree / "usr/bin/python").symlink_to("python3")  # Debian has no `python`; images of Python do


def mirror() -> list[str]:
    """Return where this machine's apt gets Debian from; nothing if it doesn't say, for debootstrap's default."""
    told = run("apt-get", "indextargets", "--format", "$(SITE) $(CODENAME) $(COMPONENT)", "Created-By: Packages")
    return [line.split()[0] for line in told.splitlines() if line.split()[1:] == [SUITE, "main"]][:1]


def requirements() -> list[str]:
    """Return what building and running our packages needs, other than themselves."""
    service, client = (
        tomllib.loads((folder / "pyproject.toml").read_text("utf-8")) for folder in (ROOT, ROOT / "client")
    )
    project = service["project"]
    wanted = [*service["build-system"]["requires"], *project["dependencies"]]
    wanted += [*client["project"]["dependencies"], *OLD_PYTHONS_NEED]
    return [each for each in wanted if not each.startswith("bots-client")]


def fetch_wheels() -> None:
    version = base_image().partition(":")[2].removesuffix("-slim")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download", "--dest", str(WHEELS)]
    kind = ["--only-binary=:all:", f"--python-version={version}", "--constraint", str(ROOT / "constraints.txt")]
    subprocess.run([*pip, *kind, *requirements()], check=True, capture_output=True, timeout=BUILD_S)


def build_image() -> None:
    settings = FOLDER / "pip.conf"
    settings.write_text("[global]\nno-index = true\nfind-links = /wheels-of-the-index\n", "utf-8")
    mounted = {WHEELS: "/wheels-of-the-index", settings: "/etc/pip.conf"}
    volumes = [word for source, target in mounted.items() for word in ("--volume", f"{source}:{target}:ro")]
    build(ROOT, IMAGE, *volumes)


def build_next(folder: Path) -> str:
    (folder / "Dockerfile").write_text(f"FROM {IMAGE}\nLABEL of=upgrade\n", "utf-8")
    build(folder, "localhost/bots:next")
    return "localhost/bots:next"


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
    return VARIABLE.sub(lambda found: VALUES.get(found[1]) or found[2] or "", text).replace("$$", "$")


def service(name: str) -> dict[str, Any]:
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
        self.name = f"{PREFIX}-{name}"
        self.image = image
        self.options = options
        self.command = command

    def start(self) -> None:
        # Health checks are asked for by the tests: podman leaves their timing to systemd, which may be missing.
        fixed = ("--detach", "--name", self.name, "--health-interval=disable")
        podman("run", *fixed, *self.options, self.image, *self.command)

    def execute(self, *command: str) -> str:
        return podman("exec", self.name, *command)

    def does(self, *command: str) -> bool:
        try:
            self.execute(*command)
        except EngineError:
            return False
        return True

    def is_well(self) -> bool:
        try:
            podman("healthcheck", "run", self.name)
        except EngineError:
            return False
        return True

    @property
    def url(self) -> str:
        (network,) = inspect(self.name)["NetworkSettings"]["Networks"].values()
        return f"http://{network['IPAddress']}:8765"

    def wait_until_ready(self) -> None:
        def is_ready() -> bool:
            assert inspect(self.name)["State"]["Running"], self.log()
            return answers(f"{self.url}/readyz")

        wait_until(is_ready, START_S)

    def stop(self) -> int:
        began = time.monotonic()
        podman("stop", self.name)
        print(f"{self.name} stopped within {time.monotonic() - began:.1f} s")
        return inspect(self.name)["State"]["ExitCode"]

    def kill(self) -> None:
        """End it at once, as a crash does; `podman start` brings it back."""
        podman("kill", "--signal", "KILL", self.name)
        podman("wait", self.name)

    def finish(self) -> int:
        return int(podman("wait", self.name))

    def log(self) -> str:
        return run("podman", "logs", self.name, errors=subprocess.STDOUT)

    def remove(self) -> None:
        podman("rm", "--force", "--ignore", "--time=0", "--volumes", self.name)


@contextmanager
def network() -> Iterator[str]:
    podman("network", "create", "--internal", PREFIX)
    try:
        yield PREFIX
    finally:
        podman("network", "rm", "--force", PREFIX)


@contextmanager
def volume(name: str) -> Iterator[str]:
    full = f"{PREFIX}-{name}"
    podman("volume", "create", full)
    try:
        yield full
    finally:
        podman("volume", "rm", "--force", full)


@contextmanager
def started(container: Container) -> Iterator[Container]:
    try:
        container.start()
        yield container
    finally:
        container.remove()


class Deployment:
    """What docker-compose.yml describes, without nginx: servers, the migration, two replicas."""

    def __init__(self, network_name: str, stack: ExitStack) -> None:
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
        for name, container in (("postgres", self.postgres), ("redis", self.redis)):
            kind, *check = service(name)["healthcheck"]["test"]
            words = ("sh", "-c", filled_in(check[0])) if kind == "CMD-SHELL" else tuple(check)
            wait_until(partial(container.does, *words), START_S)

    def migrate(self) -> None:
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
            "trainers", IMAGE, *own, "--stop-timeout=90", command=("-c", script, "http://bots:8765", dataset)
        )
