"""Laws of the fold: replay, order, late evidence, bounds, rewinds and forks."""

import math
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.codec import decode_state, encode_state
from bots_service.core.entries import Body, Entry, Fork, Report, Rewind, SettingsChange
from bots_service.core.evidence import MAX_TRIALS
from bots_service.core.run_settings import RunSettings, settings_from
from bots_service.core.state import advance, fresh_state
from tests.core.journals import Story, counts, pieces, pool_of, pools, replay, report_of, shares, some_settings, stories
from tests.core.pools import bots_belief, with_belief

POOL = pool_of((0.25, 0.75), (0.5, 0.875), (0.25, 0.75), (math.nan, math.nan), (0.0, 1.0))
HELD = {"capability": "paper", "capability_momentum": 1.0, "rollouts_per_task": 16}
ALL = np.arange(len(POOL), dtype=np.int32)


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
        assert all(map(np.array_equal, arrays_in(entry), given_arrays))
        state = following
        assert not any(array.flags.writeable for array in arrays_in(state))


@given(stories(), st.data())
def test_a_pool_that_grew_meanwhile_changes_no_replay(story: Story, data):
    rows = story.pool.references[story.pool.profile_of].tolist()
    models = story.pool.references.shape[1]
    grown = pool_of(*rows, *data.draw(st.lists(st.tuples(*[st.just(0.3)] * models), max_size=2)))
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
    chosen = replace(chosen, tasks_per_step=None)
    start = replay(POOL, [report_of((0, 3.0, 1.0), (3, 1.0, 1.0)), report_of((1, 0.0, 4.0))], chosen)
    reports = data.draw(reports_of_one_step(start.step))
    shuffled = data.draw(st.permutations(reports))
    closing = report_of(close=True)
    one = replay(POOL, [*reports, closing], chosen, start)
    other = replay(POOL, [*shuffled, closing], chosen, start)
    assert one.step == 3
    assert encode_state(one) == encode_state(other)


@given(
    st.fixed_dictionaries({"forgetting": shares, "implicit_weight": shares}),
    st.booleans(),
    st.lists(pieces(len(POOL)), min_size=2, max_size=6),
    pieces(len(POOL)),
    pieces(len(POOL)),
    st.data(),
)
def test_late_evidence_equals_evidence_on_time_while_capability_and_rollouts_per_task_are_held(
    values, is_held, steps, in_time, late, data
):
    # Held by the paper's rule with a momentum of 1; or of no effect, because nothing implied is booked.
    held = (
        {"capability": "paper", "capability_momentum": 1.0}
        if is_held
        else {"capability_momentum": 0.5, "implicit_weight": 0.0}
    )
    chosen = settings_from({"rollouts_per_task": 16, **values, **held})
    due = data.draw(st.integers(0, len(steps) - 1))
    start = replay(POOL, [report_of((0, 3.0, 1.0), (4, 1.0, 1.0))], chosen)

    def with_due(*bodies: Report) -> list[Report]:
        plain = [report_of(*some, close=True) for some in steps]
        return [*plain[:due], *bodies, *plain[due + 1 :]]

    whole = replay(POOL, with_due(report_of(*in_time, *late, close=True)), chosen, start)
    came_late = [report_of(*late, made_at=1 + due, close=False), report_of(*steps[-1], close=True)]
    parts = replay(POOL, [*with_due(report_of(*in_time, close=True))[:-1], *came_late], chosen, start)
    if due == len(steps) - 1:  # nothing closed in between: the late evidence is on time
        parts = replay(
            POOL, [*with_due()[:due], report_of(*late, close=False), report_of(*in_time, close=True)], chosen, start
        )
    largest = max((s + f for _, s, f in [*in_time, *late, *(p for step in steps for p in step)]), default=0.0)
    scale = 2.0 + 8 * len(steps) * (16 + largest)
    np.testing.assert_allclose(
        parts.belief.distributions(POOL, ALL).as_beta(),
        whole.belief.distributions(POOL, ALL).as_beta(),
        rtol=0,
        atol=1e-9 * scale,
    )


def test_a_task_reported_partly_on_time_and_partly_late_gives_its_implicit_evidence_back_once():
    chosen = settings_from({**HELD, "implicit_weight": 0.5, "forgetting": 0.25})
    first, other = report_of((4, 1.0, 1.0)), report_of((1, 2.0, 2.0))
    whole = replay(POOL, [first, report_of((0, 6.0, 10.0)), other, other], chosen)
    one, two, three = (0, 1.0, 3.0), (0, 2.0, 2.0), (0, 3.0, 5.0)
    late_two = report_of(two, made_at=1, close=False)
    late_three = report_of(three, made_at=1, close=False)
    parts = replay(POOL, [first, report_of(one), late_two, other, late_three, other], chosen)
    np.testing.assert_allclose(
        parts.belief.distributions(POOL, ALL).as_beta(), whole.belief.distributions(POOL, ALL).as_beta(), rtol=1e-12
    )
    assert (parts.totals.late, whole.totals.late) == (2, 0)


