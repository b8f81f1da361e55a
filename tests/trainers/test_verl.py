"""The adapter for verl, with the real package of each version in a process of its own.

An environment holds one version of verl, so the checks stand in files of their own, named here. No package is replaced:
what verl imports and the environment lacks is fetched as well. There are no GPUs here, so no weights are trained, and
vllm and its like are never imported.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.serving import running_service
from tests.trainers.recipes import folder_of

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
VERSIONS = {
    "verl==0.9.1": "verl_v1_checks.py",
    "verl==0.8.0": "verl_ray_trainer_checks.py",
    "verl==0.7.1": "verl_ray_trainer_checks.py",
}
NEEDED = [
    "aiohttp==3.14.5", "aiohappyeyeballs==2.7.1", "aiosignal==1.4.0", "cachetools==8.0.1", "codetiming==1.4.0",
    "frozenlist==1.8.0", "multidict==7.2.1", "orjson==3.13.0", "peft==0.21.2", "propcache==0.5.4", "pyzmq==27.3.0",
    "TransferQueue==0.1.11", "yarl==1.25.1",
]  # fmt: skip


@pytest.fixture(scope="module")
def checks(tmp_path_factory):
    home = tmp_path_factory.mktemp("verl")
    with running_service(home / "service") as service:
        running = {version: begin(version, home / version.replace("==", "-"), service.url) for version in VERSIONS}
        yield running
        for process, _ in running.values():
            process.kill()
            process.wait()


def begin(version: str, folder: Path, url: str) -> tuple[subprocess.Popen, Path]:
    folder.mkdir()
    paths = [folder_of(version), folder_of(*NEEDED), *map(Path, sys.path)]
    own = {
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "BOTS_URL": url,
        "BOTS_SPOOL": str(folder / "spool"),
        "HF_HOME": str(folder / "hub"),
        "RAY_worker_niceness": "0",  # else Ray's worker, at 15, hardly runs while other tests keep the processor busy
    }
    # A check that hangs says where, before this test's own time is up.
    quiet = ["-W", "ignore", "--disable-warnings", "-p", "no:cacheprovider", "--timeout=120"]
    own_fixtures = ["--noconftest", "-p", "tests.trainers.verl_training"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        *quiet,
        *own_fixtures,
        f"--basetemp={folder / 'tests'}",
        str(HERE / VERSIONS[version]),
    ]
    said = folder / "said.txt"
    with said.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **own}, stdout=output, stderr=subprocess.STDOUT
        )
    return process, said


@pytest.mark.parametrize("version", VERSIONS)
def test_the_adapter_works_with_the_real_package(checks, version):
    process, said = checks[version]
    assert process.wait() == 0, said.read_text("utf-8")
