"""The groups that an open step holds, parted where `tasks_per_step` closes it."""

from dataclasses import replace

import pytest

from bots_service.core.entries import Entry, Report
from bots_service.core.evidence import Costs
from bots_service.core.run_settings import settings_from
from bots_service.core.state import advance, fresh_state
from tests.core.journals import evidence_of, pool_of

POOL = pool_of(*[(0.5, 0.5)] * 20)


def closings(belief: str, *reports: list[int]) -> tuple[list[int], list[int]]:
    """Return how many groups the steps had that these reports closed, and which wait at last."""
    state, counts = fresh_state(settings_from({"belief": belief, "tasks_per_step": 4}), POOL), []
    for seq, tasks in enumerate(reports, start=1):
        told = Report(evidence_of(*((task, 1.0, 3.0) for task in tasks)), 0, None)
        body = replace(told, costs=Costs(float(len(tasks))))
        state, receipt = advance(state, Entry(seq, 0, POOL.profiles, body), POOL)
        if receipt.closed:
            counts.append(receipt.reported)
            assert receipt.rollouts == 4 * receipt.reported
    assert state.totals.reported == sum(counts)
    assert state.totals.tokens + state.open_step.costs.tokens == sum(map(len, reports))
    return counts, state.open_step.evidence.tasks.tolist()


@pytest.mark.parametrize("belief", ["tracker", "bots"])
def test_a_step_has_exactly_the_groups_that_came_first_and_the_others_begin_the_next_one(belief: str):
    assert closings(belief, [0, 1, 2], [3, 4, 5], [6], [7], [8]) == ([4, 4], [8])
    assert closings(belief, [0, 1, 2, 3], [4]) == ([4], [4])
    assert closings(belief, list(range(9)), [9, 10, 11]) == ([8, 4], [])  # one report, one step


@pytest.mark.parametrize("belief", ["tracker", "bots"])
def test_what_waits_for_long_is_never_too_old_to_fold(belief: str):
    state = fresh_state(settings_from({"belief": belief, "tasks_per_step": 2}), POOL)
    for seq in range(1, 200):
        tasks = [seq % 20, (seq + 1) % 20, (seq + 2) % 20][: 2 + seq % 2]
        body = Report(evidence_of(*((task, 1.0, 3.0) for task in tasks)), max(state.step - 64, 0), None)
        state, receipt = advance(state, Entry(seq, 0, POOL.profiles, body), POOL)
        assert receipt.closed
    assert state.step == 199
