"""Commands on a terminal, as a person runs them."""

import contextlib
import os
import pty
import select
import signal
import subprocess
import time
from pathlib import Path

from tests.cli.running import clean_environment
from tests.forked import ForkedProcess

SOON_S = 60.0
AGAIN_S = 5.0


class Terminal:
    """A command whose stdin, stdout and stderr are a terminal."""

    def __init__(self, *arguments, cwd, columns=80, **environment):
        self._end, self._inside = pty.openpty()  # the inside stays open here, as the command opens it a little later
        environment = clean_environment(COLUMNS=str(columns), LINES="24", **environment)
        self.process = ForkedProcess(arguments, cwd, environment, [Path(os.ttyname(self._inside))] * 3)
        self.shown = ""

    def read_until(self, text):
        """Read until the text was shown since the last call, or the command has ended."""
        give_up = time.monotonic() + SOON_S
        while text is None or text not in self.shown:
            assert time.monotonic() < give_up, self.shown
            has_ended = self.process.poll() is not None  # asked first: what it showed before is there now
            if select.select([self._end], [], [], 0.0 if has_ended else 0.05)[0]:
                self.shown += os.read(self._end, 65536).decode("utf-8", "replace")
            elif has_ended:
                assert text is None, self.shown
                return self.process.returncode
        return None

    def type(self, text):
        os.write(self._end, text.encode())

    def press_ctrl_c(self):
        """Interrupt the command until it ends: Python can lose the first signal on its way into reading a line."""
        give_up = time.monotonic() + SOON_S
        while self.process.poll() is None and time.monotonic() < give_up:
            os.killpg(self.process.pid, signal.SIGINT)
            # A second one would kill it on its way out, and that takes a moment on a busy machine.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(AGAIN_S)

    def stop(self):
        """End the command, and what it started, unless it has ended."""
        self.process.terminate()
        try:
            self.process.wait(AGAIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def end(self):
        """Wait until the command has ended; return its exit code."""
        code = self.read_until(None)
        os.close(self._end)
        os.close(self._inside)
        return code


@contextlib.contextmanager
def terminals(folder, **environment):
    """Give what starts commands on terminals; those that have not ended by then are stopped."""
    started = []

    def start(*arguments, **more):
        started.append(Terminal(*arguments, cwd=folder, **{**environment, **more}))
        return started[-1]

    try:
        yield start
    finally:
        for terminal in started:
            terminal.stop()
