"""`bots demo` keeps its page open at the end if it runs in a terminal, and exits otherwise."""

import re
import signal

import httpx
import pytest

from tests.cli.terminals import terminals

QUICK = ("demo", "--steps", "5", "--count", "4", "--both-references")
STAYS = "Ctrl-C"


@pytest.fixture
def on_terminal(tmp_path):
    """Start the demo on a terminal of a machine without a display."""
    with terminals(tmp_path, TMPDIR=str(tmp_path), DISPLAY="", WAYLAND_DISPLAY="") as start:
        yield start


def page_of(terminal):
    return re.findall(r"still open at (http://127\.0\.0\.1:\d+)", " ".join(terminal.shown.split()))[0]


def test_the_page_stays_open_until_a_signal_and_then_all_is_gone(on_terminal, tmp_path):
    terminal = on_terminal(*QUICK)  # tests/demo/test_demo.py ends it by other signals
    terminal.read_until(STAYS)
    assert "rollouts, compared with uniform sampling" in " ".join(terminal.shown.split())
    url = page_of(terminal)
    assert httpx.get(f"{url}/overview").json()["totals"]["runs"] == 5
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.end() == 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)
    assert list(tmp_path.iterdir()) == []


def test_scripts_are_not_kept_waiting(on_terminal):
    terminal = on_terminal(*QUICK, "--exit")
    assert terminal.end() == 0
    assert STAYS not in terminal.shown