def test_late_evidence_gives_back_what_its_own_step_had_booked_whatever_the_settings_are_by_now():
    chosen = settings_from({**HELD, "implicit_weight": 1.0})
    first, other = report_of((4, 1.0, 1.0)), report_of((1, 2.0, 2.0))
    trusting_less = SettingsChange({"implicit_weight": 0.1})
    whole = replay(POOL, [first, report_of((1, 2.0, 2.0), (0, 6.0, 10.0)), trusting_less, other, other], chosen)
    late = report_of((0, 6.0, 10.0), made_at=1, close=False)
    parts = replay(POOL, [first, other, trusting_less, other, late, other], chosen)
    np.testing.assert_allclose(
        parts.belief.distributions(POOL, ALL).as_beta(), whole.belief.distributions(POOL, ALL).as_beta(), rtol=1e-12
    )


def test_a_step_of_late_evidence_alone_still_moves_capability():
    late = [report_of((0, 1.0, 3.0)), report_of((0, 3.0, 1.0), made_at=0)]
    squares, products = (0.9 + 1) * 0.5**2, 0.9 * 0.5 * (0.25 - 0.25) + 0.5 * (0.75 - 0.25)
    fitted = replay(POOL, late, settings_from({}))
    assert fitted.belief.capability == pytest.approx((products + 0.5) / (squares + 1), rel=1e-12)
    first, second = (0.25 - 0.25) / (0.5 + 1e-6), (0.75 - 0.25) / (0.5 + 1e-6)
    divided = replay(POOL, late, settings_from({"capability": "paper"}))
    assert divided.belief.capability == pytest.approx(0.9 * first + 0.1 * second, rel=1e-12)


def test_late_evidence_counts_as_on_time_but_for_what_capability_would_have_implied_meanwhile():
    """The difference that documentation names: c of the steps in between was estimated without it."""
    chosen = settings_from({"forgetting": 0.25})
    on_time, late, between = (1, 2.0, 2.0), (4, 9.0, 1.0), report_of((0, 1.0, 3.0))
    whole = replay(POOL, [report_of(on_time, late), between, between], chosen)
    parts = replay(POOL, [report_of(on_time), between, report_of(late, made_at=0, close=False), between], chosen)
    own = np.array([4], np.int32)
    assert whole.belief.capability != parts.belief.capability
    difference = np.array(whole.belief.distributions(POOL, own).as_beta()) - np.array(
        parts.belief.distributions(POOL, own).as_beta()
    )
    # Task 4 gets its counts, less what step 1 booked, in both; what steps 2 and 3 imply for it differs by their c.
    implied = [np.array([c, 1 - c]) for c in bots_belief(whole).past.capability[1:].tolist()]
    other = [np.array([c, 1 - c]) for c in bots_belief(parts).past.capability[1:].tolist()]
    booked = zip(bots_belief(whole).past.booked[1:], bots_belief(parts).past.booked[1:], strict=True)
    wanted = [m * q - n * p for (m, n), q, p in zip(booked, implied, other, strict=True)]
    np.testing.assert_allclose(difference[:, 0], 0.75 * wanted[0] + wanted[1], rtol=1e-9)


def test_late_evidence_beside_evidence_on_time_moves_no_capability():
    on_time, late = report_of((0, 3.0, 1.0)), report_of((4, 0.0, 9.0), made_at=0, close=False)
    with_late = replay(POOL, [on_time, late, on_time], settings_from({}))
    without = replay(POOL, [on_time, on_time], settings_from({}))
    assert with_late.belief.capability == without.belief.capability


@given(some_settings, pools(), st.data())
def test_beliefs_stay_finite_and_never_fall_below_the_prior(chosen, pool, data):
    # Legal settings at their ends, the most rollouts that one outcome may carry, and 90 steps.
    bodies = [report_of(*data.draw(pieces(len(pool))), close=True) for _ in range(3)]
    huge = report_of(*((task, MAX_TRIALS, 0.0) for task in range(len(pool))), close=True)
    late = report_of(*data.draw(pieces(len(pool))), made_at=2, close=True)
    journal = [*bodies, huge, late, *[report_of(close=True)] * 40, huge, *bodies * 15]
    state, everything = fresh_state(chosen, pool), np.arange(len(pool), dtype=np.int32)
    for seq, body in enumerate(journal, 1):
        state, receipt = advance(state, Entry(seq, 0, pool.profiles, body), pool)
        alpha, beta = state.belief.distributions(pool, everything).as_beta()
        shared_alpha, shared_beta = state.belief.profile_distributions(pool).as_beta()
        for belief, prior in ((alpha, 0), (beta, 1), (shared_alpha, 0), (shared_beta, 1)):
            assert (belief >= chosen.prior[prior]).all()
            assert np.isfinite(belief).all()
        for error in (receipt.brier, receipt.log_loss, receipt.tally.mean_pass_rate):
            assert error is None or (math.isfinite(error) and error >= 0)


