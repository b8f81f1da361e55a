"""Predictions, as commands put, show and remove them."""

import json

import pytest

from bots_client import Task


@pytest.fixture
def pool(client):
    client.create_dataset("predicted", [Task(f"p{number}") for number in range(4)])
    yield "predicted"
    client.delete_dataset("predicted")


def test_predictions_of_a_file_are_put_shown_and_removed(bots, pool, tmp_path):
    file = tmp_path / "probe.jsonl"
    file.write_text("".join(json.dumps({"id": f"p{number}", "pass_rate": number / 4}) + "\n" for number in range(3)))
    said = bots.ok("datasets", "predict", pool, "probe", str(file))
    assert said.split() == ["new", "runs", "of", "predicted", "see", "the", "predictions", "probe", "of", "3", "tasks"]
    assert "probe (3)" in bots.ok("datasets", "show", pool)
    (found,) = bots("datasets", "show", pool, "--json").json["predictions"]
    assert (found["name"], found["tasks"], found["mean"]) == ("probe", 3, 0.25)
    assert "no longer see the predictions probe" in " ".join(bots.ok("datasets", "unpredict", pool, "probe").split())
    assert bots("datasets", "show", pool, "--json").json["predictions"] == []


def test_a_file_of_another_format_is_refused_with_the_endings_that_work(bots, pool, tmp_path):
    file = tmp_path / "probe.txt"
    file.write_text("id,pass_rate\np0,0.5\n")
    said = bots("datasets", "predict", pool, "probe", str(file)).assert_one_line(1)
    assert "probe.txt: unsupported format" in said
    assert ".csv, .json, .jsonl, .ndjson, .parquet" in said


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("id,rate\np0,0.5\n", "no column 'pass_rate'; its columns are id, rate"),
        ("id,pass_rate\np0,often\n", "probe.csv"),
        ("id,pass_rate\np0,1.5\n", "1.5 is not in [0, 1]"),
        ("id,pass_rate\ngone,0.5\n", "no task 'gone'"),
    ],
)
def test_a_file_that_is_wrong_is_refused_by_what_is_wrong(bots, pool, tmp_path, content: str, what: str):
    file = tmp_path / "probe.csv"
    file.write_text(content)
    refused = bots("datasets", "predict", pool, "probe", str(file))
    assert refused.code == 1
    assert what in " ".join(refused.err.split())


def test_a_run_becomes_predictions_by_one_command(bots, pool, client):
    bots.ok("report", pool, "p1=1/2")
    said = " ".join(bots.ok("runs", "as-predictions", pool).split())
    assert said == "new runs of predicted see the predictions default of 1 task"
    client.create_run(pool, "next")
    assert client.run(pool, "next").predictions == ("default",)
    bots.ok("runs", "as-predictions", pool, "default", "--name", "first", "--step", "1")
    assert [each.name for each in client.dataset(pool).predictions] == ["default", "first"]
