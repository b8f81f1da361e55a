"""Results survive being kept, and trials are made once."""

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from time import sleep

import psutil
import pytest

from studies.__main__ import finished
from studies.catalogue import STUDIES
from studies.results import Result, in_order, keep, kept, planned, read_results, replace_kept
from studies.tables import rendered
from tests.studies.made import MADE, results

ROOT = Path(__file__).parents[2]


def test_results_are_kept_with_a_line_for_each_cell(tmp_path):
    keep(results(), tmp_path / "one.ndjson")
    assert len((tmp_path / "one.ndjson").read_text().splitlines()) == len(MADE.cells)
    assert kept(tmp_path) == results()


def test_values_that_are_equal_for_all_seeds_are_written_once(tmp_path):
    keep(results(), tmp_path / "one.ndjson")
    columns = json.loads((tmp_path / "one.ndjson").read_text().splitlines()[0])["measures"]
    assert columns["accuracy"] == [[0.1, 0.2, 0.3]]
    assert columns["effective_task_ratio"] == pytest.approx([0.2, 0.3, 0.4])


def test_new_results_replace_those_of_the_same_study_alone(tmp_path):
    line = {"study": "other", "labels": {}, "seeds": [0], "measures": {"steps": [1]}}
    replace_kept(results(2), "old", tmp_path)
    with (tmp_path / "old.ndjson").open("a") as file:
        file.write(json.dumps(line) + "\n")
    replace_kept(results(3), "new", tmp_path)
    found = kept(tmp_path)
    assert [one for one in found if one.study == "made"] == results(3)
    assert [one.study for one in found if one.study != "made"] == ["other"]
    replace_kept(results(1), "new", tmp_path)
    assert len(kept(tmp_path)) == len(MADE.cells) + 1


def test_a_last_line_that_was_not_finished_is_skipped(tmp_path):
    path = tmp_path / "trials.ndjson"
    path.write_text(results()[0].line() + results()[1].line()[:-20])
    assert list(read_results([path])) == results()[:1]


@pytest.mark.parametrize("processes", [1, 2])
def test_a_stopped_run_continues_where_it_stopped(tmp_path, processes):
    path, trials = tmp_path / "trials.ndjson", planned([MADE], seeds=3)
    done = results()[2]
    marked = done.line().replace('"steps":40', '"steps":41')  # so that it is seen to be the one that was there
    path.write_text(marked + results()[5].line()[:-1])
    found = in_order(finished(trials, path, quick=False, processes=processes), [MADE])
    assert [one.key for one in found] == [one.key for one in results()]
    assert [one.measures["steps"] for one in found if one.key == done.key] == [41]
    assert [one for one in found if one.key != done.key] == [one for one in results() if one.key != done.key]
    assert in_order(read_results([path]), [MADE]) == found
    before = path.read_text()
    assert len(list(finished(trials, path, quick=False, processes=processes))) == len(found)
    assert sorted(path.read_text()) == sorted(before)


def test_another_study_leaves_the_results_that_the_file_has(tmp_path):
    path = tmp_path / "trials.ndjson"
    other = replace(results()[0], study="other")
    path.write_text(other.line() + results()[5].line()[:-1])
    found = list(finished(planned([MADE], seeds=1), path, quick=False, processes=1))
    assert {one.study for one in found} == {"made"}
    assert list(read_results([path])) == [other, *found]


def test_each_seed_of_all_cells_comes_before_the_next():
    assert [trial.seed for trial in planned([MADE], seeds=2)] == [0] * len(MADE.cells) + [1] * len(MADE.cells)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "studies", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_the_command_shows_tables_and_then_the_same_trials_as_json(tmp_path):
    options = ("beliefs", "--quick", "--processes", "1", "--output", str(tmp_path))
    shown, as_json = command(*options), command(*options, "--json")
    assert shown.returncode == as_json.returncode == 0, shown.stderr + as_json.stderr
    study = STUDIES["beliefs"]
    found = [Result(**json.loads(line)) for line in as_json.stdout.splitlines()]
    assert [one.labels for one in found] == [cell.labels for cell in study.cells]
    for table in study.tables:
        assert len(rendered(study, table, found).splitlines()) > 2
        assert rendered(study, table, found) in shown.stdout
    assert "left:" in shown.stderr
    assert len(list(tmp_path.glob("*.ndjson"))) == 1


def test_a_command_that_is_told_to_end_leaves_no_process_and_keeps_what_is_done(tmp_path):
    arguments = [sys.executable, "-m", "studies", "settings", "--quick", "--output", str(tmp_path)]
    started = subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not any(path.stat().st_size for path in tmp_path.glob("*.ndjson")):
        assert started.poll() is None
        sleep(0.05)
    workers = psutil.Process(started.pid).children(recursive=True)
    assert workers
    started.terminate()
    assert started.wait(60) == 128 + signal.SIGTERM
    _, alive = psutil.wait_procs(workers, timeout=60)
    assert alive == []
    (path,) = tmp_path.glob("*.ndjson")
    assert path.read_text().endswith("\n")
    assert 0 < len(list(read_results([path]))) < len(STUDIES["settings"].cells)


def test_an_unknown_study_is_refused_with_those_that_there_are():
    done = command("nothing")
    assert done.returncode == 2
    assert "no study nothing; there are" in done.stderr
