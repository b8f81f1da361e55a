"""`bots datasets import`: three kinds of files, one dataset."""

import json

import pyarrow
import pytest
from pyarrow import csv, parquet

from bots_service.cli.task_files import Columns, FileTask, read_tasks

TASKS = [
    ("007", 0.25, 0.875, "math", "easy"),
    ("12", None, None, "math", None),
    ("line\nbreak, and comma", 0.0, 1.0, "code", "hard"),
    ("ünïcode", 0.5, 0.5, "code", "code"),
]
NAMES = ["problem", "weak", "strong", "domain", "level"]
COLUMNS = Columns("problem", ("weak", "strong"), ("domain", "level"))
ARGUMENTS = ["--id", "problem", "--reference", "weak", "--reference", "strong", "--tag", "domain", "--tag", "level"]


def write_files(folder, rows, names):
    """Write the rows as CSV, JSON Lines and Parquet; return the files."""
    table = pyarrow.table({name: [row[place] for row in rows] for place, name in enumerate(names)})
    files = [folder / f"pool.{kind}" for kind in ("csv", "jsonl", "parquet")]
    csv.write_csv(table, files[0])
    files[1].write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()), "utf-8")
    parquet.write_table(table, files[2])
    return files


def test_all_kinds_of_files_make_the_same_dataset(bots, tmp_path):
    files = write_files(tmp_path, [row for row in TASKS if "\n" not in row[0]], NAMES)
    made = []
    for place, file in enumerate(files):
        arguments = ["--name", f"kind-{place}", *ARGUMENTS, "--json"]
        made.append(bots("datasets", "import", file.name, *arguments).json)
    assert len({one["digest"] for one in made}) == 1
    assert made[0]["tags"] == {"math": 2, "easy": 1, "code": 1}
    assert made[0]["reference_models"] == ["weak", "strong"]


def test_all_kinds_of_files_are_read_alike(tmp_path):
    expected = [
        FileTask(name, [weak, strong], list(dict.fromkeys(tag for tag in tags if tag)))
        for name, weak, strong, *tags in TASKS
    ]
    for file in write_files(tmp_path, TASKS, NAMES):
        assert [task for batch, _ in read_tasks(file, COLUMNS) for task in batch] == expected, file.suffix


def test_a_long_file_comes_in_pieces_in_order(tmp_path):
    rows = [(f"task-{number}", number % 17 / 16, "x" * 50) for number in range(30_000)]
    for file in write_files(tmp_path, rows, ["id", "rate", "text"]):
        batches = list(read_tasks(file, Columns(references=("rate",))))
        shares = [share for _, share in batches]
        assert len(batches) > 1
        assert shares == sorted(shares)
        assert shares[-1] == pytest.approx(1)
        assert [(task.id, *task.reference_pass_rates) for batch, _ in batches for task in batch] == [
            row[:2] for row in rows
        ]


def test_numbers_are_ids_and_lists_are_tags(tmp_path):
    file = tmp_path / "pool.parquet"
    parquet.write_table(pyarrow.table({"id": [1, 2], "tags": [["a", "b"], []]}), file)
    ((tasks, _),) = read_tasks(file, Columns(tags=("tags",)))
    assert tasks == [FileTask("1", [], ["a", "b"]), FileTask("2")]


def test_files_as_the_service_reads_them_need_no_columns(bots, tmp_path):
    lines = [{"reference_models": ["weak", "strong"]}, {"id": "a", "reference_pass_rates": [0, 0.5], "tags": ["t"]}]
    (tmp_path / "as-it-is.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = bots("datasets", "import", "as-it-is.ndjson", "--json").json
    assert (made["name"], made["reference_models"], made["tags"]) == ("as-it-is", ["weak", "strong"], {"t": 1})


@pytest.mark.parametrize(
    ("file", "content", "arguments", "says"),
    [
        ("a.csv", "problem,weak\nx,0.5\n", ["--id", "id"], "a.csv: no column 'id'; the columns are problem, weak"),
        ("a.csv", "id,weak\nx,0.5\n", ["--reference", "strong"], "no column 'strong'; the columns are id, weak"),
        ("a.jsonl", '{"id": "x"}\n', ["--tag", "level"], "no column 'level'; the columns are id"),
        ("a.csv", "id,weak\nx,0.5\n,1\n", [], "a.csv: row 2: there is no id"),
        ("a.csv", "id,weak\nx,often\n", ["--reference", "weak"], "invalid value 'often'"),
        ("a.csv", "id,weak\nx\n", [], "Expected 2 columns, got 1"),
        ("a.csv", "", [], "a.csv: Empty CSV file"),
        ("a.csv", "id\n", [], "a.csv: there are no rows"),
        ("a.jsonl", '{"id": "x"}\n{"id"\n', ["--tag", "id"], "a.jsonl: row 2 is no JSON"),
        ("a.jsonl", "[1]\n", ["--tag", "id"], "a.jsonl: row 1 is no JSON object"),
        ("a.jsonl", '{"id": 1.5}\n', ["--tag", "id"], "a.jsonl: row 1: the id is 1.5"),
        ("a.jsonl", '{"id": 1, "w": "0.5"}\n', ["--reference", "w"], "row 1: w is '0.5', not a number"),
        ("a.parquet", "PAR1", ["--tag", "id"], "a.parquet: "),
        ("a.txt", "id\n", [], "must end with one of .csv, .jsonl, .ndjson, .parquet"),
    ],
)
def test_a_bad_file_is_told_in_one_line_with_its_place(bots, tmp_path, file, content, arguments, says):
    (tmp_path / file).write_text(content)
    line = bots("datasets", "import", file, "--name", "bad", *arguments, "--json").assert_one_line(1)
    assert says in line


def test_nothing_is_made_of_a_file_that_breaks_off_in_the_middle(bots, tmp_path):
    rows = [f"task-{number},{number % 5 / 4}\n" for number in range(100_000)]
    rows[90_000] = ",0.5\n"
    (tmp_path / "broken.csv").write_text("id,weak\n" + "".join(rows))
    line = bots("datasets", "import", "broken.csv", "--reference", "weak").assert_one_line(1)
    assert "broken.csv: row 90001: there is no id" in line
    bots("datasets", "show", "broken").assert_one_line(1)


def test_what_the_service_refuses_is_told_with_its_place(bots, tmp_path):
    (tmp_path / "far.csv").write_text("id,weak\nx,0.5\ny,1.5\n")
    line = bots("datasets", "import", "far.csv", "--reference", "weak").assert_one_line(1)
    assert "tasks.1.reference_pass_rates.0" in line
