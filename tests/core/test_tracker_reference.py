"""The tracker's filter against the same equations written slowly, and its kernels against dense ones."""

import numpy as np
from hypothesis import given

from bots_service.core.belief.tracker import TrackerBelief
from bots_service.core.state import RunState, advance, fresh_state
from tests.core.journals import Story, stories, tracker_settings
from tests.core.slow_tracker import SlowTracker


def assert_close(found: object, wanted: object) -> None:
    np.testing.assert_allclose(np.array(found), np.array(wanted), rtol=1e-8, atol=1e-8)


def assert_same(state: RunState, slow: SlowTracker) -> None:
    belief, tasks = state.belief, np.arange(len(slow.pool), dtype=np.int32)
    assert isinstance(belief, TrackerBelief)
    assert_close(belief.effects.mean, slow.mean)
    assert_close(belief.effects.covariance, slow.covariance)
    assert_close(belief.variances.estimates, slow.variances)
    assert belief.own_tasks.tolist() == sorted(slow.residuals)
    rows = belief.residuals.whole
    wanted = [slow.residuals[task] for task in sorted(slow.residuals)]
    found = list(zip(rows.mean.tolist(), rows.variance.tolist(), rows.last_step.tolist(), strict=True))
    assert_close(found, wanted)
    told = belief.distributions(slow.pool, tasks)
    logits = np.array([slow.logit(task) for task in tasks.tolist()]).T
    assert_close([told.location, told.variance], logits)


@given(stories(settings=tracker_settings))
def test_the_filter_is_the_joint_gaussian_written_slowly_after_every_entry(story: Story):
    slow, state = SlowTracker(story.pool, story.settings), fresh_state(story.settings, story.pool)
    for entry in story.entries:
        slow.take(entry)
        state, _ = advance(state, entry, story.pool)
        assert_same(state, slow)
