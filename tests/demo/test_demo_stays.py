"""`bots demo` keeps its page open at the end if it runs in a terminal, and exits otherwise."""

import re
import signal
import stat

import httpx
import pytest

from tests.cli.running import CommandLine
from tests.cli.terminals import terminals
from tests.serving import running_service

QUICK = ("demo", "--steps", "5", "--count", "4", "--both-references")
STAYS = "Ctrl-C"


@pytest.fixture
def on_terminal(tmp_path):
    """Start the demo on a terminal of a machine without a display."""
    with terminals(tmp_path, TMPDIR=str(tmp_path), DISPLAY="", WAYLAND_DISPLAY="") as start:
        yield start


def page_of(terminal):
    return re.findall(r"still open at (http://127\.0\.0\.1:\d+)", " ".join(terminal.shown.split()))[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_page_stays_open_until_a_signal_and_then_all_is_gone(on_terminal, tmp_path, number):
    terminal = on_terminal(*QUICK)
    terminal.read_until(STAYS)
    assert "rollouts, compared with uniform sampling" in " ".join(terminal.shown.split())
    url = page_of(terminal)
    assert httpx.get(f"{url}/overview").json()["totals"]["runs"] == 5
    terminal.process.send_signal(number)
    assert terminal.end() == 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--exit", "--json"])
def test_scripts_are_not_kept_waiting(on_terminal, option):
    terminal = on_terminal(*QUICK, option)
    assert terminal.end() == 0
    assert STAYS not in terminal.shown


def test_without_a_terminal_nobody_is_kept_waiting(tmp_path):
    shown = CommandLine("", tmp_path)(*QUICK)
    assert shown.code == 0
    assert "rollouts, compared with uniform sampling" in shown.out
    assert "still open" not in shown.out + shown.err


@pytest.fixture(scope="module")
def on_a_service(tmp_path_factory):
    """The quick replay on one service for all that don't ask how the demo's own one begins and ends."""
    with running_service(tmp_path_factory.mktemp("service")) as service:
        yield (*QUICK, "--exit", "--url", service.url)


@pytest.fixture
def browser(tmp_path_factory):
    """A program in the browser's place, and the file into which it writes what it is to open."""
    folder = tmp_path_factory.mktemp("browser")
    program, opened = folder / "browse", folder / "opened"
    opened.touch()
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$1" >> {opened}\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {"BROWSER": f"{program} %s &"}, opened


def test_the_page_is_opened_in_the_browser_of_a_desktop(on_terminal, on_a_service, browser):
    environment, opened = browser
    terminal = on_terminal(*on_a_service, DISPLAY=":0", SSH_CONNECTION="", **environment)
    assert terminal.end() == 0
    (followed,) = re.findall(r"Follow it at (\S+)", terminal.shown)
    assert opened.read_text() == f"{followed}\n"


@pytest.mark.parametrize(
    ("more", "display"),
    [({"DISPLAY": ""}, []), ({"SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}, []), ({}, ["--no-browser"])],
    ids=["no display", "ssh", "not wanted"],
)
def test_no_browser_is_opened_where_nobody_would_see_it_or_wants_it(on_terminal, on_a_service, browser, more, display):
    environment, opened = browser
    terminal = on_terminal(*on_a_service, *display, **{"DISPLAY": ":0", "SSH_CONNECTION": "", **environment, **more})
    assert terminal.end() == 0
    assert opened.read_text() == ""
