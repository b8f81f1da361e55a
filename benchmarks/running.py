"""A service of our own to measure: started on loopback with a temporary database, and stopped."""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.machine import ROOT
from bots_service.core.arrays import Floats

STARTS_WITHIN_S = 60
IMPORTS_WITHIN_S = 300


@dataclass(frozen=True, slots=True)
class Running:
    """A service that runs. folder: where its files are."""

    port: int
    process_id: int
    folder: Path

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    def peak_memory_mib(self) -> float | None:
        """Return the most memory it ever had, None where the system does not tell."""
        status = Path(f"/proc/{self.process_id}/status")
        if not status.exists():
            return None
        peak = next(line for line in status.read_text(encoding="ascii").splitlines() if line.startswith("VmHWM"))
        return int(peak.split()[1]) / 1024


@contextmanager
def running_service() -> Iterator[Running]:
    """Start the service with SQLite in a temporary folder; stop it at the end.

    Raises:
        RuntimeError: it does not answer in time; the message holds what it logged.
    """
    with tempfile.TemporaryDirectory(prefix="bots-bench-") as name:
        folder, port = Path(name), free_port()
        environment = {**os.environ, "BOTS_DATA_DIR": name}
        command = [sys.executable, "-m", "bots_service", "serve", "--port", str(port)]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        try:
            running = Running(port, process.pid, folder)
            wait_for(running, process)
            yield running
        finally:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(running: Running, process: subprocess.Popen[bytes]) -> None:
    """Return once the service is ready."""
    end = time.monotonic() + STARTS_WITHIN_S
    while process.poll() is None and time.monotonic() < end:
        try:
            if httpx.get(f"{running.url}/readyz", timeout=2).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise RuntimeError(f"the service did not start: {(running.folder / 'log').read_text(errors='replace')[-2000:]}")


def import_pool(running: Running, dataset: str, rates: Floats) -> float:
    """Import a pool with these pass rates, [N, 2], from Parquet; return how many seconds the service took.

    The tasks are called "0", "1", and so on.
    """
    path = running.folder / f"{dataset}.parquet"
    flat = pa.array(rates.ravel())
    offsets = pa.array(range(0, 2 * len(rates) + 1, 2), pa.int32())
    columns = {
        "id": pa.array(map(str, range(len(rates)))),
        "reference_pass_rates": pa.ListArray.from_arrays(offsets, flat),
    }
    pq.write_table(pa.table(columns), path)
    start = time.perf_counter()
    with path.open("rb") as content:
        answer = httpx.put(
            f"{running.url}/datasets/{dataset}",
            params={"reference_model": ["weak", "strong"]},
            content=content,
            headers={"Content-Type": "application/vnd.apache.parquet"},
            timeout=IMPORTS_WITHIN_S,
        )
    answer.raise_for_status()
    path.unlink()
    return time.perf_counter() - start


def make_run(running: Running, dataset: str, run: str) -> None:
    """Make a run whose leases end soon, so that one load leaves none to the next."""
    answer = httpx.put(f"{running.url}/datasets/{dataset}/runs/{run}", json={"lease_seconds": 1.0}, timeout=30)
    answer.raise_for_status()
