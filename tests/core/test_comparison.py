"""A journal folded again under other beliefs: each predicts what a replay under it alone would have predicted."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from msgspec import structs

from bots_service.core.comparison import OWN, SCHEDULE, ComparedBelief, compared, present
from bots_service.core.entries import Body, Entry, Rewind, SettingsChange
from bots_service.core.receipt import Receipt
from bots_service.core.run_settings import RunSettings, settings_from
from bots_service.core.state import advance, fresh_state
from tests.core.journals import Story, pool_of, report_of, stories

BOTS, TRACKER = settings_from({"belief": "bots"}), settings_from({"belief": "tracker"})
OTHERS = {"tracker": TRACKER, "bots": BOTS}
POOL = pool_of((0.25, 0.75), (0.5, 0.875), (0.25, 0.75), (math.nan, math.nan), carried=[0, 1, 1, 0])


def entries_of(*bodies: Body) -> list[Entry]:
    return [Entry(seq, 0, POOL.profiles, body) for seq, body in enumerate(bodies, start=1)]


def replayed_under(belief: RunSettings, story: Story) -> list[Receipt]:
    """Return the receipts of a run that had the belief from the beginning."""
    schedule = {name: getattr(story.settings, name) for name in SCHEDULE}
    state, receipts = fresh_state(structs.replace(belief, **schedule), story.pool), []
    for entry in story.entries:
        body = entry.body
        if isinstance(body, SettingsChange):
            body = SettingsChange({name: body.values[name] for name in SCHEDULE if name in body.values})
        state, receipt = advance(state, replace(entry, body=body), story.pool)
        receipts.append(receipt)
    return receipts


def assert_scored(found: ComparedBelief, receipts: Sequence[Receipt]) -> None:
    scored = [one for one in receipts if one.closed and one.log_loss is not None and one.brier is not None]
    rollouts = sum(one.rollouts for one in scored)
    if not scored:
        assert (found.log_loss, found.brier) == (None, None)
        return
    sums = [sum(one.rollouts * float(getattr(one, name) or 0) for one in scored) for name in ("log_loss", "brier")]
    assert [found.log_loss, found.brier] == pytest.approx([each / rollouts for each in sums], rel=1e-12)


@given(stories())
@settings(max_examples=40)
def test_each_belief_predicts_what_a_replay_under_it_would_have_predicted(story: Story):
    found = compared(story.entries, story.settings, OTHERS, story.pool)
    _, receipts = story.replayed()
    scored = [one for one in receipts if one.closed and one.log_loss is not None]
    assert [one.belief for one in found.beliefs] == [OWN, *OTHERS]
    assert (found.steps, found.rollouts) == (len(scored), sum(one.rollouts for one in scored))
    assert_scored(found.beliefs[0], receipts)
    for one, belief in zip(found.beliefs[1:], OTHERS.values(), strict=True):
        assert_scored(one, replayed_under(belief, story))


def test_a_rewind_takes_every_belief_back():
    kept = [report_of((0, 3.0, 5.0)), report_of((1, 8.0, 0.0))]
    after = [report_of((0, 1.0, 7.0)), report_of((2, 4.0, 4.0))]
    undone, waiting = report_of((0, 8.0, 0.0)), report_of((0, 8.0, 0.0), close=False)
    straight = compared(entries_of(*kept, *after), BOTS, OTHERS, POOL)
    rewound = [
        *entries_of(*kept, undone, waiting),
        Entry(5, 1, POOL.profiles, Rewind(2, 2)),
        *(Entry(6 + place, 1, POOL.profiles, body) for place, body in enumerate(after)),
    ]
    assert [entry.seq for entry in present(rewound)] == [1, 2, 5, 6, 7]
    assert compared(rewound, BOTS, OTHERS, POOL) == straight
    assert compared(entries_of(*kept, undone, *after), BOTS, OTHERS, POOL) != straight


def test_of_a_journal_without_outcomes_nothing_is_said():
    found = compared(entries_of(report_of(close=True)), BOTS, OTHERS, POOL)
    assert (found.steps, found.rollouts) == (0, 0.0)
    assert found.beliefs[0] == ComparedBelief(OWN, None, None)
