"""Laws of the fold that hold for every kind of belief: replay, order, bounds, and rewinds."""

import math
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from bots_service.core.belief import KINDS
from bots_service.core.belief.distributions import Distributions
from bots_service.core.codec import decode_state, encode_state
from bots_service.core.entries import NOTHING_UNFINISHED, Body, Entry, Report, Rewind, SettingsChange
from bots_service.core.evidence import MAX_TRIALS, NOTHING_OPEN
from bots_service.core.run_settings import RunSettings, settings_from
from bots_service.core.state import advance, fresh_state
from tests.core.journals import (
    Story,
    carried_by_tasks,
    pieces,
    pool_of,
    pools,
    replay,
    report_of,
    some_settings,
    stories,
)
from tests.sizes import examples

POOL = pool_of((0.25, 0.75), (0.5, 0.875), (0.25, 0.75), (math.nan, math.nan), (0.0, 1.0))
ALL = np.arange(len(POOL), dtype=np.int32)


@pytest.fixture(params=sorted(KINDS))
def chosen(request: pytest.FixtureRequest) -> RunSettings:
    return settings_from({"belief": request.param})


def arrays_in(value) -> list[np.ndarray]:
    if isinstance(value, np.ndarray):
        return [value]
    if not is_dataclass(value):
        return []
    return [array for part in fields(value) for array in arrays_in(getattr(value, part.name))]


@given(stories(), st.data())
def test_folding_in_pieces_equals_replaying_at_once_bit_for_bit(story: Story, data):
    whole, receipts = story.replayed()
    state, told = fresh_state(story.settings, story.pool), []
    for entry in story.entries:
        if data.draw(st.booleans()):
            state = decode_state(encode_state(state))
        state, receipt = advance(state, entry, story.pool)
        told.append(receipt)
    assert encode_state(state) == encode_state(whole)
    assert told == receipts


@given(stories())
def test_advancing_changes_no_argument_and_gives_read_only_arrays(story: Story):
    state = fresh_state(story.settings, story.pool)
    for entry in story.entries:
        before, given_arrays = encode_state(state), [array.copy() for array in arrays_in(entry)]
        following, _ = advance(state, entry, story.pool)
        assert encode_state(state) == before
        for array, given_array in zip(arrays_in(entry), given_arrays, strict=True):
            np.testing.assert_array_equal(array, given_array)
        state = following
        assert not any(array.flags.writeable for array in arrays_in(state))


@given(stories(), st.data())
def test_a_pool_that_grew_meanwhile_changes_no_replay(story: Story, data):
    rows = story.pool.references[story.pool.profile_of].tolist()
    models = story.pool.references.shape[1]
    more = data.draw(st.lists(st.tuples(*[st.just(0.3)] * models), max_size=2))
    carried = [*carried_by_tasks(story.pool), *[0] * len(more)] if story.pool.offset_tags else ()
    grown = pool_of(*rows, *more, carried=carried)
    state, receipts = story.replayed()
    again, receipts_again = replace(story, pool=grown).replayed()
    assert encode_state(again) == encode_state(state)
    assert receipts_again == receipts


@st.composite
def reports_of_one_step(draw, step: int) -> list[Report]:
    made = st.sampled_from([None, *range(max(step - 3, 0), step + 1)])
    drawn = draw(st.lists(st.tuples(pieces(len(POOL)), made), min_size=2, max_size=6))
    return [report_of(*some, made_at=made_at, close=False) for some, made_at in drawn]


@given(some_settings, st.data())
def test_the_order_of_reports_within_a_step_leaves_no_trace(chosen: RunSettings, data):
    chosen = structs.replace(chosen, tasks_per_step=None)
    start = replay(POOL, [report_of((0, 3.0, 1.0), (3, 1.0, 1.0)), report_of((1, 0.0, 4.0))], chosen)
    reports = data.draw(reports_of_one_step(start.step))
    shuffled = data.draw(st.permutations(reports))
    closing = report_of(close=True)
    one = replay(POOL, [*reports, closing], chosen, start)
    other = replay(POOL, [*shuffled, closing], chosen, start)
    assert one.step == 3
    assert encode_state(one) == encode_state(other)


