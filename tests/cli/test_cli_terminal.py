"""On a terminal, in a pipe, and when interrupted; and what Tab offers, asked as the shells ask."""

import json
import os
import re
import subprocess

import pytest

from bots_client import Outcome, Task
from tests.cli.running import BOTS, clean_environment
from tests.cli.terminals import SOON_S, terminals

ESCAPE = "\x1b"
CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@pytest.fixture
def on_terminal(service, tmp_path):
    with terminals(tmp_path, BOTS_URL=service.url) as start:
        yield start


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
    terminal.press_ctrl_c()
    assert terminal.end() == 130
    assert "bots:" not in terminal.shown
    assert client.dataset(pool).tasks == 1


def test_a_pipe_gets_no_control_codes_and_whole_lines(bots, client):
    name = "n" * 120
    client.create_dataset(name, [Task("x")])
    shown = bots.ok("datasets", "list")
    client.delete_dataset(name)
    assert ESCAPE not in shown
    assert name in shown


def test_an_import_shows_its_progress_and_leaves_only_the_result(on_terminal, tmp_path):
    (tmp_path / "long.csv").write_text("id\n" + "".join(f"task-{number}\n" for number in range(200_000)))
    terminal = on_terminal("datasets", "import", "long.csv", "--json")
    assert terminal.end() == 0
    assert re.search(r"[1-9]\d?%, [\d,]+ rows", terminal.shown)
    assert f"{200_000:,} rows sent; the service checks and stores it" in terminal.shown
    assert json.loads(terminal.shown[terminal.shown.rindex("{\r\n") :])["tasks"] == 200_000


@pytest.mark.parametrize("command", ["datasets list", "runs list", "runs show", "tasks", "history"])
def test_what_a_command_says_on_40_columns_has_no_split_words(bots, client, on_terminal, command):
    client.create_dataset("small", [Task("x", tags=["level=hard"]), Task("y")])
    client.report("small", [Outcome.counts("x", 1, 2), Outcome.counts("y", 2, 2)])
    arguments = [*command.split(), *["small"] * (command != "datasets list")]
    terminal = on_terminal(*arguments, columns=40, NO_COLOR="1")
    assert terminal.end() == 0
    shown = CONTROL.sub("", terminal.shown)
    assert max(len(line.rstrip()) for line in shown.splitlines()) <= 40
    wide = {*words(bots.ok(*arguments))}
    client.delete_dataset("small")
    assert not [word for word in words(shown) if word not in wide]


def words(text):
    """The words of a text; not the numbers, some of which tell the time."""
    return [word for word in text.split() if word[0].isalpha()]


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


def test_bash_itself_takes_the_script_and_completes_a_command(tmp_path):
    (tmp_path / "bots").write_text(f'#!/bin/sh\nexec {" ".join(BOTS)} "$@"\n')
    (tmp_path / "bots").chmod(0o755)
    script = """
        source <(_BOTS_COMPLETE=source_bash bots)
        COMP_WORDS=(bots datasets app) COMP_CWORD=2
        _bots_completion bots
        printf '%s' "${COMPREPLY[*]}"
    """
    environment = clean_environment()
    environment["PATH"] = f"{tmp_path}:{environment['PATH']}"
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("append", "")
