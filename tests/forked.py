"""`bots` in processes that have its modules already: loading them takes longer than most commands, and most of a start.

One process loads them once, and forks for each command and each service, also on a terminal.
tests/cli/test_cli_service.py starts whole processes, as a person does, and so does `ServiceProcess.launch`.
"""

import atexit
import gc
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

COMMAND_S = 60.0
LOADED = [
    "bots_client", "bots_service.cli.app", "pyarrow.csv", "pyarrow.parquet", "rich.console", "rich.progress",
    "bots_service.serving.server", "bots_service.serving.starting",
]  # fmt: skip
STREAMS = ("stdin", "stdout", "stderr")

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__, *LOADED])


class ForkedProcess:
    """A process that runs `bots`, with what tests use of `subprocess.Popen`."""

    def __init__(
        self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], streams: Sequence[Path]
    ) -> None:
        """Start it.

        Args:
            arguments: of `bots`.
            folder: where it works.
            environment: all of it.
            streams: the files of its stdin, stdout and stderr; what is written is appended.
        """
        paths = [path.absolute() for path in streams]
        self._process = _context.Process(target=_command, args=(list(arguments), folder, dict(environment), paths))
        self._process.start()
        atexit.register(self.kill)  # else this process would wait for one that a test left behind

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit code, negative where a signal ended it; None while it runs."""
        return self.poll()

    def poll(self) -> int | None:
        """Return its exit code, or None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code once it has ended.

        Raises:
            subprocess.TimeoutExpired: it still runs.
        """
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("bots", timeout or 0.0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


def run(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], stdin: str = "", within_s: float = COMMAND_S
) -> tuple[int, str, str]:
    """Run `bots` with these arguments; return its exit code, and what it wrote to stdout and to stderr.

    Raises:
        TimeoutError: it took longer than `within_s` seconds.
    """
    with TemporaryDirectory() as streams:
        files = [Path(streams, name) for name in STREAMS]
        files[0].write_text(stdin, "utf-8")
        process = ForkedProcess(arguments, folder, environment, files)
        try:
            code = process.wait(within_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise TimeoutError(f"bots {' '.join(arguments)} took longer than {within_s:.0f} s") from None
        return code, files[1].read_text("utf-8"), files[2].read_text("utf-8")


def _command(arguments: list[str], folder: Path, environment: dict[str, str], files: list[Path]) -> None:
    """Become the command, as if the process had been started for it."""
    gc.freeze()  # what was loaded stays to the end
    os.setsid()  # a terminal is then its own, and so are signals to its group
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell without job control has Ctrl-C ignored
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    for number, (name, file) in enumerate(zip(STREAMS, files, strict=True)):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND
        opened = os.open(file, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
        setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))
    sys.argv[1:] = arguments
    runpy.run_module("bots_service", run_name="__main__", alter_sys=True)
