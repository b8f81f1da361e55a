"""Commands on a terminal, as a person runs them."""

import contextlib
import os
import pty
import select
import signal
import subprocess
import time

from tests.cli.running import BOTS, clean_environment

SOON_S = 60.0
AGAIN_S = 5.0


class Terminal:
    """A command whose stdin, stdout and stderr are a terminal."""

    def __init__(self, *arguments, cwd, columns=80, **environment):
        self._end, inside = pty.openpty()
        self.process = subprocess.Popen(
            [*BOTS, *arguments],
            cwd=cwd,
            env=clean_environment(COLUMNS=str(columns), LINES="24", **environment),
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
            # A shell without job control starts background work with Ctrl-C ignored, and children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no thread runs here
        )
        os.close(inside)
        self.shown = ""

    def read_until(self, text):
        """Read until the text was shown since the last call, or the command has ended."""
        give_up = time.monotonic() + SOON_S
        while text is None or text not in self.shown:
            assert time.monotonic() < give_up, self.shown
            if not select.select([self._end], [], [], 0.1)[0]:
                continue
            try:
                part = os.read(self._end, 65536)
            except OSError:  # what Linux says once nobody has the terminal open
                part = b""
            if not part:
                assert text is None, self.shown
                return self.process.wait(SOON_S)
            self.shown += part.decode("utf-8", "replace")
        return None

    def forget(self):
        """Look only at what is shown from now on."""
        self.shown = ""

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
