"""A disk that takes no more: reports are refused, selects go on, and what /readyz tells says both."""

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.api.pools import MODELS, RUN, solved, tasks
from tests.servers import wait_until
from tests.serving import ServiceProcess, running_service

NO_LIMIT = resource.RLIM_INFINITY


@contextmanager
def file_that_may_not_grow(service: ServiceProcess, folder: Path) -> Iterator[None]:
    size = (folder / "bots.db-wal").stat().st_size
    assert size > service.log.stat().st_size  # or what it logs would meet the limit, too
    resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (size, NO_LIMIT))
    yield
    resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (NO_LIMIT, NO_LIMIT))


@contextmanager
def full_disk(_service: ServiceProcess, folder: Path) -> Iterator[None]:
    with suppress(OSError), (folder / "rest").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    yield
    (folder / "rest").unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB in memory, where this user may mount one; else a folder."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() == 0:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], check=True)
    yield folder
    if os.geteuid() == 0:
        subprocess.run(["umount", "--lazy", folder], check=True)


def report(http: httpx.Client) -> int:
    return http.post("/report", json={"dataset": "guru", "outcomes": [solved(1)]}).status_code


def readiness(http: httpx.Client) -> tuple[int, str, bool, bool]:
    answer = http.get("/readyz")
    checks = answer.json()["checks"]
    return answer.status_code, answer.json()["status"], checks["sql"] == "ok", checks["sql_writes"] == "ok"


@pytest.mark.parametrize("obstacle", [file_that_may_not_grow, full_disk])
def test_a_disk_that_takes_no_more_is_told_and_so_is_that_it_does_again(tmp_path: Path, disk: Path, obstacle):
    if obstacle is full_disk and os.geteuid() != 0:
        pytest.skip("only root may mount a disk")
    url = f"sqlite:///{disk / 'bots.db'}"
    with (
        running_service(tmp_path / "service", database_url=url) as service,
        httpx.Client(base_url=service.url, timeout=60) as http,
    ):
        http.put("/datasets/guru", json={"reference_models": MODELS, "tasks": tasks(20)}).raise_for_status()
        assert report(http) == 200
        assert readiness(http) == (200, "ready", True, True)
        with obstacle(service, disk):
            wait_until(lambda: readiness(http) == (200, "degraded", True, False))
            assert report(http) == 503
            assert http.post("/select", json={"dataset": "guru", "count": 3}).status_code == 200
            assert http.get(RUN).json()["step"] == 1
        wait_until(lambda: readiness(http) == (200, "ready", True, True))
        assert report(http) == 200
