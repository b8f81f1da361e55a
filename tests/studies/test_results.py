"""Results are made once, survive being kept, and tables show them; of a small made-up study, and of all cells."""

import json
import sys
from functools import partial
from math import inf, sqrt
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

from studies.__main__ import finished, main
from studies.catalogue import STUDIES
from studies.progress import first_reached, rollouts_to_end, until
from studies.results import Result, in_order, keep, kept, planned, read_results
from studies.study import Cell, Comparison, Study, StudyChart, StudyTable, label_key
from studies.tables import rendered
from studies.trial import Measures


def measures(**values) -> Measures:
    known = {
        "steps": 40,
        "effective_task_ratio": 0.5,
        "pool_log_loss": 0.4,
        "batch_log_loss": 0.6,
        "calibration_slope": 1.0,
        "chosen_success": (0.4, 0.6),
        "distinct_tasks": 7,
        "most_visits": 3,
        "rollouts": 640.0,
        "accuracy": (0.1, 0.2, 0.3),
        "effective_groups": (0, 10, 20),
        "rollouts_spent": (0.0, 320.0, 640.0),
        "select_seconds": 0.02,
        "report_seconds": 0.04,
    }
    return Measures(**{**known, **values})


def trial(ratio: float, loss: float | None, seed: int, quick: bool) -> Measures:
    return measures(effective_task_ratio=ratio + 0.1 * seed, pool_log_loss=loss, steps=4 if quick else 40)


def cell(pool: str, size: str, ratio: float, loss: float | None = 0.4) -> Cell:
    return Cell({"pool": pool, "size": size}, partial(trial, ratio, loss))


MADE = Study(
    name="made",
    title="What is made up?",
    claim="All of it.",
    cells=(cell("one", "8", 0.2), cell("one", "16", 0.3), cell("two", "8", 0.4, None), cell("two", "4", 0.1)),
    tables=(
        StudyTable("all", ("pool", "size"), ("effective_task_ratio", "pool_log_loss"), baseline={"size": "8"}),
        StudyTable("wide", ("pool",), ("effective_task_ratio",), across="size"),
        StudyTable("two", ("size",), ("last_accuracy", "report_ms"), where={"pool": ("two",)}),
    ),
    charts=(
        StudyChart("size", "By size", x="size", y="effective_task_ratio", lines=("pool",)),
        StudyChart("course", "By step", x="step", y="accuracy", lines=("size",), panels="pool"),
    ),
)


def results(seeds: int = 3) -> list[Result]:
    return [
        Result("made", cell.labels, seed, cell.trial(seed, False).as_dict())
        for cell in MADE.cells
        for seed in range(seeds)
    ]


def test_results_are_kept_with_a_line_for_each_cell(tmp_path):
    keep(results(), tmp_path / "one.ndjson")
    assert len((tmp_path / "one.ndjson").read_text().splitlines()) == len(MADE.cells)
    assert kept(tmp_path) == results()


def test_a_stopped_run_continues_where_it_stopped(tmp_path):
    path, trials = tmp_path / "trials.ndjson", planned([MADE], seeds=3)
    done = results()[2]
    marked = done.line().replace('"steps":40', '"steps":41')  # so that it is seen to be the one that was there
    path.write_text(marked + results()[5].line()[:-1])
    found = in_order(finished(trials, path, quick=False, processes=1), [MADE])
    assert [one.key for one in found] == [one.key for one in results()]
    assert [one.measures["steps"] for one in found if one.key == done.key] == [41]
    assert [one for one in found if one.key != done.key] == [one for one in results() if one.key != done.key]
    assert in_order(read_results([path]), [MADE]) == found
    before = path.read_text()
    assert len(list(finished(trials, path, quick=False, processes=1))) == len(found)
    assert sorted(path.read_text()) == sorted(before)


def test_the_command_shows_tables_and_then_the_same_trials_as_json(tmp_path, monkeypatch, capsys):
    options = ("studies", "sizes", "--quick", "--processes", "1", "--output", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [*options])
    main()
    shown = capsys.readouterr()
    monkeypatch.setattr(sys, "argv", [*options, "--json"])
    main()
    study = STUDIES["sizes"]
    found = [Result(**json.loads(line)) for line in capsys.readouterr().out.splitlines()]
    assert [one.labels for one in found] == [cell.labels for cell in study.cells]
    for table in study.tables:
        assert len(rendered(study, table, found).splitlines()) > 2
        assert rendered(study, table, found) in shown.out
    assert "left:" in shown.err
    assert len(list(tmp_path.glob("*.ndjson"))) == 1


ALL, WIDE, TWO = MADE.tables


