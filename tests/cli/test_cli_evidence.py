"""`bots import-evidence`: old rollouts from files."""

import json
from datetime import UTC, datetime, timedelta
from itertools import count

import pyarrow
import pytest
from pyarrow import csv, parquet

from bots_client import Outcome, PastOutcome, Task
from bots_service.cli.failures import CommandError
from bots_service.cli.past_files import Ages, parts_of, read_past

NAMES = (f"old-{number}" for number in count())
NO_AGES = Ages(None, None, None)
ROWS = [
    {"task": "p1", "successes": 7.0, "trials": 16.0, "age": 3.0},
    {"task": "p2", "successes": 0.5, "trials": 2.0, "age": 40.0},
]


@pytest.fixture
def pool(client):
    """A dataset of three tasks."""
    name = next(NAMES)
    client.create_dataset(name, [Task(task) for task in ("p1", "p2", "p3")])
    return name


def written(folder, rows):
    """Write the rows as CSV, JSON Lines and Parquet; return the files."""
    table = pyarrow.Table.from_pylist(rows)
    files = [folder / f"log.{kind}" for kind in ("csv", "jsonl", "parquet")]
    csv.write_csv(table, files[0])
    files[1].write_text("".join(json.dumps(row, default=str) + "\n" for row in rows), "utf-8")
    parquet.write_table(table, files[2])
    return files


def test_all_kinds_of_files_are_read_alike_the_oldest_first(tmp_path):
    expected = [
        PastOutcome(Outcome.counts("p2", 0.5, 2.0), age=40.0),
        PastOutcome(Outcome.counts("p1", 7.0, 16.0), age=3.0),
    ]
    for file in written(tmp_path, ROWS):
        assert read_past(file, NO_AGES) == expected


def test_times_of_all_forms_become_ages_from_the_newest(tmp_path):
    newest = datetime(2026, 1, 1, 12, tzinfo=UTC)
    times = [newest - timedelta(seconds=100 * place) for place in range(4)]
    forms = [times[0].isoformat(), times[1].replace(tzinfo=None).isoformat(), times[2].timestamp()]
    file = tmp_path / "log.jsonl"
    rows = [{"task": "p1", "successes": 1, "trials": 1, "at": at} for at in forms]
    file.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    assert [one.age for one in read_past(file, Ages(None, 50.0, None))] == [4.0, 2.0, 0.0]
    later = newest + timedelta(seconds=50)
    assert [one.age for one in read_past(file, Ages(None, 50.0, later))] == [5.0, 3.0, 1.0]
    stamped = tmp_path / "log.parquet"
    columns = {"task": ["p1"] * 4, "successes": [1] * 4, "trials": [1] * 4, "at": times}
    parquet.write_table(pyarrow.table(columns), stamped)
    assert [one.age for one in read_past(stamped, Ages(None, 100.0, None))] == [3.0, 2.0, 1.0, 0.0]


@pytest.mark.parametrize("rewards", ["[0, 1, 0.5]", "0 1 0.5"])
def test_a_csv_file_may_hold_rewards_as_text(tmp_path, rewards):
    file = tmp_path / "log.csv"
    file.write_text(f'task,rewards\np1,"{rewards}"\n', "utf-8")
    assert read_past(file, Ages(7.0, None, None)) == [PastOutcome(Outcome.rewards("p1", [0, 1, 0.5]), age=7.0)]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"task": "p1", "successes": 1, "trials": 2}, "row 1: give an age in steps or a time"),
        ({"task": "p1", "successes": 1, "age": 2}, "row 1: give successes and trials, or rewards"),
        ({"task": "p1", "successes": 1, "trials": 2, "at": "yesterday"}, "row 1"),
        ({"task": "p1", "successes": 1, "trials": 2, "at": 5}, "--seconds-per-step"),
    ],
)
def test_a_row_that_says_too_little_is_named(tmp_path, row, said):
    file = tmp_path / "log.jsonl"
    file.write_text(json.dumps(row), "utf-8")
    with pytest.raises(CommandError, match=said):
        read_past(file, NO_AGES)


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_a_file_that_holds_nothing_readable_is_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(CommandError, match=name):
        read_past(tmp_path / name, NO_AGES)


def test_a_long_file_is_sent_in_parts_that_fit():
    short = [PastOutcome(Outcome.counts("p1", 1, 2), age=1.0)] * 20_001
    assert [len(part) for part in parts_of(short)] == [10_000, 10_000, 1]
    long = [PastOutcome(Outcome.rewards("p1", [0.5] * 4096), age=1.0)] * 50
    assert [len(part) for part in parts_of(long)] == [48, 2]


def test_a_log_is_imported_once_however_often_the_command_runs(bots, client, pool, tmp_path):
    file = written(tmp_path, ROWS)[0]
    client.create_run(pool, "default", belief="bots")
    told = bots("import-evidence", pool, file, "--json").json
    assert (told["outcomes"], told["rollouts"], told["counted_before"], told["seq"]) == (2, 18.0, 0, 1)
    assert (told["oldest_age"], told["newest_age"]) == (40.0, 3.0)
    believed = {task.id: task.alpha for task in client.tasks(pool)}
    assert believed["p1"] == pytest.approx(1 + 7 * 0.9**3)
    assert "0 outcomes with 0 rollouts from 40 to 3 steps ago" in (again := bots.ok("import-evidence", pool, file))
    assert "2 more had been imported before" in again
    assert client.run(pool).seq == 1
    assert "2 tasks" in bots.ok("journal", pool)


def test_one_outcome_is_told_in_the_singular_with_one_age(bots, pool, tmp_path):
    file = tmp_path / "log.jsonl"
    file.write_text(json.dumps({"task": "p1", "successes": 1, "trials": 1, "age": 4}), "utf-8")
    assert "learned from 1 outcome with 1 rollout from 4 steps ago" in bots.ok("import-evidence", pool, file)
    file.write_text(json.dumps({"task": "p1", "successes": 1, "trials": 2, "age": 1}), "utf-8")
    assert "learned from 1 outcome with 2 rollouts from 1 step ago" in bots.ok("import-evidence", pool, file)


def test_an_empty_log_is_refused(bots, pool, tmp_path):
    file = tmp_path / "log.jsonl"
    file.write_text("", "utf-8")
    assert "no rows" in bots("import-evidence", pool, file).err
