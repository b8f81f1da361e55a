"""Looking at what waits on a machine, and sending it when no job does."""

import json

from bots_client import Outcome, Task
from bots_client.__main__ import main
from tests.client.resilience.worlds import IDS, journalled
from tests.serving import ServiceProcess


def kept_while_away(connect, service, tasks):
    bots = connect(service, report_deadline_s=0.2)
    for task in tasks:
        bots.report("guru", [Outcome.counts(task, 1, 2)])


def test_what_waits_is_listed_and_sent_once_the_service_is_back(connect, tmp_path, capsys):
    service = ServiceProcess(tmp_path / "service")
    kept_while_away(connect, service, ["t0", "t1", "unknown"])
    folder = ["spool", "--folder", str(tmp_path / "spool")]

    assert main([*folder, "--json"]) == 0
    [line] = json.loads(capsys.readouterr().out)
    assert (line["dataset"], line["run"], line["url"], line["waiting"]) == ("guru", "default", service.url, 3)
    assert main([*folder, "--send", "--deadline-s", "0.2"]) == 1
    assert "3 reports wait" in capsys.readouterr().out

    service.start()
    try:
        bots = connect(service)
        bots.direct.create_dataset("guru", [Task(task) for task in IDS])
        assert main([*folder, "--send"]) == 0
        assert journalled(bots, "guru") == ["report", "report"]
        said = capsys.readouterr().out
        assert "0 reports wait" in said
        assert "refused: 422" in said
        assert "no task 'unknown'" in said
    finally:
        service.stop()


def test_a_damaged_file_is_named_and_left_where_it_is(connect, tmp_path, capsys):
    kept_while_away(connect, ServiceProcess(tmp_path / "service"), ["t0"])
    (file,) = (tmp_path / "spool").glob("*.db")
    file.write_bytes(b"no database at all" * 1000)

    assert main(["spool", "--folder", str(tmp_path / "spool"), "--send"]) == 0

    assert f"{file} is damaged" in capsys.readouterr().err
    assert file.read_bytes().startswith(b"no database")


def test_a_folder_that_is_none_is_said_and_not_made(tmp_path, capsys):
    (tmp_path / "file").touch()

    for name in ("file", "missing"):
        assert main(["spool", "--folder", str(tmp_path / name)]) == 2
        assert f"there is no folder {tmp_path / name}" in capsys.readouterr().err
    assert not (tmp_path / "missing").exists()
