"""Results survive being kept, and trials are made once."""

import json
import sys

from studies.__main__ import finished, main
from studies.catalogue import STUDIES
from studies.results import Result, in_order, keep, kept, planned, read_results
from studies.tables import rendered
from tests.studies.made import MADE, results


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