@pytest.mark.parametrize("seq", [0, 1, 3])
def test_an_entry_that_does_not_follow_is_refused(seq, chosen):
    state = replay(POOL, [report_of((0, 1.0, 1.0))], chosen)
    with pytest.raises(ValueError, match=f"entry {seq} can't follow entry 1"):
        advance(state, Entry(seq, 0, POOL.profiles, report_of()), POOL)


@settings(max_examples=examples(40))
@given(some_settings, pools(), st.data())
def test_all_that_is_said_stays_finite_and_within_its_range(chosen, pool, data):
    # The most rollouts that one outcome may carry, solved and failed in turn, late ones too, and steps without any.
    chosen = structs.replace(chosen, tasks_per_step=None)
    everything = np.arange(len(pool), dtype=np.int32)
    solved = report_of(*((task, MAX_TRIALS, 0.0) for task in everything.tolist()), close=True)
    failed = report_of(*((task, 0.0, MAX_TRIALS) for task in everything.tolist()), close=True)
    some = [report_of(*data.draw(pieces(len(pool))), close=True) for _ in range(3)]
    late = report_of(*data.draw(pieces(len(pool))), made_at=2, close=True)
    idle = report_of(close=True)
    state = fresh_state(chosen, pool)
    journal = [*some, solved, failed, late, *[idle] * 40, failed, *[solved] * 9, late, *[idle] * 100, late, *some * 5]
    for seq, body in enumerate(journal, 1):
        state, receipt = advance(state, Entry(seq, 0, pool.profiles, body), pool)
        for error in (receipt.brier, receipt.log_loss):
            assert error is None or (math.isfinite(error) and error >= 0)
        if body is not idle:
            for said in (state.belief.distributions(pool, everything), state.belief.profile_distributions(pool)):
                assert_within_range(said)


def assert_within_range(said: Distributions) -> None:
    low, high = said.interval()
    for shares in (low, high, said.mean, said.effective(16.0)):
        assert ((shares >= 0) & (shares <= 1)).all()
    assert (low <= high).all()
    assert np.isfinite(said.sample(np.random.default_rng(0))).all()


def test_a_rewind_needs_the_state_that_it_goes_back_to(chosen):
    with pytest.raises(ValueError, match="starts from another state"):
        advance(fresh_state(chosen, POOL), Entry(1, 0, 1, Rewind(0, 0)), POOL)


@given(stories(), st.data())
def test_rewinding_gives_the_state_that_stood_there_with_nothing_open(story: Story, data):
    newest, _ = story.replayed()
    to_seq = data.draw(st.integers(0, newest.seq))
    base, _ = replace(story, entries=story.entries[:to_seq]).replayed()
    entry = Entry(newest.seq + 1, newest.epoch + 1, story.pool.profiles, Rewind(to_seq, base.step))
    state, receipt = advance(newest, entry, story.pool, base=base)
    closed_off = replace(base, open_step=NOTHING_OPEN, unfinished=NOTHING_UNFINISHED)
    assert encode_state(replace(state, seq=base.seq, epoch=base.epoch)) == encode_state(closed_off)
    assert (state.seq, state.epoch, receipt.seq, receipt.epoch) == (newest.seq + 1, 1, newest.seq + 1, 1)
    assert (receipt.step, receipt.closed, receipt.reported) == (base.step, False, 0)


def test_only_tasks_tried_lately_stand_apart_and_all_others_follow_their_profile(chosen):
    state = replay(POOL, [report_of((2, 3.0, 1.0), (1, 1.0, 1.0))], chosen)
    assert state.belief.own_tasks.tolist() == [1, 2]
    shared = state.belief.profile_distributions(POOL).at(POOL.profile_of.astype(np.int64))
    alone = [task for task in ALL.tolist() if task not in (1, 2)]
    told = state.belief.distributions(POOL, ALL)
    np.testing.assert_array_equal(told.mean[alone], shared.mean[alone])
    np.testing.assert_array_equal(np.array(told.interval())[:, alone], np.array(shared.interval())[:, alone])


