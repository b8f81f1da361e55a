"""On a terminal, in a pipe, and when interrupted."""

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest

from bots_client import Outcome, Task
from tests.cli.running import BOTS, clean_environment

ESCAPE = "\x1b"
COLOR = re.compile(r"\x1b\[[0-9;]*3[0-7]")
SOON_S = 30.0
AGAIN_S = 5.0


def press_ctrl_c(terminal):
    """Interrupt the command until it ends: Python can lose the first signal on its way into reading a line."""
    give_up = time.monotonic() + SOON_S
    while terminal.process.poll() is None and time.monotonic() < give_up:
        os.killpg(terminal.process.pid, signal.SIGINT)
        # A second one would kill it on its way out, and that takes a moment on a busy machine.
        with contextlib.suppress(subprocess.TimeoutExpired):
            terminal.process.wait(AGAIN_S)


class Terminal:
    """A command whose stdin, stdout and stderr are a terminal of 80 columns."""

    def __init__(self, *arguments, cwd, **environment):
        self._end, inside = pty.openpty()
        self.process = subprocess.Popen(
            [*BOTS, *arguments],
            cwd=cwd,
            env=clean_environment(COLUMNS="80", LINES="24", **environment),
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
        """Read until the text was shown, or the command has ended."""
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

    def type(self, text):
        os.write(self._end, text.encode())

    def end(self):
        """Wait until the command has ended; return its exit code."""
        code = self.read_until(None)
        os.close(self._end)
        return code


@pytest.fixture
def on_terminal(service, tmp_path):
    started = []

    def start(*arguments, **environment):
        started.append(Terminal(*arguments, cwd=tmp_path, BOTS_URL=service.url, **environment))
        return started[-1]

    yield start
    for terminal in started:
        terminal.process.kill()  # one that did not end fails its own test, not the next one
        terminal.process.wait()


@pytest.fixture
def pool(client):
    client.create_dataset("precious", [Task("x")])
    return "precious"


@pytest.mark.parametrize(("answer", "code", "is_left"), [("n\n", 1, True), ("\n", 1, True), ("y\n", 0, False)])
def test_deleting_asks(client, pool, on_terminal, answer, code, is_left):
    terminal = on_terminal("datasets", "delete", pool)
    terminal.read_until("[y/N]")
    terminal.type(answer)
    assert terminal.end() == code
    assert (pool in [dataset.name for dataset in client.datasets()]) is is_left


def test_an_interrupt_at_the_question_deletes_nothing(client, pool, on_terminal):
    terminal = on_terminal("runs", "delete", pool, "default")
    terminal.read_until("[y/N]")
    press_ctrl_c(terminal)
    assert terminal.end() == 130
    assert "bots:" not in terminal.shown
    assert client.dataset(pool).tasks == 1


def test_a_pipe_gets_no_control_codes_and_whole_lines(bots, client):
    name = "n" * 120
    client.create_dataset(name, [Task("x")])
    shown = bots.ok("datasets", "list")
    assert ESCAPE not in shown
    assert name in shown


def test_colours_are_left_out_where_they_are_not_wanted(on_terminal):
    coloured, plain = on_terminal("--help"), on_terminal("--help", NO_COLOR="1")
    assert coloured.end() == plain.end() == 0
    assert COLOR.search(coloured.shown)
    assert not COLOR.search(plain.shown)


def test_an_import_shows_its_progress_and_leaves_only_the_result(on_terminal, tmp_path):
    (tmp_path / "long.csv").write_text("id\n" + "".join(f"task-{number}\n" for number in range(200_000)))
    terminal = on_terminal("datasets", "import", "long.csv", "--json")
    assert terminal.end() == 0
    assert "rows" in terminal.shown


def test_a_closed_pipe_ends_a_command_quietly(bots, pool):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as output:
        done = subprocess.run(
            [*BOTS, "datasets", "list", "--json"],
            env=clean_environment(BOTS_URL=bots.url),
            stdout=output,
            stderr=subprocess.PIPE,
            timeout=SOON_S,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == b""


def test_a_curve_is_a_line_on_a_terminal_only(bots, client, pool, on_terminal):
    client.report(pool, [Outcome.counts("x", 1, 2)])
    client.report(pool, [Outcome.counts("x", 2, 2)])
    terminal = on_terminal("curve", pool)
    assert terminal.end() == 0
    assert "ETR █▁" in terminal.shown
    assert "█" not in bots.ok("curve", pool)
