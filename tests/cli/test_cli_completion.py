"""Shell completion: what Tab offers, asked as the shells ask, through environment variables."""

import subprocess

import pytest

from bots_client import Task
from tests.cli.running import BOTS, CommandLine, clean_environment
from tests.serving import NOWHERE


@pytest.fixture
def pools(client):
    """Two datasets, one of them with two more runs."""
    for name in ("tab-maths", "tab-code"):
        client.create_dataset(name, [Task("x")])
    for run in ("first", "second"):
        client.create_run("tab-maths", run)
    yield
    for name in ("tab-maths", "tab-code"):
        client.delete_dataset(name)


def completed(bots, *words):
    """What bash offers for the last word."""
    line = {"COMP_WORDS": " ".join(["bots", *words]), "COMP_CWORD": str(len(words)), "_BOTS_COMPLETE": "complete_bash"}
    done = bots(**line)
    assert (done.code, done.err) == (0, "")
    return done.out.split()


def test_commands_options_and_choices_are_completed(bots):
    assert completed(bots, "com") == ["compare-beliefs"]
    assert completed(bots, "runs", "s") == ["show", "set"]
    assert completed(bots, "runs", "create", "d", "r", "--strategy", "s") == ["shuffle"]
    assert completed(bots, "datasets", "list", "--js") == ["--json"]


def test_names_of_datasets_and_of_their_runs_are_completed(bots, pools):
    assert completed(bots, "datasets", "show", "tab-") == ["tab-code", "tab-maths"]
    assert completed(bots, "runs", "show", "tab-ma") == ["tab-maths"]
    assert sorted(completed(bots, "runs", "show", "tab-maths", "")) == ["default", "first", "second"]
    assert completed(bots, "tasks", "tab-maths", "--run", "fi") == ["first"]
    assert completed(bots, "runs", "create", "tab-maths", "third", "--fork", "sec") == ["second"]


@pytest.mark.parametrize("url", [NOWHERE, "ftp://nonsense"])
def test_without_a_service_nothing_is_offered_and_nothing_said(tmp_path, url):
    bots = CommandLine(url, tmp_path)
    assert completed(bots, "datasets", "show", "t") == []
    assert completed(bots, "runs", "show", "tab-maths", "f") == []


def test_bash_itself_takes_the_script_and_completes_a_dataset(bots, pools, tmp_path):
    (tmp_path / "bots").write_text(f'#!/bin/sh\nexec {" ".join(BOTS)} "$@"\n')
    (tmp_path / "bots").chmod(0o755)
    script = """
        source <(_BOTS_COMPLETE=source_bash bots)
        COMP_WORDS=(bots datasets show tab-m) COMP_CWORD=3
        _bots_completion bots
        printf '%s' "${COMPREPLY[*]}"
    """
    environment = clean_environment(BOTS_URL=bots.url)
    environment["PATH"] = f"{tmp_path}:{environment['PATH']}"
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("tab-maths", "")
