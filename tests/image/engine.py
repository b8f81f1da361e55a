"""Containers without a daemon: buildah and podman, with settings and images of their own in `build/image`."""

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from tests.deploy.files import ROOT

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

    Args:
        command: its words.
        timeout_s: when it is ended.
        errors: what becomes of its standard error; subprocess.STDOUT puts it between the rest.

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
    """Return what a command of podman says."""
    return run("podman", *words, timeout_s=timeout_s)


def inspect(name: str) -> dict[str, Any]:
    """Return all that podman knows of an image or a container."""
    (found,) = json.loads(podman("inspect", name))
    return found


def has_image(name: str) -> bool:
    """Say whether an image is there."""
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
