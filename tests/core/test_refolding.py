"""A journal folded again under many beliefs: each predicts what a replay under it alone would have predicted."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bots_service.core.comparison.candidates import Candidate, candidates_for, view
from bots_service.core.comparison.messages import (
    Progress,
    pack_entry,
    pack_pool,
    pack_progress,
    unpack_entry,
    unpack_pool,
    unpack_progress,
)
from bots_service.core.comparison.refold import SUMS, Scores, collected, refolded, restarted
from bots_service.core.entries import (
    Body,
    Entry,
    Forget,
    Fork,
    Report,
    Rewind,
    SettingsChange,
)
from bots_service.core.pool import WHOLE, Pool
from bots_service.core.receipt import BINS, Receipt
from bots_service.core.run_settings import RunSettings, settings_from
from bots_service.core.state import RunState, advance, fresh_state
from bots_service.core.walks import Walk
from tests.core.journals import Story, pool_of, report_of, stories

SCHEDULE = ("tasks_per_step", "rollouts_per_task")  # what a change of settings changes for every candidate
BOTS, TRACKER = settings_from({"belief": "bots"}), settings_from({"belief": "tracker"})
POOL = pool_of((0.25, 0.75), (0.5, 0.875), (0.25, 0.75), (math.nan, math.nan), carried=[0, 1, 1, 0])


def scores_of(
    start: RunState, entries: Sequence[Entry], pool: Pool, candidates: Sequence[Candidate] | None = None
) -> Scores:
    candidates = candidates or candidates_for(start.settings, pool)
    return collected(refolded(start, entries, candidates, pool), len(candidates))


def entries_of(*bodies: Body, pool: Pool = POOL) -> list[Entry]:
    return [Entry(seq, 0, pool.profiles, body) for seq, body in enumerate(bodies, start=1)]


def replayed_under(candidate: Candidate, story: Story) -> list[Receipt]:
    """Return the receipts of steps with outcomes, of a run that had the candidate's belief from the beginning."""
    seen = view(story.pool, candidate)
    schedule = {name: getattr(story.settings, name) for name in SCHEDULE}
    state, receipts = fresh_state(replace(candidate.settings, **schedule), seen.pool), []
    for entry in story.entries:
        body = entry.body
        if isinstance(body, SettingsChange):
            body = SettingsChange({name: body.values[name] for name in SCHEDULE if name in body.values})
        state, receipt = advance(state, replace(entry, profiles=seen.profiles(entry.profiles), body=body), seen.pool)
        if receipt.closed and receipt.log_loss is not None:
            receipts.append(receipt)
    return receipts


def sums_of(receipts: Sequence[Receipt]) -> np.ndarray:
    sums = np.zeros(3 * BINS)
    for receipt in receipts:
        assert receipt.calibration is not None
        sums += [*receipt.calibration.rollouts, *receipt.calibration.predicted, *receipt.calibration.solved]
    return sums


@given(stories())
@settings(max_examples=20)
def test_the_run_s_own_errors_are_those_of_its_receipts(story: Story):
    _, receipts = story.replayed()
    scored = [receipt for receipt in receipts if receipt.closed and receipt.log_loss is not None]
    found = scores_of(fresh_state(story.settings, story.pool), story.entries, story.pool)
    assert found.steps.tolist() == [receipt.step for receipt in scored]
    assert found.rollouts.tolist() == [receipt.tally.rollouts for receipt in scored]
    assert found.log_loss[:, 0].tolist() == [receipt.log_loss for receipt in scored]
    assert found.brier[:, 0].tolist() == [receipt.brier for receipt in scored]
    assert found.sums[0, : 3 * BINS].tolist() == sums_of(scored).tolist()


@given(stories(), st.integers(1, 100))
@settings(max_examples=50)
def test_each_candidate_predicts_what_a_replay_under_it_would_have_predicted(story: Story, drawn):
    candidates = candidates_for(story.settings, story.pool)
    place = 1 + drawn % (len(candidates) - 1)
    found = scores_of(fresh_state(story.settings, story.pool), story.entries, story.pool)
    expected = replayed_under(candidates[place], story)
    assert found.log_loss[:, place].tolist() == [receipt.log_loss for receipt in expected]
    assert found.brier[:, place].tolist() == [receipt.brier for receipt in expected]
    assert found.sums[place, : 3 * BINS].tolist() == sums_of(expected).tolist()


def test_the_sums_of_squares_and_of_solved_predictions_are_over_rollouts():
    found = scores_of(fresh_state(BOTS, POOL), entries_of(report_of((0, 3.0, 1.0), (3, 2.0, 6.0))), POOL)
    # Before any evidence every task is at the prior, at 1/2.
    assert found.sums[1, 3 * BINS :].tolist() == pytest.approx([12 * 0.25, 5 * 0.5])


