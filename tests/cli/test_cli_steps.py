"""One training run by hand, through every command; moved to a file and back."""

import re
from itertools import count
from typing import Any

import pytest

from bots_client import Client, Outcome, Task

NAMES = (f"pool-{number}" for number in count())
ROWS = [("p1", 0.25, 0.875, "easy"), ("p2", 0.0, 0.5, "hard"), ("p3", 0.5, 1.0, "hard"), ("p4", 0.125, 0.25, "")]


@pytest.fixture
def pool(client):
    """A dataset of four tasks."""
    name = next(NAMES)
    tasks = [Task(task, (weak, strong), [tag] if tag else []) for task, weak, strong, tag in ROWS]
    client.create_dataset(name, tasks, reference_models=["weak", "strong"])
    return name


def test_datasets_are_listed_and_described(bots, pool):
    found = bots("datasets", "show", pool, "--json").json
    assert found["reference_models"] == ["weak", "strong"]
    assert found["tags"] == {"easy": 1, "hard": 2}
    assert found in bots("datasets", "list", "--json").json["datasets"]
    assert pool in bots.ok("datasets", "list")
    assert re.search(r"\ntags *\n  easy +1 *\n  hard +2", bots.ok("datasets", "show", pool))


def test_what_is_selected_and_reported_becomes_a_belief_and_history(bots, client, pool):
    client.create_run(pool, "default", belief="bots")
    selection = bots("select", pool, 2, "--json").json
    first, second = (task["id"] for task in selection["tasks"])
    outcomes = [f"{first}=7/16", f"{second}=0,1,0.5", "p4=aborted"]
    receipt = bots("report", pool, *outcomes, "--selection", selection["selection_id"], "--json").json
    assert (receipt["closed"], receipt["step"], receipt["reported"], receipt["effective"]) == (True, 1, 2, 2)

    tried = {row["id"]: row for row in bots("tasks", pool, first, second, "--json").json["tasks"]}
    assert (tried[first]["attempts"], tried[second]["attempts"]) == (16, 3)
    assert tried[second]["alpha"] == pytest.approx(1 + 1.5)
    nearest = bots("tasks", pool, "--sort", "distance", "--limit", 1, "--json").json["tasks"]
    assert len(nearest) == 1

    (step,) = bots("history", pool, "--json").json["history"]
    assert step["success_rate"] == pytest.approx((7 + 1.5) / 19)
    assert step["rollouts"] == 19
    for readable in (bots.ok("tasks", pool), bots.ok("history", pool), bots.ok("runs", "show", pool)):
        assert readable.strip()


def test_what_was_measured_and_that_a_run_is_finished_is_shown(bots, client, pool):
    assert "measured" not in bots.ok("runs", "list", pool)
    client.evaluate(pool, {"heldout/accuracy": 0.25}, step=3)
    bots.ok("runs", "finish", pool)
    shown = bots("runs", "show", pool, "--json").json
    assert (shown["status"], shown["evaluations"]) == ("finished", {"heldout/accuracy": [[3, 0.25]]})
    (listed,) = bots("runs", "list", pool, "--json").json["runs"]
    assert (listed["status"], listed["evaluation"]) == ("finished", shown["evaluation"])
    for readable in (bots.ok("runs", "list", pool), bots.ok("runs", "show", pool)):
        assert "finished" in readable
        assert "heldout/accuracy" in readable


def test_a_run_is_shown_with_what_its_belief_estimates(bots, pool):
    bots.ok("runs", "create", pool, "tracked", "--belief", "tracker")
    bots.ok("report", pool, "p1=16/16", "p2=16/16", "--run", "tracked")
    estimates = bots("runs", "show", pool, "tracked", "--json").json["estimates"]
    lines = bots.ok("runs", "show", pool, "tracked").splitlines()
    shown = {line.strip().split("  ")[0]: line.split()[-1] for line in lines}
    assert estimates["ability"] > 0
    for name, value in estimates.items():
        assert float(shown[name]) == pytest.approx(value, abs=1e-4)


def test_tasks_of_one_segment_are_shown_with_the_counts_of_all(bots, client, pool):
    client.report(pool, [Outcome.counts("p1", 0, 4), Outcome.counts("p2", 1, 2)])
    found = bots("tasks", pool, "--segment", "unsolved", "--json").json
    assert [(task["id"], task["successes"], task["segment"]) for task in found["tasks"]] == [("p1", 0, "unsolved")]
    assert (found["matching"], found["segments"]["unsolved"], found["segments"]["teaching"]) == (1, 1, 1)
    assert f"{len(ROWS) - 2} untried, 0 aborting, 1 unsolved, 1 teaching" in bots.ok(
        "tasks", pool, "--segment", "teaching"
    )
    assert bots("tasks", pool, "--segment", "lost").code == 2


