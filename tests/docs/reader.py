"""A reader who does what a page says: in one shell, in one Python, with files saved where the page asks for it."""

import doctest
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.docs.blocks import Block
from tests.serving import answers

ENDS_S = 60.0
READY_S = 900.0  # `make serve` in a fresh clone installs first
SHOWN_URL = "http://127.0.0.1:8765"  # where the pages say the service is
END = "--- the end of a block ---"
# Runs one block after the other from files that it is given the names of, all in one namespace.
PYTHON_SESSION = f"""
import sys
session = {{"__name__": "__main__"}}
for line in sys.stdin:
    place, _, name = line.rstrip("\\n").partition("\\t")
    page, _, first = place.rpartition(":")
    exec(compile("\\n" * (int(first) - 1) + open(name, encoding="utf-8").read(), page, "exec"), session)
    print({END!r}, flush=True)
"""


class ExampleError(AssertionError):
    """A block failed, or printed something else than its page says."""


class Reader:
    """One who reads one page. Each block is run as it is, with the service's address in place of SHOWN_URL."""

    def __init__(
        self, page: str, folder: Path, environment: Mapping[str, str], *, url: str = SHOWN_URL, block_s: float = 180
    ) -> None:
        self._page, self._folder, self._environment, self._url = page, folder, dict(environment), url
        self._block_s = block_s
        self._notes = Path(tempfile.mkdtemp(prefix="reader-"))
        self._sessions: dict[str, subprocess.Popen[str]] = {}
        self._others: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """End whatever the page started."""
        for session in self._sessions.values():
            try:
                session.communicate(timeout=ENDS_S)
            except subprocess.TimeoutExpired:
                session.kill()
                session.communicate()
        for other in self._others:
            if other.poll() is None:
                os.killpg(other.pid, signal.SIGINT)  # Ctrl-C reaches all that the terminal's command started
            other.wait(timeout=ENDS_S)
        shutil.rmtree(self._notes)

    def do(self, block: Block) -> str:
        """Do what a block asks for, and return what it printed."""
        code = block.code.replace(SHOWN_URL, self._url)
        if block.saved_as is not None:
            (self._folder / block.saved_as).write_text(code, "utf-8")
            return ""
        if block.ready_at is not None:
            self._begin(code, block)
            return ""
        printed = self._run(code, block)
        wanted = (block.prints or "").replace(SHOWN_URL, self._url)
        if block.prints is not None and not same(wanted, printed):
            raise ExampleError(f"{self._place(block)} prints\n{printed}\nthe page says\n{wanted}")
        return printed

    def _place(self, block: Block) -> str:
        return f"{self._page}:{block.line}"

    def _begin(self, code: str, block: Block) -> None:
        """Start a command in a terminal of its own, and wait until it is ready."""
        log = self._notes / f"{block.line}.log"
        with log.open("wb") as said:
            other = subprocess.Popen(
                ["bash", "-c", code], cwd=self._folder, env=self._environment, stdout=said, stderr=said, process_group=0
            )
        self._others.append(other)
        assert block.ready_at is not None
        address, give_up = block.ready_at.replace(SHOWN_URL, self._url), time.monotonic() + READY_S
        while time.monotonic() < give_up and other.poll() is None:
            if answers(address):
                return
            time.sleep(0.2)
        raise ExampleError(f"{self._place(block)}: {address} does not answer\n{log.read_text('utf-8')[-4000:]}")

    def _run(self, code: str, block: Block) -> str:
        """Run a block in the page's session of its language; return what it wrote to stdout."""
        file, errors = self._notes / f"{block.line}.code", self._notes / f"{block.language}.errors"
        file.write_text(code, "utf-8")
        session = self._sessions.get(block.language) or self._session(block.language, errors)
        assert session.stdin is not None
        assert session.stdout is not None
        order = f"source {file} </dev/null\nprintf '\\n%s\\n' '{END}'\n"
        if block.language == "python":
            order = f"{self._place(block)}\t{file}\n"
        with suppress(BrokenPipeError):  # what ended it says so below
            session.stdin.write(order)
            session.stdin.flush()
        printed: list[str] = []
        too_late = threading.Timer(self._block_s, session.kill)
        too_late.start()
        try:
            for line in session.stdout:
                if line.rstrip("\n") == END:
                    return "".join(printed)
                printed.append(line)
        finally:
            too_late.cancel()
        said = "".join(printed) + errors.read_text("utf-8")
        raise ExampleError(f"{self._place(block)}: failed\n{code}\n{said[-4000:]}")

    def _session(self, language: str, errors: Path) -> "subprocess.Popen[str]":
        if language == "bash":
            command = ["bash", "-euo", "pipefail"]
            environment = self._environment
        else:
            path = self._run('printf %s "$PATH"', Block("bash", "", 0)).strip()
            command, environment = ["python", "-u", "-c", PYTHON_SESSION], {**self._environment, "PATH": path}
            command[0] = shutil.which("python", path=path) or "python"
        with errors.open("w") as said:
            session = subprocess.Popen(
                command, cwd=self._folder, env=environment, text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said,
            )  # fmt: skip
        self._sessions[language] = session
        return session


def same(wanted: str, printed: str) -> bool:
    """Say whether a block printed what its page says; `...` stands for anything, and blanks are all alike."""
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(f"{wanted.strip()}\n", f"{printed.strip()}\n", options)
