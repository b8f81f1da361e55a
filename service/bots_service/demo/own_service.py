"""A service of the demo's own: a child process on a free port, which goes when the demo ends."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from bots_client import Client, Retries
from bots_service.errors import BotsError

START_S = 90.0  # a cold, busy machine reads numpy, scipy and pyarrow from a slow disk
STOP_S = 10.0
POLL_S = 0.05
ADDRESS = re.compile(r"BOTS listens on (http://\S+)")


class OwnServiceError(BotsError):
    """The demo's own service did not start."""


@contextmanager
def own_service(kept_in: Path | None = None) -> Iterator[str]:
    """Start a service; gives its URL once it is ready, and stops it at the end, whatever ends the demo.

    Args:
        kept_in: folder for its database and its log, which stay there; None: they go with it.

    Raises:
        OwnServiceError: it ended or was not ready in time.
    """
    with ended_by_signals(), nullcontext(kept_in) if kept_in else TemporaryDirectory(prefix="bots-demo-") as folder:
        log = Path(folder).absolute() / "service.log"
        database = Path(folder).absolute() / "bots.db"
        serve = ["-m", "bots_service", "serve", "--port", "0", "--database-url", f"sqlite:///{database}"]
        # Not the settings of the user's own service: they could change the numbers.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("BOTS_")}
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, *serve], env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        try:
            yield ready_url(process, log)
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def ready_url(process: subprocess.Popen[bytes], log: Path) -> str:
    """Return the service's URL once it answers that it is ready."""
    give_up = time.monotonic() + START_S
    while time.monotonic() < give_up and process.poll() is None:
        said = ADDRESS.search(log.read_text("utf-8", "replace"))
        if said:
            with Client(said[1], retries=Retries(attempts=1), deadline_s=5) as client:
                if client.is_ready():
                    return said[1]
        time.sleep(POLL_S)
    lines = log.read_text("utf-8", "replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
    happened = f"was not ready within {START_S:g} s" if process.returncode is None else f"ended ({process.returncode})"
    raise OwnServiceError(f"the demo's own service {happened}: {last}")


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let a closing terminal or a supervisor end the block as Ctrl-C does, so that what it started is stopped."""

    def leave(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    signals = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    before = {number: signal.signal(number, leave) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