def test_a_belief_too_sure_for_its_mean_to_differ_from_one_still_has_a_finite_prediction_error():
    chosen = settings_from({"prior": (1e-3, 1e-3), "forgetting": 0.0})
    solved = report_of(*[(0, MAX_TRIALS, 0.0)] * 64)
    state = replay(POOL, [solved] * 2, chosen)
    # As after a billion times as many steps.
    state = with_belief(state, tried=replace(bots_belief(state).tried, scale=1e9))
    assert state.belief.distributions(POOL, ALL[:1]).mean[0] == 1.0
    _, receipt = advance(state, Entry(3, 0, POOL.profiles, report_of((0, 0.0, 1.0))), POOL)
    assert receipt.brier == pytest.approx(1.0)
    assert receipt.log_loss == pytest.approx(-math.log(2**-53))


@pytest.mark.parametrize("seq", [0, 1, 3])
def test_an_entry_that_does_not_follow_is_refused(seq):
    state = replay(POOL, [report_of((0, 1.0, 1.0))], settings_from({}))
    with pytest.raises(ValueError, match=f"entry {seq} can't follow entry 1"):
        advance(state, Entry(seq, 0, POOL.profiles, report_of()), POOL)


@pytest.mark.parametrize("body", [Rewind(1, 1), Fork("default", 1, b"")], ids=["rewind", "fork"])
def test_an_entry_that_starts_from_another_state_needs_it(body):
    with pytest.raises(ValueError, match="starts from another state"):
        advance(fresh_state(settings_from({}), POOL), Entry(1, 0, 1, body), POOL)


@given(stories(), st.data())
def test_rewinding_gives_the_state_that_stood_there_with_nothing_open(story: Story, data):
    newest, _ = story.replayed()
    to_seq = data.draw(st.integers(0, newest.seq))
    base, _ = replace(story, entries=story.entries[:to_seq]).replayed()
    entry = Entry(newest.seq + 1, newest.epoch + 1, story.pool.profiles, Rewind(to_seq, base.step))
    state, receipt = advance(newest, entry, story.pool, base=base)
    closed_off = replace(base, open_step=fresh_state(base.settings, story.pool).open_step)
    assert encode_state(replace(state, seq=base.seq, epoch=base.epoch)) == encode_state(closed_off)
    assert (state.seq, state.epoch, receipt.seq, receipt.epoch) == (newest.seq + 1, 1, newest.seq + 1, 1)
    assert (receipt.step, receipt.closed, receipt.tally.reported) == (base.step, False, 0)


def test_rewinding_drops_the_evidence_that_waited_then():
    base = replay(POOL, [report_of((0, 1.0, 3.0)), report_of((1, 1.0, 1.0), close=False)], settings_from({}))
    newest = replay(POOL, [report_of(close=True)], base.settings, base)
    state, _ = advance(newest, Entry(4, 1, POOL.profiles, Rewind(2, 1)), POOL, base=base)
    assert (state.step, state.open_step.tasks, base.open_step.tasks) == (1, 0, 1)


@given(stories())
def test_a_fork_goes_on_as_its_parent_with_its_open_step(story: Story):
    parent, _ = story.replayed()
    entry = Entry(1, 0, story.pool.profiles, Fork("default", parent.seq, encode_state(parent)))
    child, _ = advance(fresh_state(settings_from({}), story.pool), entry, story.pool, base=parent)
    assert encode_state(replace(child, seq=parent.seq)) == encode_state(parent)
    body = report_of((0, 1.0, 3.0), close=True)
    grown = replay(story.pool, [body], story.settings, parent)
    assert encode_state(replace(replay(story.pool, [body], story.settings, child), seq=grown.seq)) == encode_state(
        grown
    )


