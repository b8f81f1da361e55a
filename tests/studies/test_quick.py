"""Every cell of every study runs, in its quick form; labels and tables fit together."""

from multiprocessing.reduction import ForkingPickler

import pytest

from studies.catalogue import STUDIES
from studies.results import planned
from studies.study import label_key
from studies.tables import rendered
from studies.trial import Measures


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
    timings = ("select_seconds", "report_seconds", *(["extra"] if name == "overhead" else []))
    compared = [{key: value for key, value in one.items() if key not in timings} for one in (first, again, other)]
    assert compared[0] == compared[1]
    assert compared[0] != compared[2]
