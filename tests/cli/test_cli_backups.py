"""`bots export`, `bots import`, `bots prune`."""

import json

import pytest

from bots_client import Client, Outcome, Task
from tests.cli.running import CommandLine
from tests.serving import running_service


@pytest.fixture(scope="module")
def backed_up(service):
    """A dataset with three steps."""
    with Client(service.url) as client:
        client.create_dataset("backed-up", [Task(f"t{number}") for number in range(10)])
        for number in range(3):
            client.report("backed-up", [Outcome.counts(f"t{number}", 3, 8)])
    return "backed-up"


def test_what_was_exported_can_be_imported_under_another_name(bots, client, backed_up):
    assert bots.ok("export", backed_up).startswith("backed-up.botsbackup: ")
    assert bots("import", "backed-up.botsbackup", "--as", "restored", "--json").json == {
        "dataset": "restored",
        "tasks": 10,
        "runs": [{"run": "default", "seq": 3, "epoch": 0}],
    }
    restored, original = ([(one.mean, one.variance) for one in client.tasks(name)] for name in ("restored", backed_up))
    assert restored == original
    assert len(set(restored)) > 1
    assert bots("import", "backed-up.botsbackup", "--as", "restored").assert_one_line(1).count("restored") == 1
    client.delete_dataset("restored")


def test_one_run_goes_to_a_file_of_its_own(bots, client, backed_up):
    done = bots("export", backed_up, "--run", "default", "--json").json
    assert done["file"] == "backed-up.default.botsbackup"
    assert done["bytes"] == (bots.folder / done["file"]).stat().st_size
    said = bots.ok("import", done["file"], "--run", "again")
    assert said == "backed-up: 10 tasks; again at entry 3\n"
    client.delete_run(backed_up, "again")


def test_a_file_that_is_there_is_replaced_only_by_force(bots, backed_up):
    file = bots.folder / "mine"
    file.write_text("mine")
    assert "--force" in bots("export", backed_up, "-o", "mine").assert_one_line(1)
    assert file.read_text() == "mine"
    bots.ok("export", backed_up, "-o", "mine", "--force")
    assert file.read_bytes().startswith(b"BOTSBKUP")


def test_an_export_that_fails_leaves_no_file(bots):
    bots("export", "no-such-dataset").assert_one_line(1)
    assert list(bots.folder.iterdir()) == []


def test_a_file_that_was_changed_is_refused_by_what_is_wrong(bots, backed_up):
    bots.ok("export", backed_up)
    file = bots.folder / "backed-up.botsbackup"
    whole = file.read_bytes()
    file.write_bytes(whole[:-5])
    assert "the backup is truncated" in bots("import", file, "--as", "new").assert_one_line(1)
    file.write_bytes(b"id\nt1\n" * 10)
    assert "this is not a backup" in bots("import", file, "--as", "new").assert_one_line(1)


def test_pruning_says_what_goes(tmp_path):
    with running_service(tmp_path / "service", snapshot_every="2") as service, Client(service.url) as client:
        client.create_dataset("old", [Task(f"t{number}") for number in range(10)])
        for number in range(5):
            client.report("old", [Outcome.counts(f"t{number}", 3, 8)])
        bots = CommandLine(service.url, tmp_path)
        assert bots.ok("prune") == "no entry is old enough to remove\n"
        told = json.loads(bots.ok("prune", "--keep-days", "0.0000001", "--dry-run", "--json"))
        assert told == {"dry_run": True, "runs": [{"dataset": "old", "run": "default", "entries": 2, "seq": 2}]}
        said = bots.ok("prune", "--keep-days", "0.0000001").splitlines()
        assert ["old", "default", "2", "2"] in [line.split() for line in said]
