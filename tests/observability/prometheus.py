"""A real Prometheus in a process of its own."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.ports import free_port
from tests.serving import NO_AUTHORITIES, answers

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy" / "prometheus"
UNPACKED = Path(os.environ.get("TEST_PROMETHEUS", ROOT / "build/prometheus/usr/bin")).absolute()  # as make sets it
SOON_S = 60.0
EVERY_S = 1


def tool(name: str) -> str:
    path = shutil.which(name, path=f"{UNPACKED}:{os.environ['PATH']}")
    if path is None:
        raise RuntimeError(f"there is no {name} here: `make test-observability` gets it")
    return path


def promtool(*arguments: str, told: bytes = b"", folder: Path = DEPLOY) -> str:
    done = subprocess.run([tool("promtool"), *arguments], input=told, cwd=folder, capture_output=True, check=False)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said


@dataclass(frozen=True, slots=True)
class Prometheus:
    url: str

    def api(self, path: str, **query: str) -> Any:
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=query, timeout=SOON_S, verify=NO_AUTHORITIES).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression: str) -> dict[tuple[tuple[str, str], ...], float]:
        found = self.api("query", query=expression)["result"]
        return {tuple(sorted(one["metric"].items())): float(one["value"][1]) for one in found}


@contextmanager
def running_prometheus(folder: Path, ports: Sequence[int]) -> Iterator[Prometheus]:
    config = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": f"{EVERY_S}s", "evaluation_interval": f"{EVERY_S}s"}
    (job,) = config["scrape_configs"]
    del job["dns_sd_configs"], job["authorization"]
    job["static_configs"] = [{"targets": [f"127.0.0.1:{port}" for port in ports]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    (folder / "alerts.yml").write_text((DEPLOY / "alerts.yml").read_text())
    address = f"127.0.0.1:{free_port()}"
    command = [tool("prometheus"), f"--web.listen-address={address}", f"--storage.tsdb.path={folder / 'data'}"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([*command, "--config.file=prometheus.yml"], cwd=folder, stdout=log, stderr=log)
    try:
        wait_until_ready(process, f"http://{address}", folder / "prometheus.log")
        yield Prometheus(f"http://{address}")
    finally:
        process.terminate()
        process.wait(SOON_S)


def wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    give_up = time.monotonic() + SOON_S
    while process.poll() is None and time.monotonic() < give_up:
        if answers(f"{url}/-/ready"):
            return
        time.sleep(0.1)
    raise RuntimeError(f"{log.stem} was not ready: {log.read_text()[-2000:]}")
