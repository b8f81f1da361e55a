"""A disk that takes no more: reports are refused, selects go on, and what /readyz tells says both."""

import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.api.pools import MODELS, RUN, solved, tasks
from tests.servers import wait_until
from tests.serving import ServiceProcess, running_service

NO_LIMIT = resource.RLIM_INFINITY


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a file system of 4 MiB in memory, and fill what is left of it with `fill`."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(disk: Path) -> Path:
    """Fill a disk to its last byte."""
    rest = disk / "rest"
    with rest.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return rest


def report(http: httpx.Client) -> int:
    return http.post("/report", json={"dataset": "guru", "outcomes": [solved(1)]}).status_code


@contextmanager
def prepared(service: ServiceProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=60) as http:
        http.put("/datasets/guru", json={"reference_models": MODELS, "tasks": tasks(20)}).raise_for_status()
        assert report(http) == 200
        assert readiness(http) == (200, "ready", True, True)
        yield http


def readiness(http: httpx.Client) -> tuple[int, str, bool, bool]:
    """Return status, word, and whether SQL can be read and written."""
    answer = http.get("/readyz")
    checks = answer.json()["checks"]
    return answer.status_code, answer.json()["status"], checks["sql"] == "ok", checks["sql_writes"] == "ok"


def require_reading_only(http: httpx.Client) -> None:
    wait_until(lambda: readiness(http) == (200, "degraded", True, False))
    assert report(http) == 503
    assert http.post("/select", json={"dataset": "guru", "count": 3}).status_code == 200
    assert http.get(RUN).json()["step"] == 1


def require_all(http: httpx.Client) -> None:
    wait_until(lambda: readiness(http) == (200, "ready", True, True))
    assert report(http) == 200


def test_a_file_that_may_not_grow_is_told_and_so_is_that_it_may_again(tmp_path: Path):
    with running_service(tmp_path) as service, prepared(service) as http:
        wal = tmp_path / "bots.db-wal"
        size = wal.stat().st_size
        assert size > service.log.stat().st_size  # or what it logs would meet the limit, too
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (size, NO_LIMIT))
        require_reading_only(http)
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (NO_LIMIT, NO_LIMIT))
        require_all(http)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a disk; the test above limits a file instead")
def test_a_full_disk_is_told_and_so_is_room_on_it(tmp_path: Path):
    with small_disk(tmp_path / "disk") as disk:
        url = f"sqlite:///{disk / 'bots.db'}"
        with running_service(tmp_path / "service", database_url=url) as service, prepared(service) as http:
            rest = fill(disk)
            require_reading_only(http)
            rest.unlink()
            require_all(http)
