"""The steps that some reports closed, read again from a journal."""

import numpy as np

from bots_service.core.entries import Report
from bots_service.core.summary.tags import closed_steps_of
from tests.core.journals import evidence_of


def reported(task: int, made_at: int | None) -> Report:
    return Report(evidence_of((task, 1.0, 3.0)), made_at, close=None)


def test_outcomes_that_are_too_late_to_count_are_in_no_step():
    reports = [
        (1, reported(1, None)),
        (2, reported(2, 0)),
        (3, reported(3, 2)),
        (4, reported(4, 0)),
        (5, reported(5, 3)),
    ]
    closings = {1: 1, 2: 2, 3: 3, 5: 4}
    steps = closed_steps_of(reports, closings, longest_lag=1)
    assert [step.evidence.tasks.tolist() for step in steps] == [[1], [2], [3], [5]]
    assert all(np.array_equal(step.evidence.successes, [1.0]) for step in steps)
