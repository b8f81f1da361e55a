"""The table of tasks: what the belief says of each task asked for, although each distribution is computed once."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.arrays import NO_TASKS
from bots_service.core.attempts import NO_VISITS, Attempts
from bots_service.core.belief.distributions import Betas
from bots_service.core.run_settings import settings_from
from bots_service.core.task_table import SEGMENTS, SOLVED_MEAN, SORTS, ordered, segments_of_pool, task_table
from tests.core.journals import Story, pool_of, replay, report_of, stories


@given(stories(), st.data())
def test_a_row_is_what_the_belief_says_of_its_task_and_its_sorts_follow(story: Story, data):
    state, pool = story.replayed()[0], story.pool
    asked = np.array(sorted(data.draw(st.sets(st.integers(0, len(pool) - 1)))), np.int32)
    segments, believed = segments_of_pool(state, pool), state.belief.distributions(pool, asked)
    table, (low, high) = task_table(state, pool, asked, segments), believed.interval()
    expected: dict[str, np.ndarray] = {
        "mean": believed.mean,
        "low": low,
        "high": high,
        "effective": believed.effective(state.group_size),
        "variance": believed.rollout_variance,
        "attempts": state.attempts.of(asked).rollouts,
        "successes": state.attempts.of(asked).successes,
        "visits": state.attempts.of(asked).visits,
        "last_step": state.attempts.of(asked).last_step,
    }
    expected |= {"alpha": believed.alpha, "beta": believed.beta} if isinstance(believed, Betas) else {}
    for name, column in expected.items():
        np.testing.assert_allclose(table[name], column, rtol=1e-12, err_msg=name)
    assert table["tasks"].tolist() == asked.tolist()
    assert ({"alpha", "beta"} <= table.keys()) == isinstance(believed, Betas)
    np.testing.assert_array_equal(table["segment"], segments[asked])
    by = expected | {"index": asked, "distance": np.abs(believed.mean - state.settings.target)}
    for sort in SORTS:
        np.testing.assert_allclose(ordered(sort, state, pool, asked), by[sort], rtol=1e-12, atol=1e-15)
        np.testing.assert_array_equal(ordered(f"-{sort}", state, pool, asked), -ordered(sort, state, pool, asked))


@pytest.mark.parametrize(
    ("setting", "reported", "expected"), [(None, [], 16), (8, [], 8), (None, [4, 8], 6), (8, [4], 8)]
)
def test_effective_is_of_the_run_s_group_size(setting, reported, expected):
    pool = pool_of((0.25, 0.75), (0.5, 0.875))
    bodies = [report_of((0, 1.0, trials - 1.0)) for trials in reported]
    state = replay(pool, bodies, settings_from({"belief": "bots", "rollouts_per_task": setting}))
    asked = np.array([1], np.int32)
    believed = state.belief.distributions(pool, asked)
    table = task_table(state, pool, asked, segments_of_pool(state, pool))
    assert table["effective"] == pytest.approx(believed.effective(expected))
    assert believed.effective(expected) != pytest.approx(believed.effective(expected + 1))


# --- segments of tasks, against the words that define them -----------------------------------------------------------


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
            expected.append("unsolved")
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
        assert [SEGMENTS[place] for place in found] == ["untried", "unsolved", "teaching", "solved", "retired"]


def test_a_success_of_long_ago_counts_more_than_failures_since():
    pool = pool_of((0.25, 0.75))
    bodies = [report_of((0, 0.25, 3.75)), *[report_of((0, 0.0, 4.0))] * 20]
    state = replay(pool, bodies, settings_from({"belief": "bots"}))
    assert SEGMENTS[segments_of_pool(state, pool)[0]] == "teaching"
