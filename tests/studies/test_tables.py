"""Tables show means, their intervals, and differences that are paired by seed."""

from dataclasses import replace
from math import isnan, sqrt

import pytest
from scipy.stats import t as student
from scipy.stats import ttest_1samp, ttest_rel

from studies.tables import all_tables, difference_of, interval_of, measure_named, rendered, values_of
from tests.studies.made import MADE, results

ALL, WIDE, TWO = MADE.tables


def test_an_interval_is_that_of_students_t():
    values = [0.4, 0.5, 0.7]
    expected = ttest_1samp(values, 0).confidence_interval(0.95)
    interval = interval_of(values)
    assert (interval.mean - interval.half_width, interval.mean + interval.half_width) == pytest.approx(
        (expected.low, expected.high)
    )
    assert isnan(interval_of([0.4]).half_width)


def test_a_difference_is_paired_by_seed_whatever_the_order():
    group = [result for result in results() if result.labels == {"pool": "one", "size": "16"}]
    values = [0.9, 0.2, 0.5]
    group = [
        replace(one, measures={**one.measures, "effective_task_ratio": value})
        for one, value in zip(group, values, strict=True)
    ]
    baseline = [result for result in results() if result.labels == {"pool": "one", "size": "8"}]
    found = difference_of(group, baseline[::-1], "effective_task_ratio")
    assert found is not None
    theirs = [one.measures["effective_task_ratio"] for one in baseline]
    expected = ttest_rel(values, theirs).confidence_interval(0.95)
    assert (found.mean - found.half_width, found.mean + found.half_width) == pytest.approx(
        (expected.low, expected.high)
    )


def test_only_seeds_that_both_have_are_compared():
    group, baseline = results(3)[3:6], results(2)[:2]
    found = difference_of(group, baseline, "effective_task_ratio")
    assert found is not None
    assert found.mean == pytest.approx(0.1)
    assert difference_of(group, [], "effective_task_ratio") is None


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


def test_a_label_can_have_a_column_for_each_value():
    assert rendered(MADE, WIDE, results()).splitlines() == [
        "| pool | size 4 | size 8 | size 16 |",
        "|---|---:|---:|---:|",
        "| one |  | 0.300 | 0.400 |",
        "| two | 0.200 | 0.500 |  |",
    ]


def test_costs_are_of_a_step():
    row = rendered(MADE, TWO, results()).splitlines()[2]
    assert row == "| 4 | 0.300 | 1.00 |"


def test_cells_without_results_have_no_row():
    found = [result for result in results() if result.labels["size"] != "16"]
    assert len(rendered(MADE, ALL, found).splitlines()) == 5
    assert all_tables(MADE, found).count("\n| one |") == 2


def test_an_extra_is_shown_by_its_name():
    one = replace(results()[0], measures={**results()[0].measures, "extra": {"paid_after": 12.0}})
    assert measure_named("paid_after").heading == "paid after"
    assert values_of([one], "paid_after") == [12.0]
    assert values_of([one, results()[1]], "paid_after") is None  # not of every seed
