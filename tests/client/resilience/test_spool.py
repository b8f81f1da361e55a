"""Reports on disk: what the spool keeps, the command that lists and sends it, and a disk that holds no more."""

import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from bots_client import Outcome, Task, __main__
from bots_client.__main__ import main
from bots_client._client import Client, unsent
from bots_client._resilience.spool import Spool, spool_folder, spool_of
from tests.client.resilience.worlds import IDS, QUICKLY_S, journalled, spool_in
from tests.serving import NOWHERE, ServiceProcess

SOON_S = 60.0


@pytest.fixture
def spool(tmp_path):
    return made_in(tmp_path)


def made_in(folder, limit_bytes=10**6):
    named = {"url": "http://here", "dataset": "guru", "run": "default"}
    return Spool(folder / "guru.db", **named, limit_bytes=limit_bytes, on_loss=print)


def a_report(key, task="math-17", selection="0-1-2-3-abc"):
    outcomes = [Outcome.counts(task, 7, 16)]
    how = {"run": "default", "selection": selection, "close_step": None, "idempotency_key": key}
    return unsent(Client.report)("guru", outcomes, **how)


def keys_in(spool):
    """Take out everything that waits; return its keys."""
    keys = []
    while (kept := spool.first()) is not None:
        keys.append(kept.headers["Idempotency-Key"])
        spool.remove(kept.position)
    return keys


def test_a_position_is_never_used_twice(spool):
    spool.add(a_report("a"), closes=True)
    spool.remove(1)
    assert spool.last_position() == 1
    assert spool.add(a_report("b"), closes=True)[0] == 2


def test_beyond_the_limit_the_oldest_go_and_the_newest_always_stays(tmp_path):
    size = len(a_report("key").body)
    spool = made_in(tmp_path, limit_bytes=3 * size)
    dropped = [spool.add(a_report(f"key-{n}"), closes=True)[1] for n in range(5)]
    assert dropped == [0, 0, 0, 1, 1]
    assert keys_in(spool) == ["key-2", "key-3", "key-4"]
    assert made_in(tmp_path, limit_bytes=1).add(a_report("key-5"), closes=True)[1] == 0


def test_one_of_two_delivers_until_it_ends_or_is_killed_forked_or_not(spool):
    spool.add(a_report("a"), closes=True)
    with spool.turn() as is_mine, made_in(spool.file.parent).turn(wait_s=0.05) as is_another_s:
        assert is_mine
        assert not is_another_s
    program = f"""
from pathlib import Path
from tests.client.resilience.test_spool import made_in
with made_in(Path({str(spool.file.parent)!r})).turn() as is_mine:
    print(is_mine, flush=True)
    input()
"""
    root = str(Path(__file__).parents[3])
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        with spool.turn() as is_mine:
            assert not is_mine
        other.kill()
    said, say = os.pipe()
    with spool.turn():
        child = os.fork()
        if child == 0:
            with made_in(spool.file.parent).turn() as is_mine:
                os.write(say, b"mine" if is_mine else b"the parent's")
            with made_in(spool.file.parent).turn(wait_s=SOON_S) as is_mine:
                os._exit(0 if is_mine else 1)
        assert os.read(said, 100) == b"the parent's"
    assert os.waitpid(child, 0)[1] == 0
    with spool.turn() as is_mine:
        assert is_mine


def test_what_was_kept_survives_kill_9_and_the_next_process_finds_it(spool):
    """A process adds reports and tells of each; it is killed at a moment that nobody chose."""
    program = f"""
import sys
from pathlib import Path
from tests.client.resilience.test_spool import a_report, made_in
spool = made_in(Path({str(spool.file.parent)!r}))
for n in range(10**6):
    spool.add(a_report(f"key-{{n}}"), closes=True)
    print(n, flush=True)
"""
    root = str(Path(__file__).parents[3])
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(20)]
        process.send_signal(signal.SIGKILL)
        told += [int(line) for line in process.stdout if line.endswith("\n")]

    kept = keys_in(spool)
    assert kept[: len(told)] == [f"key-{n}" for n in told]
    assert len(kept) - len(told) in (0, 1)