def test_steps_without_outcomes_are_folded_and_not_scored():
    entries = entries_of(report_of((0, 3.0, 1.0)), report_of(close=True), report_of((0, 2.0, 2.0)))
    found = scores_of(fresh_state(BOTS, POOL), entries, POOL)
    assert found.steps.tolist() == [1, 3]
    expected = replayed_under(candidates_for(BOTS, POOL)[2], Story(BOTS, POOL, entries))
    assert found.log_loss[:, 2].tolist() == [receipt.log_loss for receipt in expected]


@pytest.mark.parametrize("on_time", [(), ((1, 4.0, 4.0),)], ids=["late alone", "late and on time"])
def test_evidence_that_comes_too_late_for_a_belief_does_not_change_it(on_time):
    before = [report_of((step % 3, 5.0, 3.0)) for step in range(70)]
    partial = [report_of(*on_time, made_at=70, close=False)] if on_time else []
    late, after = report_of((3, 8.0, 0.0), made_at=1, close=True), report_of((3, 2.0, 6.0), (1, 4.0, 4.0))
    entries = entries_of(*before, *partial, late, after)
    found = scores_of(fresh_state(TRACKER, POOL), entries, POOL)
    candidates = candidates_for(TRACKER, POOL)
    bots = next(place for place, each in enumerate(candidates) if each.role == "bots" and each.references)
    under_bots = replayed_under(candidates[bots], Story(TRACKER, POOL, entries))
    assert found.log_loss[-1, bots] == under_bots[-1].log_loss
    # The tracker counts evidence of any age: so does the step that the late report closed.
    assert found.steps.tolist() == list(range(1, 73))


def test_a_rewind_takes_every_candidate_back():
    kept = [report_of((0, 3.0, 5.0)), report_of((1, 8.0, 0.0))]
    after = [report_of((0, 1.0, 7.0)), report_of((2, 4.0, 4.0))]
    undone = report_of((0, 8.0, 0.0))
    straight = scores_of(fresh_state(BOTS, POOL), entries_of(*kept, *after), POOL)
    rewound = [
        *entries_of(*kept),
        Entry(4, 1, POOL.profiles, Rewind(2, 2)),
        *(Entry(5 + place, 1, POOL.profiles, body) for place, body in enumerate(after)),
    ]
    found = scores_of(fresh_state(BOTS, POOL), rewound, POOL)
    assert found.steps.tolist() == straight.steps.tolist() == [1, 2, 3, 4]
    assert found.log_loss.tolist() == straight.log_loss.tolist()
    other = scores_of(fresh_state(BOTS, POOL), entries_of(*kept, undone, *after), POOL)
    assert other.log_loss[-1].tolist() != straight.log_loss[-1].tolist()


def test_what_waits_in_an_open_step_is_dropped_by_a_rewind():
    waiting = report_of((0, 8.0, 0.0), close=False)
    entries = entries_of(report_of((1, 3.0, 5.0)), waiting)
    entries += [Entry(3, 1, POOL.profiles, Rewind(1, 1)), Entry(4, 1, POOL.profiles, report_of((2, 4.0, 4.0)))]
    assert scores_of(fresh_state(BOTS, POOL), entries, POOL).rollouts.tolist() == [8.0, 8.0]


def test_what_a_run_forgets_every_candidate_forgets():
    entries = entries_of(report_of((0, 3.0, 5.0)), Forget(np.array([0], np.int32)), report_of((0, 2.0, 2.0)))
    found = scores_of(fresh_state(TRACKER, POOL), entries, POOL)
    for place, candidate in enumerate(candidates_for(TRACKER, POOL)):
        expected = replayed_under(candidate, Story(TRACKER, POOL, entries))
        assert found.log_loss[:, place].tolist() == [receipt.log_loss for receipt in expected if receipt.closed]


@pytest.mark.parametrize(
    "body",
    [
        report_of((0, 3.0, 5.0), (2, 1.5, 0.5), made_at=4, close=True, effective=[True, False]),
        report_of(close=False),
        SettingsChange({"forgetting": 0.25, "tasks_per_step": None}),
        Rewind(7, 3),
        replace(report_of((0, 3.0, 5.0), made_at=4), walks=(Walk(WHOLE, 1, 20, 40),)),
        Forget(np.array([1, 3], np.int32)),
    ],
    ids=["report", "empty report", "settings", "rewind", "walks", "forgotten tasks"],
)
def test_an_entry_comes_through_a_pipe_as_it_was(body: Body):
    assert repr(unpack_entry(pack_entry(Entry(9, 2, 4, body)))) == repr(Entry(9, 2, 4, body))


def test_a_stored_state_is_no_entry_to_fold():
    with pytest.raises(ValueError, match="entry 1 begins with a stored state"):
        pack_entry(Entry(1, 0, 4, Fork("parent", 3, b"")))