def test_history_shows_the_last_steps(bots, client, pool):
    for _ in range(3):
        client.report(pool, [Outcome.counts("p1", 1, 2)])
    assert [row["step"] for row in bots("history", pool, "--limit", 2, "--json").json["history"]] == [2, 3]


def test_runs_are_made_changed_and_deleted(bots, client, pool):
    client.report(pool, [Outcome.counts("p1", 3, 4)])
    settings = ["--target", 0.6, "--prior", 2, 3, "--strategy", "thompson", "--tasks-per-step", 4, "--seed", 7]
    made = bots("runs", "create", pool, "tuned", "--belief", "bots", *settings, "--json").json["settings"]
    assert (made["target"], made["prior"], made["strategy"], made["seed"]) == (0.6, [2, 3], "thompson", 7)
    assert made["forgetting"] == 0.1
    changed = bots("runs", "set", pool, "tuned", "--tasks-per-step", 0, "--target", 0.5, "--json").json["settings"]
    assert (changed["tasks_per_step"], changed["target"], changed["seed"]) == (None, 0.5, 7)

    def listed() -> dict[str, Any]:
        return {run["run"]: run["verdict"] for run in bots("runs", "list", pool, "--json").json["runs"]}

    assert "tuned" in bots.ok("runs", "list")
    assert listed().keys() == {"default", "tuned"}
    assert listed()["tuned"]["kind"] == "starting"
    assert "tuned" in bots.ok("runs", "list", pool)
    assert bots("runs", "delete", pool, "tuned", "--yes", "--json").json == {"dataset": pool, "deleted": "tuned"}
    assert len(list(client.runs(pool))) == 1


def test_a_run_that_exists_is_told_from_one_that_is_new(bots, pool):
    said = [bots.ok("runs", "create", pool, "one", *settings) for settings in ([], [], ["--seed", 2])]
    assert [line.partition(": ")[2] for line in said] == [
        "created (tracker, pass)\n",
        "exists, unchanged (tracker, pass)\n",
        "has new settings (tracker, pass)\n",
    ]
    assert bots.ok("runs", "set", pool, "one", "--mix", "easy=1") == f"run one of {pool}: mix easy 1 from step 1 on\n"


def test_a_run_goes_back(bots, client, pool):
    for _ in range(2):
        client.report(pool, [Outcome.counts("p1", 1, 2)])
    rewound = bots("rewind", pool, 1, "--json").json
    assert (rewound["step"], rewound["epoch"]) == (1, 1)
    assert "back at step 0" in bots.ok("rewind", pool, 0)


def test_a_mix_is_set_shown_changed_and_ended(bots, pool):
    made = bots("runs", "create", pool, "m", "--mix", "easy=3", "--mix", "hard=1", "--json").json
    assert made["settings"]["mix"] == {"easy": 3, "hard": 1}
    shown = bots.ok("runs", "show", pool, "m")
    assert re.search(r"\n  mix *\n    easy +3 *\n    hard +1", shown)
    assert "tag easy share 0.7500 owed 0 given 0" in shown
    assert bots("runs", "set", pool, "m", "--mix", "none", "--json").json["settings"]["mix"] == {}


@pytest.mark.parametrize("option", ["math", "math=", "=3", "math=3,4", "math=1:x"])
def test_a_weight_that_can_not_be_read_is_refused_with_an_example(bots, pool, option):
    assert "math=3" in bots("runs", "create", pool, "m", "--mix", option).assert_one_line(2)


def test_tasks_are_appended_retired_and_restored(bots, pool, tmp_path):
    (tmp_path / "more.jsonl").write_text('{"key": "p5", "a": 0.5, "b": null}\n{"key": "p6", "a": 0.5, "b": 1}\n')
    columns = ["--id", "key", "--reference", "a", "--reference", "b"]
    assert bots("datasets", "append", pool, "more.jsonl", *columns, "--json").json["tasks"] == 6
    assert bots("datasets", "retire", pool, "p1", "p5", "--json").json["retired"] == 2
    assert "; 3 left" in bots.ok("datasets", "retire", pool, "-", stdin="p6\n\n")
    restored = bots("datasets", "restore", pool, "p1", "p5", "--json").json
    assert (restored["name"], restored["tasks"], restored["retired"]) == (pool, 5, 1)
    assert (
        bots.ok("datasets", "restore", pool, "-", stdin="p6\n") == f"6 tasks of {pool} can be selected; 0 are retired\n"
    )
    assert bots("datasets", "delete", pool, "--yes", "--json").json == {"deleted": pool}
    assert pool not in bots.ok("datasets", "list")


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