def test_each_run_of_each_service_has_a_file_that_people_can_recognise(tmp_path):
    def file_of(url, dataset, run):
        return spool_of(tmp_path, url=url, dataset=dataset, run=run, limit_bytes=1, on_loss=print).file

    names = {("u", "a", "b.c"), ("u", "a.b", "c"), ("v", "a", "b.c"), ("u", "a/../b", "ü" * 500)}
    files = [file_of(*name) for name in names]

    assert len(set(files)) == len(names)
    assert file_of("u", "a", "b.c") == file_of("u", "a", "b.c")
    assert all(file.parent == tmp_path and len(file.name) < 255 for file in files)
    assert file_of("u", "guru", "7b").name.startswith("guru.7b-")


def test_the_folder_is_the_one_asked_for_then_the_environments_then_the_users(tmp_path, monkeypatch):
    monkeypatch.setenv("BOTS_SPOOL", str(tmp_path / "environment"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert spool_folder(tmp_path / "asked") == tmp_path / "asked"
    assert spool_folder(None) == tmp_path / "environment"
    monkeypatch.delenv("BOTS_SPOOL")
    assert spool_folder(None) == tmp_path / "state" / "bots"
    assert stat.S_IMODE((tmp_path / "state" / "bots").stat().st_mode) == 0o700


def test_a_folder_that_was_asked_for_and_cannot_be_used_is_said_at_once(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="pass another folder with spool= or BOTS_SPOOL"):
        spool_folder(tmp_path / "file")


def kept_while_away(connect, service, tasks):
    bots = connect(service, report_deadline_s=0.2)
    for task in tasks:
        bots.report("guru", [Outcome.counts(task, 1, 2)])


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("BOTS_SPOOL", str(tmp_path / "spool"))


@pytest.mark.usefixtures("own_folder")
def test_what_waits_is_listed_and_sent_once_the_service_is_back(connect, tmp_path, capsys, monkeypatch):
    service = ServiceProcess(tmp_path / "service")
    kept_while_away(connect, service, ["t0", "t1", "unknown"])

    assert main(["spool", "--json"]) == 0
    [line] = json.loads(capsys.readouterr().out)
    assert (line["dataset"], line["run"], line["url"], line["waiting"]) == ("guru", "default", service.url, 3)
    with monkeypatch.context() as hurry:
        hurry.setattr(__main__, "SEND_S", 0.2)
        assert main(["spool", "--send"]) == 1
    assert "3 reports wait" in capsys.readouterr().out

    service.start()
    try:
        bots = connect(service)
        bots.direct.create_dataset("guru", [Task(task) for task in IDS])
        assert main(["spool", "--send"]) == 0
        assert journalled(bots, "guru") == ["report", "report"]
        said = capsys.readouterr().out
        assert "0 reports wait" in said
        assert "refused: 422" in said
        assert "no task 'unknown'" in said
    finally:
        service.stop()


@pytest.mark.usefixtures("own_folder")
def test_a_damaged_file_is_named_and_left_where_it_is(connect, tmp_path, capsys):
    kept_while_away(connect, ServiceProcess(tmp_path / "service"), ["t0"])
    (file,) = (tmp_path / "spool").glob("*.db")
    file.write_bytes(b"no database at all" * 1000)
    assert main(["spool", "--send"]) == 0
    assert f"{file} is damaged" in capsys.readouterr().err
    assert file.read_bytes().startswith(b"no database")


def test_a_full_disk_costs_the_report_and_says_so(connect, caplog):
    bots = connect(NOWHERE, report_deadline_s=0.1)
    spool_in(bots).file.mkdir()
    assert bots.report("guru", [Outcome.counts("t1", 1, 2)]) is None
    assert bots.health.lost == 1
    assert "a report is lost" in caplog.text


def test_a_disk_that_fills_up_while_reports_wait_costs_none_once_the_service_is_back(
    connect, service, dataset, monkeypatch
):
    bots = connect(service)
    call = unsent(Client.report)(dataset, [Outcome.counts("t0", 1, 2)], run="default", selection=None, close_step=True)
    spool_in(bots, dataset).add(call, closes=True)

    def fail(*_arguments, **_options):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Spool, "add", fail)

    assert bots.report(dataset, [Outcome.counts("t1", 1, 2)], close_step=True) is not None
    assert bots.flush(QUICKLY_S) == 0
    assert journalled(bots, dataset) == ["report", "report"]
    assert bots.health.lost == 0


def test_reports_beyond_the_limit_are_counted_as_lost(connect):
    bots = connect(NOWHERE, report_deadline_s=0.1, spool_bytes=200)
    for task in IDS[:5]:
        bots.report("guru", [Outcome.counts(task, 1, 2)])
    assert bots.health.lost + bots.health.kept == 5
    assert bots.health.lost > 0
