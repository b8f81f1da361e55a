"""What rollouts cost: sums by step and in all; late, expired and aborted rollouts; bytes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.codec import decode_state, encode_state
from bots_service.core.entries import Report
from bots_service.core.evidence import NO_COSTS, Costs
from bots_service.core.run_settings import settings_from
from bots_service.core.state import RunState
from tests.core.journals import Story, pool_of, replay, report_of, stories

amounts = st.integers(0, 10**6).map(float)
POOL = pool_of((0.5,), (0.5,), (0.5,))


def added(one: Costs, other: Costs) -> Costs:
    return Costs(one.tokens + other.tokens, one.seconds + other.seconds)


@st.composite
def costly_stories(draw: st.DrawFn) -> Story:
    """Draw a journal whose reports say what they cost."""
    story = draw(stories(max_entries=8))
    entries = [
        replace(entry, body=costly(entry.body, draw(amounts), draw(amounts)))
        if isinstance(entry.body, Report)
        else entry
        for entry in story.entries
    ]
    return replace(story, entries=entries)


def costly(report: Report, tokens: float, seconds: float = 0.0) -> Report:
    return replace(report, costs=Costs(tokens, seconds))


def spent(state: RunState) -> Costs:
    return Costs(state.totals.tokens, state.totals.seconds)


@given(costly_stories())
def test_costs_of_steps_and_of_the_run_are_those_of_its_reports(story: Story):
    state, receipts = story.replayed()
    waiting, closed = NO_COSTS, NO_COSTS
    for entry, receipt in zip(story.entries, receipts, strict=True):
        if not isinstance(entry.body, Report):
            continue
        waiting = added(waiting, entry.body.costs)
        assert (receipt.tokens, receipt.seconds) == waiting
        if receipt.closed:
            waiting, closed = NO_COSTS, added(closed, waiting)
    assert (spent(state), state.open_step.costs) == (closed, waiting)
    again = decode_state(encode_state(state))
    assert (spent(again), again.open_step.costs) == (closed, waiting)


@pytest.mark.parametrize("kind", ["bots", "tracker"])
def test_rollouts_that_were_aborted_or_came_too_late_still_cost(kind: str):
    steps = [report_of((0, 1.0, 1.0))] * 66
    late = costly(report_of((1, 1.0, 3.0), made_at=0), 500.0)
    aborted = costly(report_of(), 70.0, 2.5)
    state = replay(POOL, [*steps, late, aborted, report_of((2, 1.0, 1.0))], settings_from({"belief": kind}))
    assert spent(state) == Costs(570.0, 2.5)
