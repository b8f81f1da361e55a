"""The table of tasks: what the belief says of each task asked for, although each distribution is computed once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.belief.distributions import Betas
from bots_service.core.run_settings import settings_from
from bots_service.core.task_table import SORTS, ordered, segments_of_pool, task_table
from tests.core.journals import Story, pool_of, replay, report_of, stories


@given(stories(), st.data())
def test_a_row_is_what_the_belief_says_of_its_task_and_its_sorts_follow(story: Story, data):
    state, pool = story.replayed()[0], story.pool
    asked = np.array(sorted(data.draw(st.sets(st.integers(0, len(pool) - 1)))), np.int32)
    table, believed = task_table(state, pool, asked), state.belief.distributions(pool, asked)
    low, high = believed.interval()
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
        np.testing.assert_allclose(getattr(table, name), column, rtol=1e-12, err_msg=name)
    assert table.tasks.tolist() == asked.tolist()
    np.testing.assert_array_equal(table.segment, segments_of_pool(state, pool)[asked])
    by = expected | {"index": asked, "distance": np.abs(believed.mean - state.settings.target)}
    for sort in SORTS:
        np.testing.assert_allclose(ordered(sort, state, pool, asked), by[sort], rtol=1e-12, atol=1e-15)
        np.testing.assert_array_equal(ordered(f"-{sort}", state, pool, asked), -ordered(sort, state, pool, asked))


@pytest.mark.parametrize("kind", ["bots", "tracker"])
def test_tasks_that_share_a_distribution_have_equal_values_wherever_they_stand(kind: str):
    pool = pool_of(*[(rate / 4, rate / 4 + 0.25) for rate in (1, 2, 3)] * 333)
    state = replay(pool, [report_of((0, 3.0, 1.0), (500, 1.0, 1.0))], settings_from({"belief": kind}))
    everyone = np.arange(len(pool), dtype=np.int32)
    for sort in ("mean", "distance", "effective", "variance"):
        values = np.delete(ordered(sort, state, pool, everyone), [0, 500])
        assert len(set(values.tolist())) <= 3


@pytest.mark.parametrize(
    ("setting", "reported", "expected"), [(None, [], 16), (8, [], 8), (None, [4, 8], 6), (8, [4], 8)]
)
def test_effective_is_of_the_run_s_group_size(setting, reported, expected):
    pool = pool_of((0.25, 0.75), (0.5, 0.875))
    bodies = [report_of((0, 1.0, trials - 1.0)) for trials in reported]
    state = replay(pool, bodies, settings_from({"belief": "bots", "rollouts_per_task": setting}))
    asked = np.array([1], np.int32)
    believed = state.belief.distributions(pool, asked)
    assert task_table(state, pool, asked).effective == pytest.approx(believed.effective(expected))
    assert believed.effective(expected) != pytest.approx(believed.effective(expected + 1))
