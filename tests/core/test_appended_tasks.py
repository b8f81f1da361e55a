"""An appended task begins with what its references and its tags tell of it, as if it had been there all along."""

import numpy as np
import pytest

from bots_service.core.belief import KINDS
from bots_service.core.entries import Entry, Report
from bots_service.core.evidence import Evidence
from bots_service.core.pool import Pool
from bots_service.core.run_settings import settings_from
from bots_service.core.state import advance, fresh_state
from tests.core.pools import tasks

RATES = np.array([[0.25, 0.75], [0.5, 0.5], [0.25, 0.75], [0.0, 1.0]])
TAGGED = {"hard": tasks(1, 3)}
# Of the appended tasks, the first is like task 0; the next two combine a row and a tag as none before; the last's rates
# are new.
MORE = np.array([[0.25, 0.75], [0.25, 0.75], [0.5, 0.5], [0.375, 0.875]])
APPENDED, TAGGED_ALL = (4, 5, 6, 7), {"hard": tasks(1, 3, 5, 7)}
BEFORE = Pool.of_tasks(RATES, TAGGED, ("hard",))
AFTER = Pool.of_tasks(np.concatenate([RATES, MORE]), TAGGED_ALL, ("hard",))


def reports(steps):
    for step in range(steps):
        solved = np.array([5.0, 1.0, 6.0, 2.0]) + step % 3 / 4
        yield Report(Evidence(tasks(0, 1, 2, 3), solved, 8.0 - solved, np.ones(4, bool)), step, None)


def believed(kind, *, appended_after, steps=20):
    state = fresh_state(settings_from({"belief": kind}), BEFORE)
    for seq, report in enumerate(reports(steps), 1):
        pool = BEFORE if seq <= appended_after else AFTER
        state, _ = advance(state, Entry(seq, 0, pool.profiles, report), AFTER)
    found = state.belief.distributions(AFTER, tasks(*APPENDED))
    return found.mean, found.effective(8.0), found.interval()[0]


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("after", [0, 7, 20])
def test_an_appended_task_is_believed_as_if_it_had_been_there_all_along(kind, after):
    assert BEFORE.profiles == 3
    assert AFTER.profiles == 6  # three of the four are of new profiles
    for now, always in zip(believed(kind, appended_after=after), believed(kind, appended_after=0), strict=True):
        np.testing.assert_allclose(now, always, rtol=1e-12)


def test_the_tracker_knows_an_appended_task_by_its_tag_and_its_references():
    mean, _, _ = believed("tracker", appended_after=20)
    assert mean[1] < mean[0]  # what was tagged hard was solved less often than its references tell
    fresh = fresh_state(settings_from({}), AFTER).belief.distributions(AFTER, tasks(*APPENDED)).mean
    assert (np.abs(mean - fresh) > 0.02).all()


def test_bots_knows_an_appended_task_by_its_references_alone():
    mean, _, _ = believed("bots", appended_after=20)
    assert mean[0] == mean[1]