def test_a_table_has_a_row_for_each_cell_by_number_and_no_difference_of_the_baseline_itself():
    half = student.ppf(0.975, 2) * 0.1 / sqrt(3)
    lines = rendered(MADE, ALL, results()).splitlines()
    assert lines[0] == "| pool | size | ETR | difference | pool log loss | difference |"
    assert [line.split(" | ")[:2] for line in lines[2:]] == [
        ["| one", "8"],
        ["| one", "16"],
        ["| two", "4"],
        ["| two", "8"],
    ]
    assert lines[2] == f"| one | 8 | 0.300 ± {half:.3f} |  | 0.400 |  |"
    assert lines[3] == f"| one | 16 | 0.400 ± {half:.3f} | +0.100 ± 0.000 | 0.400 | +0.000 |"
    assert lines[5] == f"| two | 8 | 0.500 ± {half:.3f} |  |  |  |"  # a method without a belief has no log loss


def course(*accuracy: float, steps: int = 80, rollouts: float = 800.0) -> dict[str, Any]:
    """Return the measures of a trial whose accuracy was kept every 20 steps."""
    spent = np.linspace(0, rollouts, len(accuracy)).tolist()
    return {"accuracy": list(accuracy), "steps": steps, "rollouts": rollouts, "rollouts_spent": spent}


BASELINE = course(0.2, 0.3, 0.3, 0.4, 0.5)


@pytest.mark.parametrize(("wanted", "where"), [(0.0, 0), (0.2, 0), (0.25, 5), (0.4, 20), (0.45, 60), (0.7, inf)])
def test_a_value_is_reached_between_two_points(wanted, where):
    assert first_reached([0.2, 0.3, 0.4, 0.3, 0.6], wanted, [0, 10, 20, 55, 65]) == pytest.approx(where)


def test_rollouts_to_the_baselines_end():
    assert rollouts_to_end(course(0.2, 0.4, 0.6, 0.5, 0.5), BASELINE) == pytest.approx(0.375)
    assert rollouts_to_end(course(0.2, 0.4, 0.4, 0.4, 0.49), BASELINE) == inf
    assert rollouts_to_end(BASELINE, BASELINE) == 1


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        ([0.5, 0.7, 0.6], "0.60"),
        ([0.5, inf, 0.6], "0.60, 1 of 3 never"),
        ([0.5, inf, inf], "never, 2 of 3"),
        ([0.5, inf], "never, 1 of 2"),
    ],
)
def test_a_run_that_never_gets_there_counts_as_the_longest(found, shown):
    pairs: list[Any] = [({"value": value}, {}) for value in found]
    assert until(lambda ours, _theirs: ours["value"], pairs) == shown


def test_a_table_compares_the_seeds_that_both_have():
    cells = tuple(Cell({"method": name}, lambda _seed, _quick: None) for name in ("base", "other"))  # type: ignore[arg-type,return-value]
    table = StudyTable(
        "ends",
        ("method",),
        (),
        comparisons=(Comparison("rollouts", {"method": "base"}, partial(until, rollouts_to_end)),),
    )
    study = Study("one", "?", ".", cells, (table,))
    fast, never = course(0.2, 0.4, 0.6, 0.5, 0.5), course(0.1, 0.1, 0.1, 0.1, 0.1)
    results = [
        Result("one", {"method": "base"}, 0, BASELINE),
        Result("one", {"method": "base"}, 1, BASELINE),
        Result("one", {"method": "other"}, 0, fast),
        Result("one", {"method": "other"}, 1, never),
        Result("one", {"method": "other"}, 2, fast),
    ]
    lines = rendered(study, table, results).splitlines()
    assert lines[0] == "| method | rollouts |"
    assert lines[2] == "| base |  |"
    assert lines[3] == "| other | never, 1 of 2 |"


@pytest.mark.parametrize("name", list(STUDIES))
def test_each_cell_gives_measures_and_each_table_shows_some(name):
    study = STUDIES[name]
    found = [trial.made(quick=True) for trial in planned([study], seeds=1)]
    assert len(found) == len(study.cells)
    for result in found:
        assert set(result.measures) == set(Measures.__dataclass_fields__)
        assert 0 <= result.measures["effective_task_ratio"] <= 1
    for table in study.tables:
        assert len(rendered(study, table, found).splitlines()) > 2, table.name


@pytest.mark.parametrize("name", list(STUDIES))
def test_each_cell_has_its_own_labels_and_can_go_to_another_process(name):
    study = STUDIES[name]
    keys = [label_key(cell.labels) for cell in study.cells]
    assert len(set(keys)) == len(keys)
    assert len({tuple(cell.labels) for cell in study.cells}) == 1  # the same columns
    for cell in study.cells:
        ForkingPickler.dumps(cell.trial)


@pytest.mark.parametrize("name", list(STUDIES))
def test_a_seed_gives_the_same_again_and_another_one_does_not(name):
    cell = STUDIES[name].cells[-1]
    first, again, other = (cell.trial(seed, True).as_dict() for seed in (0, 0, 1))
    timings = ("select_seconds", "report_seconds")
    compared = [{key: value for key, value in one.items() if key not in timings} for one in (first, again, other)]
    assert compared[0] == compared[1]
    assert compared[0] != compared[2]
