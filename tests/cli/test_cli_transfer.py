"""`bots export`, `bots import`, `bots prune`, `bots compare-beliefs`."""

import json

import pytest

from bots_client import Client, Outcome, Task
from tests.cli.running import CommandLine
from tests.serving import running_service


@pytest.fixture(scope="module")
def trained(service):
    """A dataset with three steps."""
    with Client(service.url) as client:
        client.create_dataset("trained", [Task(f"t{number}", (number / 10,)) for number in range(10)], ["weak"])
        for number in range(3):
            client.report("trained", [Outcome.counts(f"t{number}", 3, 8)])
    return "trained"


def test_a_run_is_exported_and_imported_under_another_name_and_belief(bots, client, trained):
    done = bots("export", trained, "--json").json
    assert done["file"] == "trained.default.ndjson"
    assert done["bytes"] == (bots.folder / done["file"]).stat().st_size
    assert bots.ok("import", done["file"], "--run", "again") == "again of trained: 3 entries\n"
    assert list(client.tasks(trained, "again")) == list(client.tasks(trained))
    made = bots("import", done["file"], "--run", "bots", "--belief", "bots", "--json").json
    assert made == {"dataset": "trained", "run": "bots", "seq": 3, "epoch": 0}
    assert client.run(trained, "bots").settings.belief == "bots"
    assert "journal entries" in bots("import", done["file"]).assert_one_line(1)
    for name in ("again", "bots"):
        client.delete_run(trained, name)


def test_a_file_that_is_there_is_not_replaced(bots, trained):
    file = bots.folder / "mine"
    file.write_text("mine")
    assert "already exists" in bots("export", trained, "-o", "mine").assert_one_line(1)
    assert file.read_text() == "mine"


def test_an_export_that_fails_leaves_no_file(bots):
    bots("export", "no-such-dataset").assert_one_line(1)
    assert list(bots.folder.iterdir()) == []


def test_a_file_that_was_changed_is_refused_by_what_is_wrong(bots, trained):
    bots.ok("export", trained)
    file = bots.folder / "trained.default.ndjson"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))
    assert "has 2 entries, and its header says 3" in bots("import", file, "--run", "new").assert_one_line(1)
    for text in ("id\nt1\n", '{"id": "t1"}\n', "[1]\n"):
        file.write_text(text)
        assert "no exported run" in bots("import", file, "--run", "new").assert_one_line(1)


def test_beliefs_are_compared(bots, client, trained):
    found = bots("compare-beliefs", trained, "--json").json
    assert (found["steps"], found["rollouts"]) == (3, 24.0)
    assert [one["belief"] for one in found["beliefs"]] == ["this run", "tracker", "bots"]
    own = list(client.history(trained))
    assert found["beliefs"][0]["log_loss"] == pytest.approx(sum(step.log_loss for step in own) / 3)
    assert found["beliefs"][0]["brier"] == pytest.approx(sum(step.brier for step in own) / 3)
    assert found["beliefs"][1]["log_loss"] == found["beliefs"][0]["log_loss"]
    assert found["beliefs"][2]["log_loss"] != found["beliefs"][0]["log_loss"]
    said = bots.ok("compare-beliefs", trained)
    assert "log loss" in said
    assert "steps with outcomes: 3" in said
    client.put_predictions(trained, "probe", {f"t{number}": 0.5 for number in range(9)})
    client.create_run(trained, "seeing")
    client.report(trained, [Outcome.counts("t1", 3, 8)], run="seeing")
    assert bots("compare-beliefs", trained, "--run", "seeing", "--json").json["steps"] == 1
    client.delete_run(trained, "seeing")


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
