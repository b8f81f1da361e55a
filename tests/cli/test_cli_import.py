"""`bots datasets import`: three kinds of files, one dataset."""

import json
import math

import httpx
import pyarrow
import pytest
from pyarrow import csv, parquet

from bots_client import Task, TaskColumns
from bots_service.cli.datasets import TaskReader

TASKS = [
    ("007", 0.25, 0.875, "math", "easy"),
    ("12", None, None, "math", None),
    ("line\nbreak, and comma", 0.0, 1.0, "code", "hard"),
    ("ünïcode", 0.5, 0.5, "code", "code"),
]
NAMES = ["problem", "weak", "strong", "domain", "level"]
COLUMNS = {"id_": ["problem"], "reference": ["weak", "strong"], "tag": ["domain", "level"]}


def write_files(folder, rows, names):
    """Write the rows as CSV, JSON Lines and Parquet; return the files."""
    table = pyarrow.table({name: [row[place] for row in rows] for place, name in enumerate(names)})
    files = [folder / f"pool.{kind}" for kind in ("csv", "jsonl", "parquet")]
    csv.write_csv(table, files[0])
    files[1].write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()), "utf-8")
    parquet.write_table(table, files[2])
    return files


def tasks_in(*files, **how):
    """Return all tasks of some files."""
    return [task for batch in TaskReader(list(files), **how).tasks() for task in batch]


def expected(names=NAMES[3:]):
    return [
        Task(name, [weak, strong], [f"{column}={tag}" for column, tag in zip(names, tags, strict=True) if tag])
        for name, weak, strong, *tags in TASKS
    ]


def test_all_kinds_of_files_are_read_alike(tmp_path):
    files = write_files(tmp_path, TASKS, NAMES)
    array = tmp_path / "array.json"
    array.write_text(json.dumps([json.loads(line) for line in files[1].read_text("utf-8").splitlines()]), "utf-8")
    for file in [*files, array]:
        assert tasks_in(file, **COLUMNS) == expected(), file.name


def test_a_long_file_comes_in_pieces_in_order(tmp_path):
    rows = [(f"task-{number}", number % 17 / 16, "x" * 50) for number in range(15_000)]
    for file in write_files(tmp_path, rows, ["id", "rate", "text"]):
        told: list[tuple[float | None, str]] = []
        reader = TaskReader([file, file], reference=["rate"], file_in_id=True)
        batches = list(reader.tasks(lambda *progress, told=told: told.append(progress)))
        shares = [share or 0.0 for share, _ in told]
        assert len(batches) > 2
        assert shares == sorted(shares)
        assert shares[-1] == pytest.approx(1)
        assert [(task.id, *task.reference_pass_rates) for batch in batches for task in batch] == [
            (f"pool:{row[0]}", row[1]) for row in rows * 2
        ]


def guru(count, source):
    """A table as the paper's data has it: LLM360/guru-RL-92k."""
    rows = [
        {
            "data_source": source,
            "prompt": [{"content": f"{source} {number}?", "role": "user"}],
            "ability": source.partition("__")[0],
            "apply_chat_template": True,
            "qwen2.5_7b_pass_rate": number % 16 / 16,
            "qwen3_30b_pass_rate": None if number % 9 == 8 else (number % 16 + 1) / 16,
            "extra_info": {"index": number, "level": number % 5},
            "reward_model": {"ground_truth": str(number), "style": "rule"},
        }
        for number in range(count)
    ]
    return pyarrow.Table.from_pylist(rows)


RATES = ["qwen2.5_7b_pass_rate", "qwen3_30b_pass_rate"]


@pytest.fixture
def train(tmp_path):
    """A folder with two files of the paper's kind, both of which count from 0."""
    folder = tmp_path / "train"
    folder.mkdir()
    for source in ("math__deepscaler", "codegen__leetcode2k"):
        parquet.write_table(guru(50, source), folder / f"{source}.parquet")
    (folder / "README.md").write_text("no data")
    return folder


