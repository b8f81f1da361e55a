"""Evidence from old logs: how ages are rounded, and what each kind of belief makes of it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bots_service.core.belief.kinds import KINDS
from bots_service.core.codec import encode_state
from bots_service.core.entries import Body, Entry
from bots_service.core.evidence import MAX_TRIALS
from bots_service.core.past_evidence import LARGEST_AGE, AgedEvidence, shares_kept
from bots_service.core.run_settings import RunSettings, settings_from
from bots_service.core.state import RunState, advance, fresh_state
from tests.core.journals import (
    Piece,
    ages,
    bots_settings,
    evidence_of,
    past_of,
    pieces,
    pool_of,
    pools,
    replay,
    report_of,
    some_settings,
    tracker_settings,
)
from tests.core.pools import beta_parameters
from tests.core.slow_tracker import SlowTracker, assert_same
from tests.core.test_fold_laws import assert_within_range

POOL = pool_of((0.25, 0.75), (0.5, 0.875), (0.25, 0.75), (math.nan, math.nan), (0.0, 1.0))
ALL = np.arange(len(POOL), dtype=np.int32)
Aged = tuple[Piece, float]


@pytest.fixture(params=sorted(KINDS))
def chosen(request: pytest.FixtureRequest) -> RunSettings:
    """The defaults of a run of each kind of belief."""
    return settings_from({"belief": request.param})


@st.composite
def aged_pieces(draw, tasks: int) -> list[Aged]:
    return [(piece, draw(ages)) for piece in draw(pieces(tasks))]


# --- ages ------------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, LARGEST_AGE), min_size=1, max_size=20))
def test_each_age_is_rounded_to_one_nearby(aged):
    for age in aged:
        ((rounded, _),) = past_of(((0, 1.0, 1.0), age)).aged.batches()
        assert abs(rounded - age) <= max(0.5, 0.0625 * age)


def test_any_number_of_ages_gives_at_most_147_batches_the_oldest_first():
    many = np.concatenate([np.linspace(0, 70, 400), np.geomspace(1, LARGEST_AGE, 5000)])
    evidence = evidence_of(*((place % 7, 1.0, 2.0) for place in range(len(many))))
    batches = list(AgedEvidence(evidence, many).batches())
    rounded = [age for age, _ in batches]
    assert rounded == sorted(set(rounded), reverse=True)
    assert len(rounded) <= 147
    assert math.fsum(seen.failures.sum() for _, seen in batches) == 2 * len(many)
    assert all((np.diff(seen.tasks) > 0).all() for _, seen in batches)


@given(st.floats(0, 1), st.floats(0, 5000))
def test_what_is_left_of_an_age_is_a_power(forgetting, age):
    kept = 1 - forgetting
    assert shares_kept(kept, np.array([age]))[0] == pytest.approx(kept**age, rel=1e-9, abs=1e-300)


def test_nothing_is_left_of_any_age_where_all_is_forgotten():
    assert shares_kept(0.0, np.array([0.0, 0.5, 1.0])).tolist() == [1.0, 0.0, 0.0]


# --- laws of every kind ----------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(some_settings, pools(), st.data())
def test_evidence_of_any_age_leaves_all_that_is_said_finite(chosen, pool, data):
    chosen = replace(chosen, tasks_per_step=None)
    everything = range(len(pool))
    solved = past_of(*(((task, MAX_TRIALS, 0.0), age) for task in everything for age in (0.0, LARGEST_AGE)))
    failed = past_of(*(((task, 0.0, MAX_TRIALS), age) for task in everything for age in (1.0, 700.0)))
    some = past_of(*data.draw(aged_pieces(len(pool))))
    step = report_of(*data.draw(pieces(len(pool))), close=True)
    state = fresh_state(chosen, pool)
    journal: list[Body] = [solved, failed, some, step, failed, failed, step, step, solved, some, step]
    for seq, body in enumerate(journal, 1):
        state, receipt = advance(state, Entry(seq, 0, pool.profiles, body), pool)
        assert receipt.log_loss is None or math.isfinite(receipt.log_loss)
        for said in (
            state.belief.distributions(pool, np.arange(len(pool), dtype=np.int32)),
            state.belief.profile_distributions(pool),
        ):
            assert_within_range(said)


def test_old_evidence_counts_for_the_belief_alone(chosen):
    before = replay(POOL, [report_of((0, 3.0, 1.0)), report_of((1, 1.0, 1.0), close=False)], chosen)
    entry = Entry(3, 0, POOL.profiles, past_of(((3, 9.0, 0.0), 2.0)))
    after, receipt = advance(before, entry, POOL)
    assert encode_state(replace(after, belief=before.belief, seq=2)) == encode_state(before)
    assert (receipt.step, receipt.closed, receipt.tally.reported) == (1, False, 0)
    task = np.array([3], np.int32)
    assert after.belief.distributions(POOL, task).mean > before.belief.distributions(POOL, task).mean


def test_the_older_evidence_is_the_less_it_tells(chosen):
    def moved(age: float) -> float:
        state = replay(POOL, [past_of(((3, 12.0, 0.0), age))], chosen)
        return float(state.belief.distributions(POOL, np.array([3], np.int32)).mean[0])

    means = [moved(age) for age in (0.0, 1.0, 5.0, 25.0, 125.0)]
    assert means == sorted(set(means), reverse=True)
    assert means[-1] > float(fresh_state(chosen, POOL).belief.distributions(POOL, np.array([3], np.int32)).mean[0])


def test_no_evidence_changes_nothing_that_is_believed(chosen):
    before = replay(POOL, [report_of((0, 3.0, 1.0))], chosen)
    after = replay(POOL, [past_of()], chosen, before)
    assert encode_state(replace(after, seq=before.seq)) == encode_state(before)


def test_old_evidence_may_speak_of_tasks_that_were_appended_since(chosen):
    grown = pool_of((0.25, 0.75), (0.5, 0.875), (0.25, 0.75), (math.nan, math.nan), (0.0, 1.0), (1.0, 1.0))
    state = replay(POOL, [report_of((0, 3.0, 1.0))], chosen)
    state, _ = advance(state, Entry(2, 0, grown.profiles, past_of(((5, 4.0, 0.0), 1.0))), grown)
    assert state.fits(grown)
    assert not state.fits(POOL)


# --- BOTS ------------------------------------------------------------------------------------------------------------


@given(bots_settings, aged_pieces(len(POOL)))
def test_before_any_step_each_count_enters_bots_with_its_weight(chosen, aged):
    state = replay(POOL, [past_of(*aged)], chosen)
    alpha, beta = (np.full(len(POOL), prior) for prior in chosen.prior)
    for (task, successes, failures), age in aged:
        weight = (1 - chosen.forgetting) ** age
        alpha[task] += weight * successes
        beta[task] += weight * failures
    found = beta_parameters(state.belief.distributions(POOL, ALL))
    np.testing.assert_allclose(found, [alpha, beta], rtol=1e-9, atol=2e-8)


@pytest.mark.parametrize("age", range(4))
def test_evidence_as_old_as_a_closed_step_enters_bots_as_late_evidence_of_that_step(age: int):
    held = {"capability": "paper", "capability_momentum": 1.0, "implicit_weight": 0.5}
    chosen = settings_from({"belief": "bots", "rollouts_per_task": 16, **held})
    start = replay(POOL, [report_of((0, 2.0, 1.0), (4, 3.0, 1.0)), *[report_of((0, 1.0, 1.0))] * 3], chosen)
    pieces_ = ((0, 3.0, 5.0), (1, 2.0, 6.0), (4, 1.0, 0.0))
    closing = report_of((0, 2.0, 2.0))
    past = replay(POOL, [past_of(*((piece, float(age)) for piece in pieces_)), closing], chosen, start)
    late = replay(POOL, [report_of(*pieces_, made_at=3 - age, close=False), closing], chosen, start)
    np.testing.assert_allclose(
        beta_parameters(past.belief.distributions(POOL, ALL)),
        beta_parameters(late.belief.distributions(POOL, ALL)),
        rtol=1e-12,
    )


def test_evidence_older_than_the_run_fades_by_what_the_run_forgot_and_what_it_would_have():
    chosen = settings_from({"belief": "bots", "forgetting": 0.5, "implicit_weight": 0.0})
    changed = replace(chosen, forgetting=0.25)
    start = replay(POOL, [report_of((0, 1.0, 1.0))] * 2, chosen)
    start = replace(start, settings=changed)
    state = replay(POOL, [past_of(((3, 4.0, 0.0), 5.0))], changed, start)
    alpha, _ = beta_parameters(state.belief.distributions(POOL, np.array([3], np.int32)))
    assert alpha[0] == pytest.approx(1 + 4 * 0.5**2 * 0.75**3, rel=1e-12)


def test_faded_evidence_leaves_no_row_of_its_own():
    state = replay(POOL, [past_of(((3, 4.0, 0.0), 500.0))], settings_from({"belief": "bots"}))
    assert state.belief.own_tasks.tolist() == []


def test_capability_learns_from_old_batches_as_from_its_own():
    chosen = settings_from({"belief": "bots", "capability_momentum": 0.5})
    aged: list[Aged] = [((0, 1.0, 3.0), 0.0), ((1, 2.0, 2.0), 3.0), ((3, 9.0, 0.0), 1.0), ((1, 2.0, 6.0), 3.0)]
    squares = 0.5**2 + 0.5**3 * 0.375**2
    products = 0.5 * (0.25 - 0.25) + 0.5**3 * 0.375 * (4 / 12 - 0.5)
    fresh = replay(POOL, [past_of(*aged)], chosen)
    assert fresh.belief.capability == pytest.approx((products + 0.5) / (squares + 1), rel=1e-12)
    start = replay(POOL, [report_of((4, 3.0, 1.0))], chosen)
    later = replay(POOL, [past_of(*aged)], chosen, start)
    assert later.belief.capability == pytest.approx((products + 0.75 + 0.5) / (squares + 1 + 1), rel=1e-12)


def test_the_papers_quotient_stays_what_the_run_made_of_it():
    chosen = settings_from({"belief": "bots", "capability": "paper"})
    assert replay(POOL, [past_of(((0, 1.0, 3.0), 0.0))], chosen).belief.capability is None
    start = replay(POOL, [report_of((0, 3.0, 1.0))], chosen)
    assert replay(POOL, [past_of(((0, 1.0, 3.0), 0.0))], chosen, start).belief.capability == start.belief.capability


# --- the tracker -----------------------------------------------------------------------------------------------------


@given(
    tracker_settings,
    st.lists(pieces(len(POOL)), max_size=3),
    st.lists(st.tuples(pieces(len(POOL)), st.integers(0, 40)), max_size=3),
)
def test_the_tracker_absorbs_old_evidence_as_late_evidence_of_its_age(chosen, steps, logged):
    chosen = replace(chosen, tasks_per_step=None)
    slow = SlowTracker(POOL, chosen)
    state = fresh_state(chosen, POOL)
    batches: dict[int, dict[int, list[Piece]]] = {}
    aged: list[Aged] = []
    for seq, some in enumerate(steps, 1):
        entry = Entry(seq, 0, POOL.profiles, report_of(*some, close=True))
        slow.take(entry)
        state, _ = advance(state, entry, POOL)
    for some, age in logged:
        aged += [(piece, float(age)) for piece in some]
        for piece in some:
            batches.setdefault(age, {}).setdefault(piece[0], []).append(piece)
    state = replay(POOL, [past_of(*aged)], chosen, state)
    for age in sorted(batches, reverse=True):
        slow.absorb(batches[age], age, None)
    assert_same(state, slow)


def test_a_task_seen_in_old_logs_alone_counts_as_tried():
    state: RunState = replay(POOL, [past_of(((3, 4.0, 4.0), 3.0))], settings_from({"belief": "tracker"}))
    assert state.belief.own_tasks.tolist() == [3]
