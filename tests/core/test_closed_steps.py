"""The steps that some reports closed, read again from a journal."""

import numpy as np

from bots_service.core.entries import Report
from bots_service.core.groups import GroupParts
from bots_service.core.summary.tags import closed_steps_of
from tests.core.journals import evidence_of


def reported(task: int, made_at: int | None) -> Report:
    return Report(evidence_of((task, 1.0, 3.0)), made_at, close=None)


def test_a_group_whose_first_part_came_before_the_steps_is_whole_in_its_step():
    of_two = [np.array([value]) for value in (2.0, 1.0, 1.0, 0.0, 1.0, 1.0)]
    part = Report(evidence_of(), None, close=None, parts=GroupParts(np.array([1], np.int32), *of_two), at=1e9)
    (step,) = closed_steps_of([(2, part)], {2: (1, 1)}, longest_lag=1, lease_s=3600.0, earlier=[part])
    assert (step.evidence.tasks.tolist(), step.evidence.successes.tolist()) == ([1], [2.0])


def test_outcomes_that_are_too_late_to_count_are_in_no_step():
    reports = [
        (1, reported(1, None)),
        (2, reported(2, 0)),
        (3, reported(3, 2)),
        (4, reported(4, 0)),
        (5, reported(5, 3)),
    ]
    closings = {1: (1, 1), 2: (2, 1), 3: (3, 1), 5: (4, 1)}
    steps = closed_steps_of(reports, closings, longest_lag=1, lease_s=3600.0)
    assert [step.evidence.tasks.tolist() for step in steps] == [[1], [2], [3], [5]]
    assert all(np.array_equal(step.evidence.successes, [1.0]) for step in steps)