@pytest.mark.parametrize(
    ("tasks_per_step", "close", "waiting", "closes"),
    [
        (None, None, 0, False),
        (None, None, 1, True),
        (None, False, 3, False),
        (None, True, 0, True),
        (3, None, 2, False),
        (3, None, 3, True),
        (3, False, 3, True),
        (3, True, 1, True),
    ],
)
def test_a_step_closes_by_default_when_asked_or_when_full(tasks_per_step, close, waiting, closes):
    body = report_of(*((task, 1.0, 1.0) for task in range(waiting)), close=close)
    state = fresh_state(settings_from({"tasks_per_step": tasks_per_step}), POOL)
    state, receipt = advance(state, Entry(1, 0, POOL.profiles, body), POOL)
    assert (receipt.closed, state.step, receipt.tally.reported) == (closes, int(closes), waiting)
    assert state.totals.reported == (waiting if closes else 0)


def test_one_task_many_times_does_not_fill_a_step():
    chosen = settings_from({"tasks_per_step": 2})
    state = replay(POOL, [report_of((0, 1.0, 0.0), (0, 0.0, 1.0), (0, 1.0, 1.0))], chosen)
    assert (state.step, state.open_step.tasks, len(state.open_step.evidence)) == (0, 1, 3)


def test_only_tasks_tried_lately_stand_apart_and_all_others_follow_their_profile():
    state = replay(POOL, [report_of((2, 3.0, 1.0), (1, 1.0, 1.0))], settings_from({}))
    assert state.belief.own_tasks.tolist() == [1, 2]
    shared = np.array(state.belief.profile_distributions(POOL).as_beta())[:, POOL.profile_of]
    alone = [task for task in ALL.tolist() if task not in (1, 2)]
    np.testing.assert_array_equal(np.array(state.belief.distributions(POOL, ALL).as_beta())[:, alone], shared[:, alone])


def test_totals_add_up_over_closed_steps():
    bodies: list[Body] = [
        report_of((0, 4.0, 0.0), (1, 1.5, 2.5), (3, 0.0, 4.0)),
        report_of((0, 2.0, 2.0), (0, 1.0, 3.0)),
        report_of((4, 4.0, 0.0), made_at=0),
        SettingsChange({"forgetting": 0.2}),
    ]
    totals = replay(POOL, bodies, settings_from({})).totals
    assert (totals.reported, totals.effective, totals.all_solved, totals.none_solved) == (5, 2, 2, 1)
    assert (totals.rollouts, totals.successes, totals.late, totals.expired) == (24.0, 12.5, 1, 0)


def test_evidence_selected_in_the_future_counts_as_on_time():
    one = replay(POOL, [report_of((0, 1.0, 3.0), made_at=9)], settings_from({}))
    other = replay(POOL, [report_of((0, 1.0, 3.0))], settings_from({}))
    assert encode_state(one) == encode_state(other)


def test_evidence_selected_before_the_run_began_counts_for_nothing():
    state = replay(POOL, [report_of((0, 1.0, 3.0)), report_of((0, 1.0, 3.0), made_at=-1)], settings_from({}))
    assert (state.step, state.open_step.expired, state.open_step.tasks) == (1, 1, 0)


def test_a_pool_older_than_the_entry_is_refused():
    with pytest.raises(ValueError, match="entry 1 knows 5 profiles, the pool 4"):
        advance(fresh_state(settings_from({}), POOL), Entry(1, 0, 5, report_of()), POOL)


@given(counts, counts)
def test_a_run_that_forgets_everything_knows_only_its_last_step(successes, failures):
    chosen = settings_from({"forgetting": 1.0, "implicit_weight": 0.0})
    piece = (0, successes, failures + 1.0)
    state = replay(POOL, [report_of((0, 7.0, 7.0), (1, 2.0, 2.0)), report_of(piece)], chosen)
    alpha, beta = state.belief.distributions(POOL, ALL).as_beta()
    assert alpha.tolist() == [1 + successes, 1.0, 1.0, 1.0, 1.0]
    assert beta.tolist() == [2 + failures, 1.0, 1.0, 1.0, 1.0]


def test_a_state_fits_the_pools_that_have_its_tasks_and_profiles():
    small, grown = pool_of((0.25, 0.75), (0.25, 0.75)), pool_of((0.25, 0.75), (0.25, 0.75), (0.25, 0.75))
    other = pool_of((0.25, 0.75), (0.25, 0.75), (0.5, 0.5))
    one = replay(small, [report_of((1, 1.0, 3.0))], settings_from({}))
    assert one.fits(small)
    assert one.fits(other)
    assert not replay(grown, [report_of((2, 1.0, 3.0))], settings_from({})).fits(small)
    assert not replay(grown, [report_of((2, 1.0, 3.0)), *[report_of((0, 1.0, 1.0))] * 70], settings_from({})).fits(
        small
    )
    waiting = replay(grown, [report_of((2, 1.0, 3.0), close=False)], settings_from({}))
    assert waiting.fits(grown)
    assert not waiting.fits(small)
    assert not replay(other, [report_of((0, 1.0, 3.0))], settings_from({})).fits(grown)