def test_the_paper_s_data_is_imported_with_one_command(bots, train):
    ids = ["--id", "data_source", "--id", "extra_info.index"]
    rates = [part for rate in RATES for part in ("--reference", rate)]
    done = bots("datasets", "import", train, *ids, *rates, "--tag", "ability", "--tag", "extra_info.level", "--json")
    made = done.json
    assert (made["name"], made["tasks"], made["reference_models"]) == ("train", 100, RATES)
    assert made["tags"]["ability=math"] == made["tags"]["ability=codegen"] == 50
    assert made["tags"]["extra_info.level=3"] == 20
    assert done.err == "columns not used: apply_chat_template, prompt, reward_model\n"
    shown = bots("tasks", "train", "--search", "math__deepscaler:17", "--json").json
    assert [task["id"] for task in shown["tasks"]] == ["math__deepscaler:17"]


# Rows as the public datasets have them, with made-up values: what finds their ids, and what their numbers are read as.
SKYWORK = "extra_info.model_difficulty.DeepSeek-R1-Distill-Qwen"
PUBLISHED = {
    "LLM360/guru-RL-92k": (
        lambda n: {
            "qwen3_30b_pass_rate": (16 + n) / 32,
            "qwen2.5_7b_pass_rate": n / 16,
            "extra_info": {"index": n},
        },
        ["--id", "extra_info.index"],
        {"qwen2.5_7b_pass_rate": lambda n: n / 16, "qwen3_30b_pass_rate": lambda n: (16 + n) / 32},
    ),
    "SynthLabsAI/Big-Math-RL-Verified": (
        lambda n: {"problem": f"p{n}", "source": "orca", "llama8b_solve_rate": None if n == 3 else n / 64},
        ["--id", "problem"],
        {"llama8b_solve_rate": lambda n: None if n == 3 else n / 64},
    ),
    "POLARIS-Project/Polaris-Dataset-53K": (
        lambda n: {"problem": f"p{n}", "answer": "1", "difficulty": f"{n % 8}/8"},
        ["--id", "problem"],
        {"difficulty": lambda n: n % 8 / 8},
    ),
    "Skywork/Skywork-OR1-RL-Data": (
        lambda n: {
            "prompt": [{"content": f"p{n}", "role": "user"}],
            "extra_info": {
                "index": n,
                "model_difficulty": {
                    "DeepSeek-R1-Distill-Qwen-1.5B": 16 - n // 2,
                    "DeepSeek-R1-Distill-Qwen-7B": 14 - n // 2,
                    "DeepSeek-R1-Distill-Qwen-32B": 12 - n // 2,
                },
            },
        },
        ["--id", "extra_info.index"],
        {
            f"{SKYWORK}-1.5B": lambda n: n // 2 / 16,
            f"{SKYWORK}-7B": lambda n: (2 + n // 2) / 16,
            f"{SKYWORK}-32B": lambda n: (4 + n // 2) / 16,
        },
    ),
    "lime-nlp/DeepScaleR_Difficulty": (
        lambda n: {"prompt": f"p{n}", "extra_info": {"index": n, "difficulty": 100 * (1 - n / 128)}},
        ["--id", "extra_info.index"],
        {"extra_info.difficulty": lambda n: n / 128},
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_published_pass_rates_are_found_and_shown(bots, tmp_path, name, kind):
    row, ids, references = PUBLISHED[name]
    rows, file = [row(n) for n in range(16)], tmp_path / f"pool.{kind}"
    if kind == "parquet":
        parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    else:
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    pool = f"{kind}-{[*PUBLISHED].index(name)}"
    done = bots("datasets", "import", file, "--name", pool, *ids, "--references", "auto", "--json")
    assert [model.partition(": ")[0] for model in done.json["reference_models"]] == list(references)
    for column, rate in references.items():
        shown = next(line for line in done.err.splitlines() if line.startswith(f"pass rates: {column!r}, read as "))
        assert f" -> {rate(1):.4g}, " in shown
    bots.ok("datasets", "delete", pool, "--yes")  # other tests list all
    read = [task.reference_pass_rates for task in tasks_in(file, id_=ids[1:], references="auto")]
    assert read == [[rate(n) for rate in references.values()] for n in range(16)]


def test_published_pass_rates_that_are_not_used_are_named(bots, tmp_path):
    file = tmp_path / "rates.csv"
    file.write_text("id,solve rate,difficulty\na,0,1\nb,25.5,2\nc,100,3\n", "utf-8")
    done = bots("datasets", "import", file, "--json")
    assert done.json["reference_models"] == []
    assert "published pass rates in difficulty, solve rate? --references auto finds and uses them\n" in done.err
    used = bots("datasets", "import", file, "--name", "used", "--references", "auto", "--json")
    assert used.json["reference_models"] == ["solve rate: value / 100"]
    assert "read as value / 100: 0 -> 0, 25.5 -> 0.255, 100 -> 1, ..." in used.err
    assert "no pass rates: difficulty goes up to 3: levels, it seems, which are tags\n" in used.err
    both = ["--references", "auto", "--reference"]
    assert bots("datasets", "import", file, "--name", "one", *both, "solve rate", "--json").json["tasks"] == 3
    line = bots("datasets", "import", file, *both, "lost").assert_one_line(1)
    assert "published pass rates are not found: no column has such a name" in line


def test_appended_tasks_have_their_pass_rates_in_the_dataset_s_order_and_scale(bots, tmp_path):
    first, second, third = (tmp_path / f"{name}.csv" for name in ("grown", "second", "third"))
    first.write_text("id,a pass rate,b pass rate\nt1,0.1,0.5\nt2,0.2,0.75\n", "utf-8")
    second.write_text("id,a pass rate,b pass rate\nt3,0.75,0.25\nt4,1,0\n", "utf-8")
    third.write_text("id,a pass rate,b pass rate\nt5,75,0.25\nt6,100,0\n", "utf-8")
    auto = ["--references", "auto", "--json"]
    assert bots("datasets", "import", first, *auto).json["reference_models"] == ["a pass rate", "b pass rate"]
    assert bots("datasets", "append", "grown", second, *auto).json["tasks"] == 4
    with httpx.stream("GET", f"{bots.url}/datasets/grown/tasks") as answer:
        sent = [json.loads(line) for line in answer.iter_lines()][1:]
    assert {task["id"]: task["reference_pass_rates"] for task in sent}["t3"] == [0.75, 0.25]
    line = bots("datasets", "append", "grown", third, *auto).err
    assert "the dataset's reference models are a pass rate, b pass rate, the files'" in line
    assert "a pass rate: value / 100" in line


@pytest.mark.parametrize(
    ("column", "values", "says"),
    [
        ("difficulty", ["1", "10", "4"], "difficulty goes up to 10: levels, it seems"),
        ("difficulty", ["4.5", "8.0", "2"], "difficulty goes up to 8: levels, it seems"),
        ("difficulty", ["easy", "hard"], "difficulty is 'easy', not a number as others are"),
        ("model_difficulty", ["1", "5"], "goes up to 5: levels, it seems"),
        ("pass_rate", ["0.5", "0.5"], "pass_rate never differs"),
        ("pass_rate", ["0.5", "0.25", "7"], "pass_rate goes up to 7: counts of how many tries?"),
        ("pass_rate", ["0.5", "-1"], "pass_rate is '-1', read as value: no pass rate"),
        ("pass_rate", ["3/8", "0/0"], "pass_rate is '0/0', read as value: no pass rate"),
        ("pass_rate", ["3/8", "9/8"], "pass_rate is '9/8', read as value: no pass rate"),
        ("solve_rate", ["0", "8", "3"], "solve_rate goes up to 8: counts of how many tries?"),
        ("unsolved_rate", ["0.5", "0.25"], "no column has such a name"),
        ("pass@16", ["0.5", "0.25"], "no column has such a name"),
        ("pass_rate_std", ["0.5", "0.25"], "no column has such a name"),
    ],
)
def test_what_may_be_something_else_is_not_taken_for_pass_rates(bots, tmp_path, column, values, says):
    file = tmp_path / "unclear.csv"
    file.write_text("".join([f"id,{column}\n", *(f"t{n},{value}\n" for n, value in enumerate(values))]), "utf-8")
    line = bots("datasets", "import", file, "--references", "auto").assert_one_line(1)
    assert says in line


def test_a_pass_rate_that_fits_no_longer_is_told_with_its_row_and_nothing_is_made(bots, tmp_path):
    file = tmp_path / "later.jsonl"
    rows = [{"id": f"t{n}", "pass_rate": n % 9 / 8} for n in range(1200)] + [{"id": "t", "pass_rate": 45}]
    file.write_text("".join(json.dumps(row) + "\n" for row in [{"id": "nan", "pass_rate": math.nan}, *rows]), "utf-8")
    line = bots("datasets", "import", file, "--references", "auto").err
    assert "later.jsonl: row 1202: pass_rate is 45, read as value: no pass rate in [0, 1]" in line
    assert "later" not in bots.ok("datasets", "list", "--json")


def test_ids_come_from_rows_from_files_and_from_content(train):
    files = sorted(train.glob("*.parquet"))
    code, math = (parquet.read_table(file).to_pylist() for file in files)
    assert [task.id for task in tasks_in(*files, id_from="row")] == [str(row) for row in range(100)]
    in_file = [task.id for task in tasks_in(train, id_from="row", file_in_id=True)]
    assert in_file[49:51] == ["codegen__leetcode2k:49", "math__deepscaler:0"]
    columns = ["prompt", "reward_model.ground_truth"]
    by_content = TaskColumns(columns, "content")
    # What a trainer computes of its own rows, in whatever order.
    assert {task.id for task in tasks_in(train, id_=columns, id_from="content")} == {
        by_content.id_of(row) for row in [*math, *code]
    }


def test_repeats_are_refused_with_what_to_do_or_left_out(bots, train):
    line = bots("datasets", "import", train, "--name", "repeats", "--id", "extra_info.index").assert_one_line(1)
    assert "row 51 of all files repeats the id '0' of row 1;" in line
    assert all(option in line for option in ("--file-in-id", "--id-from content", "--skip-repeats"))
    done = bots(
        "datasets", "import", train, "--name", "repeats", "--id", "extra_info.index", "--skip-repeats", "--json"
    )
    assert done.json["tasks"] == 50
    assert "skipped 50 of 100 rows: repeated IDs" in done.err


@pytest.mark.parametrize(
    ("file", "content", "arguments", "says"),
    [
        ("a.csv", "problem,weak\nx,0.5\n", ["--id", "id"], "a.csv: no column 'id'; its columns are problem, weak"),
        ("a.jsonl", '{"id": "x"}\n', ["--tag", "level"], "no column 'level'; its columns are id"),
        ("a.jsonl", '{"question": "x"}\n', [], "--id-from row"),
        ("a.jsonl", '{"e": {"index": 1}}\n', ["--id", "e.indx"], "did you mean 'e.index'?"),
        ("a.csv", "id,weak\nx,0.5\n,1\n", [], "a.csv: row 2: the column id is empty or missing"),
        (
            "a.jsonl",
            '{"id": "x", "reference_pass_rates": [1], "a": 1}\n',
            [],
            "the column reference_pass_rates would be dropped",
        ),
        ("a.json", '[{"id": "x"}, 3]', [], "a.json: row 2 is not a JSON object"),
        ("a.json", '[{"id": "x"}', [], "a.json: not JSON"),
        ("a.jsonl.gz", "id", [], "a.jsonl.gz: unsupported format"),
        ("a.csv", "id,weak\nx,often\n", ["--reference", "weak"], "row 1: weak is 'often', not a number"),
        ("a.csv", 'id\n"x', [], "a.csv: unexpected end of data"),
        ("a.csv", "id,weak\nx\n", [], "row 1 does not have 2 columns"),
        ("a.csv", "id\n", [], "a.csv: no rows"),
        ("a.jsonl", '{"id": "x"}\n{"id"\n', ["--tag", "id"], "a.jsonl: row 2 is not JSON"),
        ("a.jsonl", '{"id": 1, "w": "often"}\n', ["--reference", "w"], "row 1: w is 'often', not a number"),
        ("a.csv", "id,level\nx,3\n", ["--id-from", "content"], "convert the file to Parquet or JSON Lines"),
        ("a.parquet", "PAR1", [], "a.parquet: "),
        ("a.txt", "id\n", [], "end with one of .csv, .json, .jsonl, .ndjson, .parquet"),
    ],
)
def test_a_bad_file_is_told_in_one_line_with_its_place(bots, tmp_path, file, content, arguments, says):
    (tmp_path / file).write_text(content)
    line = bots("datasets", "import", file, "--name", "bad", *arguments, "--json").assert_one_line(1)
    assert says in line


def test_nothing_is_made_of_a_file_that_breaks_off_in_the_middle(bots, tmp_path):
    rows = [f"task-{number},{number % 5 / 4}\n" for number in range(40_000)]
    rows[35_000] = ",0.5\n"
    (tmp_path / "broken.csv").write_text("id,weak\n" + "".join(rows))
    line = bots("datasets", "import", "broken.csv", "--reference", "weak").assert_one_line(1)
    assert "broken.csv: row 35001: the column id is empty or missing" in line
    bots("datasets", "show", "broken").assert_one_line(1)
