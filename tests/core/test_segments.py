"""Segments of tasks, against the words that define them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from bots_service.core.arrays import NO_TASKS
from bots_service.core.attempts import NO_VISITS, Attempts
from bots_service.core.run_settings import settings_from
from bots_service.core.task_table import SEGMENTS, SOLVED_MEAN, segments_of_pool
from tests.core.journals import Story, pool_of, replay, report_of, stories


@given(stories())
def test_each_task_is_in_the_segment_that_its_attempts_and_its_mean_say(story: Story):
    state, pool = story.replayed()[0], story.pool
    everyone = np.arange(len(pool), dtype=np.int32)
    pool = replace(pool, retired=everyone[::3])
    tried, means = state.attempts.of(everyone), state.belief.distributions(pool, everyone).mean.tolist()
    expected = []
    for task, (visits, successes) in enumerate(zip(tried.visits.tolist(), tried.successes.tolist(), strict=True)):
        if task % 3 == 0:
            expected.append("retired")
        elif task in state.aborts.always_aborted:
            expected.append("aborting")
        elif visits == 0:
            expected.append("untried")
        elif successes == 0:
            expected.append("stuck")
        else:
            expected.append("solved" if means[task] >= SOLVED_MEAN else "teaching")
    assert [SEGMENTS[place] for place in segments_of_pool(state, pool)] == expected


@pytest.mark.parametrize("kind", ["bots", "tracker"])
def test_every_segment_is_reached(kind: str):
    pool = replace(pool_of(*[(0.5, 0.5)] * 5), retired=np.array([4], np.int32))
    often = [report_of((1, 0.0, 16.0), (2, 8.0, 8.0), (3, 16.0, 0.0), (4, 8.0, 8.0))] * 4
    state = replay(pool, often, settings_from({"belief": kind}))
    for attempts in (state.attempts, Attempts(state.attempts.whole, NO_VISITS, NO_TASKS)):
        found = segments_of_pool(replace(state, attempts=attempts), pool)
        assert [SEGMENTS[place] for place in found] == ["untried", "stuck", "teaching", "solved", "retired"]


def test_a_success_of_long_ago_counts_more_than_failures_since():
    pool = pool_of((0.25, 0.75))
    bodies = [report_of((0, 0.25, 3.75)), *[report_of((0, 0.0, 4.0))] * 20]
    state = replay(pool, bodies, settings_from({"belief": "bots"}))
    assert SEGMENTS[segments_of_pool(state, pool)[0]] == "teaching"
