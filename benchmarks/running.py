"""Services of our own to measure: started on loopback with data in a temporary folder, and stopped."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from benchmarks.machine import ROOT
from bots_service.core.arrays import Floats
from tests.ports import free_port

STARTS_WITHIN_S = 60
STOPS_WITHIN_S = 20
IMPORTS_WITHIN_S = 300


class Service:
    """A service on one port, across restarts. folder: where its files are."""

    def __init__(self, folder: Path, tree: Path = ROOT, **settings: str) -> None:
        """Prepare a service; nothing runs yet.

        Args:
            folder: where its log lies, and its database unless the settings name another.
            tree: the checkout whose code runs.
            settings: environment variables, without their prefix BOTS_.
        """
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = folder / f"{self.port}.log"
        others = {name: value for name, value in os.environ.items() if not name.startswith("BOTS_")}
        own = {"data_dir": str(folder), **settings}
        others["PYTHONPATH"] = os.pathsep.join(str(tree / part) for part in ("service", "client"))
        self._tree = tree
        self._environment = {**others, **{f"BOTS_{name.upper()}": value for name, value in own.items()}}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process that was started last."""
        assert self._process is not None
        return self._process

    def start(self) -> None:
        """Start it, and return once it is ready, with all it leans on.

        Raises:
            RuntimeError: it was not ready in time; the message holds what it logged.
        """
        command = [sys.executable, "-m", "bots_service", "serve", "--port", str(self.port)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self._tree, env=self._environment, stdout=log, stderr=log)
        end = time.monotonic() + STARTS_WITHIN_S
        with httpx.Client(timeout=2) as client:
            while self.process.poll() is None and time.monotonic() < end:
                if self._is_ready(client):
                    return
                time.sleep(0.05)
        raise RuntimeError(f"the service was not ready: {self._log.read_text(errors='replace')[-2000:]}")

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Ask it to end, and kill it if it does not."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout=STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def peak_memory_mib(self) -> float | None:
        """Return the most memory it ever had, None where the system does not tell."""
        status = Path(f"/proc/{self.process.pid}/status")
        if not status.exists():
            return None
        peak = next(line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM"))
        return int(peak.split()[1]) / 1024

    def _is_ready(self, client: httpx.Client) -> bool:
        try:
            answer = client.get(f"{self.url}/readyz")
        except httpx.TransportError:
            return False
        return answer.is_success and answer.json()["status"] == "ready"


@contextmanager
def running_service(tree: Path = ROOT, **settings: str) -> Iterator[Service]:
    """Start a service with SQLite in a temporary folder, unless the settings say otherwise; stop it at the end.

    Raises:
        RuntimeError: it was not ready in time; the message holds what it logged.
    """
    with tempfile.TemporaryDirectory(prefix="bots-bench-") as folder:
        service = Service(Path(folder), tree, **settings)
        try:
            service.start()
            yield service
        finally:
            service.stop()


def import_pool(service: Service, dataset: str, rates: Floats) -> float:
    """Import a pool with these pass rates, [N, 2], from NDJSON; return how many seconds the service took.

    The tasks are called "0", "1", and so on.
    """
    path = service.folder / f"{dataset}.ndjson"
    with path.open("w", encoding="ascii") as lines:
        lines.write('{"reference_models":["weak","strong"]}\n')
        for task, (weak, strong) in enumerate(rates.tolist()):
            lines.write(f'{{"id":"{task}","reference_pass_rates":[{weak},{strong}]}}\n')
    start = time.perf_counter()
    with path.open("rb") as content:
        answer = httpx.put(
            f"{service.url}/datasets/{dataset}",
            content=content,
            headers={"Content-Type": "application/x-ndjson"},
            timeout=IMPORTS_WITHIN_S,
        )
    answer.raise_for_status()
    path.unlink()
    return time.perf_counter() - start


def make_run(service: Service, dataset: str, run: str, **settings: float | str) -> None:
    """Make a run with these settings."""
    answer = httpx.put(f"{service.url}/datasets/{dataset}/runs/{run}", json=settings, timeout=30)
    answer.raise_for_status()