def test_a_pool_comes_through_a_pipe_with_all_that_a_fold_reads():
    again = unpack_pool(pack_pool(POOL))
    entries = entries_of(report_of((0, 3.0, 5.0)), report_of((1, 3.0, 5.0), (3, 2.0, 2.0)))
    through, straight = (scores_of(fresh_state(TRACKER, pool), entries, pool) for pool in (again, POOL))
    assert through.log_loss.tolist() == straight.log_loss.tolist()


def test_scores_come_through_a_pipe_as_they_were():
    scores = scores_of(fresh_state(BOTS, POOL), entries_of(report_of((0, 3.0, 5.0))), POOL)
    again = unpack_progress(pack_progress(Progress(12, scores)))
    assert repr(again) == repr(Progress(12, scores))
    assert unpack_progress(pack_progress(Progress(7))) == Progress(7)


def state_after(own: RunSettings, *bodies: Report) -> RunState:
    state = fresh_state(own, POOL)
    for entry in entries_of(*bodies):
        state, _ = advance(state, entry, POOL)
    return state


@pytest.mark.parametrize("own", [BOTS, TRACKER], ids=["bots", "tracker"])
def test_from_a_later_step_on_every_belief_begins_anew(own: RunSettings):
    state = state_after(own, report_of((0, 8.0, 0.0)), report_of((0, 7.0, 1.0)), report_of((1, 7.0, 1.0), close=False))
    begun = restarted(state, POOL)
    assert (begun.step, begun.seq, begun.totals) == (state.step, state.seq, state.totals)
    late = Entry(4, 0, POOL.profiles, report_of((0, 1.0, 7.0), (1, 1.0, 7.0), made_at=2))
    more = Entry(5, 0, POOL.profiles, report_of((0, 1.0, 7.0), made_at=1))
    found = scores_of(begun, [late, more], POOL)
    fresh = scores_of(fresh_state(own, POOL), entries_of(report_of((0, 1.0, 7.0), (1, 1.0, 7.0), made_at=0)), POOL)
    assert found.log_loss[0].tolist() == fresh.log_loss[0].tolist()
    # BOTS remembers no step from before it began; the tracker counts evidence of any age.
    assert found.steps.tolist() == ([3] if own is BOTS else [3, 4])


def test_a_run_s_first_state_is_left_as_it_is():
    state = fresh_state(BOTS, POOL)
    assert restarted(state, POOL) is state


def test_no_steps_give_empty_columns():
    found = collected([], 3)
    assert (found.log_loss.shape, found.brier.shape, found.sums.shape) == ((0, 3), (0, 3), (3, SUMS))


def test_evidence_of_a_candidate_that_hides_references_is_of_the_same_tasks():
    hiding = Candidate("tracker", TRACKER, references=False)
    seen = view(POOL, hiding)
    assert len(seen.pool) == len(POOL)
    assert seen.pool.models == 0
    assert seen.pool.profile_of.tolist() == [0, 1, 1, 0]  # by tags alone
    assert [seen.profiles(known) for known in range(POOL.profiles + 1)] == [0, 1, 2, 2, 2]


def test_a_candidate_that_hides_tags_tells_tasks_apart_by_references():
    seen = view(POOL, Candidate("tracker", TRACKER, tags=False))
    assert seen.pool.profile_of.tolist() == [0, 1, 0, 2]
    assert seen.pool.offset_tags == ()
    both = view(POOL, Candidate("tracker", TRACKER, references=False, tags=False))
    assert both.pool.profile_of.tolist() == [0, 0, 0, 0]
    assert view(POOL, Candidate("tracker", TRACKER)).pool is POOL


PLAIN = pool_of((), ())


@pytest.mark.parametrize(
    ("pool", "hiding", "grid"),
    [
        (POOL, {(False, True), (True, False), (False, False)}, 19),
        (pool_of((0.2, 0.4), (0.3, 0.5)), {(False, True)}, 19),
        (pool_of((), (), carried=[0, 1]), {(True, False)}, 4),
        (PLAIN, set(), 4),
    ],
    ids=["both", "references", "tags", "neither"],
)
def test_candidates_that_could_not_differ_are_left_out(pool: Pool, hiding: set[tuple[bool, bool]], grid: int):
    found = candidates_for(TRACKER, pool)
    assert found[0].settings == TRACKER
    assert {(each.references, each.tags) for each in found} == {(True, True), *hiding}
    assert len([each for each in found if each.role == "grid"]) == grid
    assert ("paper" in {each.role for each in found}) == pool.has_references
    names = [each.name for each in found]
    assert len(set(names)) == len(names)


def test_a_candidate_is_called_what_it_is():
    names = {each.name for each in candidates_for(BOTS, POOL)}
    expected = {
        "this run",
        "BOTS",
        "BOTS as in the paper",
        "BOTS without references",
        "BOTS, forgetting 0.02, implicit weight 0.05",
        "tracker",
        "tracker without references",
        "tracker without tags",
        "tracker without references and tags",
    }
    assert expected <= names


def test_an_empty_journal_has_no_scores():
    assert scores_of(fresh_state(BOTS, POOL), [], POOL).steps.tolist() == []