def test_a_step_is_compared_with_what_was_predicted_before_it_whatever_it_brings(chosen):
    before = replay(POOL, [report_of((0, 15.0, 1.0), (3, 0.0, 16.0)), report_of((1, 3.0, 5.0))], chosen)
    solved, failed = np.array([1.0, 9.0, 4.0]), np.array([3.0, 7.0, 0.0])
    body = report_of(*zip((0, 3, 4), solved, failed, strict=True))
    after, receipt = advance(before, Entry(3, 0, POOL.profiles, body), POOL)
    # The tracker predicts for the step that closes: for one later than the last.
    ahead = before if chosen.belief == "bots" else replay(POOL, [report_of(close=True)], chosen, before)
    for state, is_compared in ((ahead, True), (after, False)):
        predicted = state.belief.distributions(POOL, np.array([0, 3, 4], np.int32)).mean
        brier = (solved * (1 - predicted) ** 2 + failed * predicted**2).sum() / 24
        log_loss = -(solved * np.log(predicted) + failed * np.log1p(-predicted)).sum() / 24
        assert receipt.calibration is not None
        found = (receipt.brier, receipt.log_loss, sum(receipt.calibration.predicted))
        for one, other in zip(found, (brier, log_loss, (predicted * (solved + failed)).sum()), strict=True):
            assert bool(one == pytest.approx(other)) is is_compared


def test_totals_add_up_over_closed_steps(chosen):
    bodies: list[Body] = [
        report_of((0, 4.0, 0.0), (1, 1.5, 2.5), (3, 0.0, 4.0)),
        report_of((0, 2.0, 2.0), (0, 1.0, 3.0)),
        report_of((4, 4.0, 0.0), made_at=0),
        SettingsChange({"target": 0.2}),
    ]
    totals = replay(POOL, bodies, chosen).totals
    assert (totals.reported, totals.effective, totals.all_solved, totals.none_solved) == (5, 2, 2, 1)
    assert (totals.rollouts, totals.successes, totals.late, totals.expired) == (24.0, 12.5, 1, 0)


def test_evidence_selected_in_the_future_counts_as_on_time(chosen):
    one = replay(POOL, [report_of((0, 1.0, 3.0), made_at=9)], chosen)
    other = replay(POOL, [report_of((0, 1.0, 3.0), made_at=0)], chosen)
    assert encode_state(one) == encode_state(other)


def test_evidence_selected_before_the_run_began_counts_for_nothing(chosen):
    state = replay(POOL, [report_of((0, 1.0, 3.0)), report_of((0, 1.0, 3.0), made_at=-1)], chosen)
    assert (state.step, state.open_step.expired, state.open_step.tasks) == (1, 1, 0)


def test_a_pool_older_than_the_entry_is_refused(chosen):
    with pytest.raises(ValueError, match="entry 1 knows 5 profiles, the pool 4"):
        advance(fresh_state(chosen, POOL), Entry(1, 0, 5, report_of()), POOL)


def test_a_state_fits_the_pools_that_have_its_tasks_and_profiles(chosen):
    small, grown = pool_of((0.25, 0.75), (0.25, 0.75)), pool_of((0.25, 0.75), (0.25, 0.75), (0.25, 0.75))
    other = pool_of((0.25, 0.75), (0.25, 0.75), (0.5, 0.5))
    one = replay(small, [report_of((1, 1.0, 3.0))], chosen)
    assert one.fits(small)
    assert one.fits(other)
    assert not replay(grown, [report_of((2, 1.0, 3.0))], chosen).fits(small)
    assert not replay(grown, [report_of((2, 1.0, 3.0)), *[report_of((0, 1.0, 1.0))] * 70], chosen).fits(small)
    waiting = replay(grown, [report_of((2, 1.0, 3.0), close=False)], chosen)
    assert waiting.fits(grown)
    assert not waiting.fits(small)


def test_a_belief_that_knows_profiles_fits_no_pool_without_them():
    grown, other = pool_of((0.25, 0.75), (0.25, 0.75)), pool_of((0.25, 0.75), (0.5, 0.5))
    assert not replay(other, [report_of((0, 1.0, 3.0))], settings_from({"belief": "bots"})).fits(grown)
