"""What courses of accuracy say of each other, on courses whose answers are known by hand."""

from functools import partial
from math import inf
from typing import Any

import numpy as np
import pytest

from studies.progress import first_reached, points, rollouts_to_end, steps_to_end, until
from studies.results import Result
from studies.study import Cell, Comparison, Study, StudyTable
from studies.tables import rendered


def course(*accuracy: float, steps: int = 80, rollouts: float = 800.0) -> dict[str, Any]:
    """Return the measures of a trial whose accuracy was kept every 20 steps."""
    spent = np.linspace(0, rollouts, len(accuracy)).tolist()
    return {"accuracy": list(accuracy), "steps": steps, "rollouts": rollouts, "rollouts_spent": spent}


BASELINE = course(0.2, 0.3, 0.3, 0.4, 0.5)


@pytest.mark.parametrize(("wanted", "where"), [(0.0, 0), (0.2, 0), (0.25, 5), (0.4, 20), (0.45, 60), (0.7, inf)])
def test_a_value_is_reached_between_two_points(wanted, where):
    assert first_reached([0.2, 0.3, 0.4, 0.3, 0.6], wanted, [0, 10, 20, 55, 65]) == pytest.approx(where)


def test_points_stand_every_20_steps_and_at_the_end():
    assert points(course(1, 2, 3, 4, 5)) == [0, 0.25, 0.5, 0.75, 1]
    assert points(course(1, 2, 3, steps=25)) == [0, 0.8, 1]


def test_steps_to_the_baselines_end():
    assert steps_to_end(course(0.2, 0.4, 0.6, 0.5, 0.5), BASELINE) == pytest.approx(0.375)
    assert steps_to_end(course(0.2, 0.4, 0.4, 0.4, 0.49), BASELINE) == inf
    assert steps_to_end(BASELINE, BASELINE) == 1


def test_rollouts_count_against_all_of_the_baselines():
    costly = course(0.2, 0.4, 0.6, 0.6, 0.6, rollouts=3200.0)
    assert rollouts_to_end(costly, BASELINE) == pytest.approx(1200 / 800)
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
        "ends", ("method",), (), comparisons=(Comparison("steps", {"method": "base"}, partial(until, steps_to_end)),)
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
    assert lines[0] == "| method | steps |"
    assert lines[2] == "| base |  |"
    assert lines[3] == "| other | never, 1 of 2 |"
