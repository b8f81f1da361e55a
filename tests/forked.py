"""`bots` in processes that have its modules already: loading them takes longer than most commands, and most of a start.

One process loads them once, and forks for each command and each service, also on a terminal.
tests/cli/test_cli_service.py starts whole processes, as a person does, and so does `ServiceProcess.launch`.
"""

import atexit
import gc
import marshal
import multiprocessing
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import connection, reduction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

COMMAND_S = 60.0
LOADED = [
    "bots_client", "bots_service.cli.app", "pyarrow.parquet", "rich.console", "rich.progress",
    "bots_service.serving.server",
]  # fmt: skip
STREAMS = ("stdin", "stdout", "stderr")

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__, *LOADED])


class ForkedProcess:
    """A process that runs `bots`, with what tests use of `subprocess.Popen`."""

    def __init__(
        self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], streams: Sequence[Path | int]
    ) -> None:
        """Start it.

        Args:
            arguments: of `bots`.
            folder: where it works.
            environment: all of it.
            streams: the files of its stdin, stdout and stderr, to which is appended, or open descriptors of them.
        """
        given = [_Descriptor(each) if isinstance(each, int) else each.absolute() for each in streams]
        self._process = _context.Process(target=_command, args=(list(arguments), folder, dict(environment), given))
        self._process.start()
        atexit.register(self.kill)  # else this process would wait for one that a test left behind

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def sentinel(self) -> int:
        """What becomes readable when it ends."""
        return self._process.sentinel

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


class _Descriptor:
    """An open file that a process is to have too."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[Callable[[Any], int], tuple[Any]]:
        return _detached, (reduction.DupFd(self._number),)


def _detached(duplicate: Any) -> int:
    number: int = duplicate.detach()
    return number


def _command(arguments: list[str], folder: Path, environment: dict[str, str], files: list[Path | int]) -> None:
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
        opened = file if isinstance(file, int) else os.open(file, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
        setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))
    sys.argv[1:] = arguments
    runpy.run_module("bots_service", run_name="__main__", alter_sys=True)


# --- a program named `bots`, for shells ------------------------------------------------------------------------------

# Asks the tests for the command, hands its own streams on, passes signals on, and ends as the command does.
PROGRAM = """#!{python} -IS
import marshal, os, signal, socket, sys
asked = socket.socket(socket.AF_UNIX)
asked.connect({address!r})
said = marshal.dumps((sys.argv[1:], os.getcwd(), dict(os.environ)))
socket.send_fds(asked, [len(said).to_bytes(4, "big")], [0, 1, 2])
asked.sendall(said)
pid = int.from_bytes(asked.recv(4) or sys.exit("the tests could not start it"), "big")
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda number, frame: os.kill(pid, number))
code = int.from_bytes(asked.recv(4) or sys.exit("the tests are gone"), "big", signed=True)
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@contextmanager
def bots_program(folder: Path) -> Iterator[Path]:
    """Give a folder for the front of PATH: its `bots` takes a tenth of the time that the installed one does.

    Args:
        folder: where it is to lie.
    """
    folder.mkdir()
    program = folder / "bots"
    with socket.socket(socket.AF_UNIX) as listener, TemporaryDirectory() as short:  # an address has some 100 bytes
        address = f"{short}/bots"
        listener.bind(address)
        listener.listen()
        program.write_text(PROGRAM.format(python=sys.executable, address=address), "utf-8")
        program.chmod(0o755)
        asking = threading.Thread(target=_serve_programs, args=(listener,), daemon=True)
        asking.start()
        try:
            yield folder
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            asking.join()


def _serve_programs(listener: socket.socket) -> None:
    with suppress(OSError):  # it is over
        while True:
            asked, _ = listener.accept()
            threading.Thread(target=_run_for, args=(asked,), daemon=True).start()


def _run_for(asked: socket.socket) -> None:
    with asked:
        length, descriptors, _, _ = socket.recv_fds(asked, 4, 3)
        said = b""
        while len(said) < int.from_bytes(length, "big"):
            said += asked.recv(2**16)
        try:
            arguments, folder, environment = marshal.loads(said)  # noqa: S302 - our own program wrote it
            process = ForkedProcess(arguments, Path(folder), environment, descriptors)
        finally:
            for descriptor in descriptors:  # who reads them waits for all copies to be closed
                os.close(descriptor)
        with suppress(OSError):
            asked.sendall(process.pid.to_bytes(4, "big"))
        if process.sentinel not in connection.wait([process.sentinel, asked]):
            process.kill()  # who asked was killed
        code = process.wait()
        with suppress(OSError):
            asked.sendall(code.to_bytes(4, "big", signed=True))
