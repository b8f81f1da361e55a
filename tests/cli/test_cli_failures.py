"""Every failure is one line on stderr; the exit code is 2 for usage and 1 for all else."""

import socket
import threading

import pytest

from bots_client import Task
from bots_service.cli import service
from bots_service.cli.app import app
from tests.cli.running import CommandLine, Done
from tests.ports import free_port


@pytest.fixture
def known(client):
    """The client of a service with a dataset called "known"."""
    client.create_dataset("known", [Task("x")])
    return client


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["selct"], "Did you mean 'select'"),
        (["select", "pool"], "pass either COUNT or --want-effective"),
        (["select", "pool", "3", "--colour"], "No such option: --colour"),
        (["report", "pool"], "Missing argument 'outcome'"),
        (["report", "pool", "p1"], "'p1' is not one of"),
        (["report", "pool", "p1=nan"], "'p1=nan' is not one of"),
        (["runs", "create", "pool", "r", "--strategy", "unifrom"], "did you mean 'uniform'?"),
        (["runs", "set", "pool"], "pass at least one setting"),
        (["tasks", "pool", "--url", "ftp://example.org"], "http://"),
        (["serve", "--port", "99999"], "--port"),
        (["serve", "--database-url", "mysql://here"], "sqlite:///"),
        (["keys", "create", "x", "--scope", "read", "--dataset", "*", "--days", "soon"], "should be a valid number"),
    ],
)
def test_wrong_usage_exits_with_2(capsys, arguments, says):
    with pytest.raises(SystemExit) as left:
        app(arguments)
    written = capsys.readouterr()
    assert isinstance(left.value.code, int)
    line = Done(left.value.code, written.out, written.err).assert_one_line(2)
    assert says in line
    assert "--help" in line


def test_wrong_usage_of_the_installed_command_exits_with_2(bots):
    assert "bots select --help" in bots("select", "pool").assert_one_line(2)


@pytest.mark.parametrize("group", [[], ["runs"]])
def test_a_group_without_a_command_shows_its_commands(capsys, group):
    with pytest.raises(SystemExit) as left:
        app(group)
    written = capsys.readouterr()
    assert (left.value.code, written.err) == (0, "")
    assert "Commands" in written.out


def test_what_is_wrong_with_the_address_or_the_key_is_told_of_that_one(bots):
    assert "api_key" not in bots("datasets", "list", BOTS_URL="localhost:8765").assert_one_line(2)
    assert "url" not in bots("datasets", "list", BOTS_API_KEY="a b").assert_one_line(2)


def test_deleting_without_a_terminal_needs_a_yes(bots, known):
    known.create_dataset("kept", [Task("x")])
    assert "pass --yes" in bots("datasets", "delete", "kept").assert_one_line(1)
    bots.ok("datasets", "show", "kept")


def test_a_bad_setting_in_the_environment_is_named(bots):
    assert "BOTS_PORT" in bots("serve", BOTS_PORT="high").assert_one_line(2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["datasets", "show", "nope"], "`bots datasets list`"),
        (["datasets", "show", "knwon"], "did you mean 'known'?"),
        (["select", "known", "1", "--run", "defualt"], "did you mean 'default'?"),
        (["runs", "create", "known", "r 1"], "try 'r-1'"),
        (["runs", "show", "known", "nope"], "`bots runs list DATASET`"),
        (["rewind", "known", "7"], "`bots history DATASET`"),
        (["runs", "set", "known", "--target", "7"], "target: 7.0 is not a number in [0, 1]"),
        (["runs", "list", "nope"], "`bots datasets list`"),
    ],
)
def test_what_the_service_refuses_exits_with_1(bots, known, arguments, says):
    assert says in bots(*arguments, "--json").assert_one_line(1)


def test_a_dead_service_is_told_with_what_to_do(tmp_path):
    url = f"http://127.0.0.1:{free_port()}"
    line = CommandLine(url, tmp_path)("datasets", "list", "--json").assert_one_line(1)
    assert url in line
    assert "`bots serve`" in line


def test_a_stranger_on_the_port_is_told(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        commands = CommandLine(f"http://127.0.0.1:{listener.getsockname()[1]}", tmp_path)

        def answer():
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                page = b"<html><h1>nope</h1></html>"
                connection.sendall(b"HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\n" + page)

        thread = threading.Thread(target=answer)
        thread.start()
        line = commands("datasets", "list").assert_one_line(1)
        thread.join()
    assert "nope" in line
    assert "<" not in line
    assert "--url" in line


def test_a_defect_is_one_line_too_unless_the_traceback_is_asked_for(capsys, monkeypatch):
    def defect(**_settings):
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(service, "settings_with", defect)
    monkeypatch.delenv("BOTS_TRACEBACK", raising=False)
    with pytest.raises(SystemExit):
        app(["migrate"])
    assert capsys.readouterr().err.count("\n") == 1
    monkeypatch.setenv("BOTS_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        app(["migrate"])
