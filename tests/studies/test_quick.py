"""Every cell of every study runs, in its quick form; labels, tables and charts fit together."""

from multiprocessing.reduction import ForkingPickler

import pytest

from studies.catalogue import STUDIES
from studies.results import Result, planned
from studies.study import label_key
from studies.tables import rendered
from studies.trial import Measures


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return [trial.made(quick=True) for trial in planned(STUDIES.values(), seeds=1)]


@pytest.mark.parametrize("name", list(STUDIES))
def test_each_cell_gives_measures_and_each_table_shows_some(results, name):
    study = STUDIES[name]
    found = [result for result in results if result.study == name]
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
def test_tables_and_charts_name_labels_that_there_are(name):
    study = STUDIES[name]
    labels = set(study.cells[0].labels)
    assert len({table.name for table in study.tables}) == len(study.tables)
    for table in study.tables:
        named = {*table.columns, *table.where, *(table.baseline or {}), *([table.across] if table.across else [])}
        assert named <= labels, table.name
        rows = [tuple(cell.labels[column] for column in named) for cell in study.cells if table.shows(cell.labels)]
        assert len(set(rows)) == len(rows), f"{table.name}: two cells look alike"
    for chart in study.charts:
        shown = [cell.labels for cell in study.cells if chart.shows(cell.labels)]
        assert shown, chart.name
        assert {*chart.where, *chart.lines, *([chart.panels] if chart.panels else [])} <= labels
        lines = [tuple(cell[name] for name in (*chart.lines, chart.panels, chart.x) if name in cell) for cell in shown]
        assert len(set(lines)) == len(lines), f"{chart.name}: two cells in one place"


@pytest.mark.parametrize("name", list(STUDIES))
def test_a_seed_gives_the_same_again_and_another_one_does_not(name):
    cell = STUDIES[name].cells[-1]
    first, again, other = (cell.trial(seed, True).as_dict() for seed in (0, 0, 1))
    timings = ("select_seconds", "report_seconds", *(["extra"] if name == "overhead" else []))
    compared = [{key: value for key, value in one.items() if key not in timings} for one in (first, again, other)]
    assert compared[0] == compared[1]
    assert compared[0] != compared[2]
