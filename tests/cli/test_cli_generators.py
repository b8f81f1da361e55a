"""Generators by the command line: imported, shown, selected, reported from a file."""

import json


def test_generators_are_imported_shown_and_drawn(bots, tmp_path):
    (tmp_path / "levels.jsonl").write_text('{"id": "easy"}\n{"id": "hard"}\n')
    bots.ok("datasets", "import", str(tmp_path / "levels.jsonl"), "--generators", "--name", "levels")
    assert "generators" in bots.ok("datasets", "show", "levels")
    assert "seed" in bots.ok("select", "levels", "4")
    selection = bots("select", "levels", "5", "--json").json
    outcomes = [{"task": task["id"], "seed": task["seed"], "rewards": [0, 1]} for task in selection["tasks"]]
    told = tmp_path / "told.json"
    told.write_text(json.dumps({"selection_id": selection["selection_id"], "outcomes": outcomes}))
    assert "5 tasks, 2 new, 5 effective" in bots.ok("report", "levels", "--from", str(told))


def test_tasks_are_shown_without_seeds(bots, tmp_path):
    (tmp_path / "fixed.jsonl").write_text('{"id": "one"}\n')
    bots.ok("datasets", "import", str(tmp_path / "fixed.jsonl"))
    assert "seed" not in bots.ok("select", "fixed", "1")
