"""Evidence that can be true, and evidence that can't."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.codec import decode_state, encode_state
from bots_service.core.entries import Entry, Report
from bots_service.core.evidence import (
    MAX_TRIALS,
    NO_COSTS,
    NOTHING_OPEN,
    Costs,
    counts_of_rewards,
    counts_of_trials,
    rewards_differ,
    sum_by_task,
)
from bots_service.core.receipt import BINS, calibration, errors_of, totals_of
from bots_service.core.run_settings import settings_from
from bots_service.core.state import RunState, advance, fresh_state
from tests.core.journals import Story, evidence_of, pool_of, replay, report_of, stories


def test_rewards_add_to_successes_and_what_they_lack_to_failures():
    assert counts_of_rewards([0, 1, 0.5], (0.0, 1.0)) == (1.5, 1.5)
    assert counts_of_rewards([-1.0, 1.0, 0.5], (-1.0, 1.0)) == (1.75, 1.25)


@given(st.floats(-1e9, 1e9), st.floats(1e-300, 1e9), st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_each_reward_adds_one_rollout_whatever_the_range(low, width, shares):
    high = low + width
    if high <= low:
        return
    rewards = [min(max(low + share * (high - low), low), high) for share in shares]
    successes, failures = counts_of_rewards(rewards, (low, high))
    assert successes >= 0
    assert failures >= 0
    assert successes + failures == pytest.approx(len(rewards), rel=1e-9)


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf, -0.001, 1.001])
def test_a_reward_outside_the_range_is_refused_by_its_place(reward):
    with pytest.raises(ValueError, match=r"at 1 is outside \[0, 1\]"):
        counts_of_rewards([0.5, reward], (0.0, 1.0))


def test_no_rewards_are_refused():
    with pytest.raises(ValueError, match="no rewards"):
        counts_of_rewards([], (0.0, 1.0))


def test_trials_split_into_successes_and_failures():
    assert counts_of_trials(7, 16) == (7.0, 9.0)
    assert counts_of_trials(2.5, 4) == (2.5, 1.5)
    assert counts_of_trials(MAX_TRIALS, MAX_TRIALS) == (MAX_TRIALS, 0.0)


@pytest.mark.parametrize(
    ("successes", "trials"),
    [(0, 0), (0, -1), (0, math.nan), (0, math.inf), (0, 4097), (-1, 4), (5, 4), (math.nan, 4), (math.inf, 4)],
)
def test_counts_that_cannot_be_true_are_refused(successes, trials):
    with pytest.raises(ValueError, match=f"{trials} trials"):
        counts_of_trials(successes, trials)


def test_a_group_has_a_gradient_if_its_rewards_differ_by_more_than_rounding():
    assert not rewards_differ([0.5] * 4, (0.0, 1.0))
    assert not rewards_differ([0.1 + 0.2, 0.3], (0.0, 1.0))
    assert not rewards_differ([1.0], (0.0, 1.0))
    assert rewards_differ([0.2, 0.2, 0.2 + 1e-8], (0.0, 1.0))
    assert not rewards_differ([0.2, 0.2, 0.2 + 1e-8], (0.0, 100.0))
    assert rewards_differ([-7.0, 1.2], (0.0, 1.0))  # shaped rewards may leave the range


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=9),
    st.randoms(),
    st.integers(-64, 64),
    st.sampled_from([1e-6, 0.25, 3.0, 1e9]),
)
def test_order_a_constant_and_the_scale_leave_the_gradient_as_it_is(quarters, random, shift, scale):
    wanted = len(set(quarters)) > 1
    assert rewards_differ([quarter / 4 for quarter in quarters], (0.0, 1.0)) == wanted
    random.shuffle(quarters)
    changed = [scale * (quarter / 4 + shift) for quarter in quarters]
    assert rewards_differ(changed, (scale * shift, scale * (shift + 1))) == wanted


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf])
def test_a_reward_that_is_not_finite_has_no_spread(reward):
    with pytest.raises(ValueError, match=r"at 1 is not a finite number"):
        rewards_differ([0.5, reward], (0.0, 1.0))


PIECES = st.tuples(st.integers(0, 5), st.floats(0, 1e6), st.floats(0, 1e6)).filter(
    lambda piece: piece[1] + piece[2] > 0
)


@given(st.lists(PIECES, max_size=20), st.randoms())
def test_counts_are_summed_by_task_exactly_in_any_order(pieces, random):
    wanted = {
        task: (math.fsum(s for t, s, _ in pieces if t == task), math.fsum(f for t, _, f in pieces if t == task))
        for task in sorted({task for task, *_ in pieces})
    }
    random.shuffle(pieces)
    summed = sum_by_task(evidence_of(*pieces))
    assert summed.tasks.tolist() == list(wanted)
    assert list(zip(summed.successes.tolist(), summed.failures.tolist(), strict=True)) == list(wanted.values())
    assert summed.tasks.dtype == np.int32


eighths = st.integers(0, 8).map(lambda count: count / 8)
parts = st.lists(st.tuples(st.integers(0, 3), st.sampled_from([1.0, 2.0, 7.0]), eighths, st.booleans()), max_size=12)


@given(parts, st.randoms())
def test_a_task_in_parts_is_effective_if_a_part_is_or_their_success_rates_differ(parts, random):
    wanted = {
        task: any(flag for t, _, _, flag in parts if t == task) or len({r for t, _, r, _ in parts if t == task}) > 1
        for task in sorted({task for task, *_ in parts})
    }
    random.shuffle(parts)
    pieces = [(task, trials * rate, trials * (1 - rate)) for task, trials, rate, _ in parts]
    summed = sum_by_task(evidence_of(*pieces, effective=[flag for *_, flag in parts]))
    assert dict(zip(summed.tasks.tolist(), summed.effective.tolist(), strict=True)) == wanted


# --- what rollouts cost: sums by step and in all; late, expired and aborted rollouts; bytes --------------------------

amounts = st.integers(0, 10**6).map(float)
POOL = pool_of((0.5,), (0.5,), (0.5,))


def added(one: Costs, other: Costs) -> Costs:
    return Costs(one.tokens + other.tokens, one.seconds + other.seconds)


@st.composite
def costly_stories(draw: st.DrawFn) -> Story:
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


TWENTY_TASKS = pool_of(*[(0.5, 0.5)] * 20)


@pytest.mark.parametrize("belief", ["tracker", "bots"])
def test_what_waits_for_long_is_never_too_old_to_fold(belief: str):
    state = fresh_state(settings_from({"belief": belief, "tasks_per_step": 2}), TWENTY_TASKS)
    for seq in range(1, 200):
        tasks = [seq % 20, (seq + 1) % 20, (seq + 2) % 20][: 2 + seq % 2]
        body = Report(evidence_of(*((task, 1.0, 3.0) for task in tasks)), max(state.step - 64, 0), None)
        state, receipt = advance(state, Entry(seq, 0, TWENTY_TASKS.profiles, body), TWENTY_TASKS)
        assert receipt.closed
    assert state.step == 199


# --- what a receipt says of evidence, against plain Python -----------------------------------------------------------

quarters = st.integers(0, 64).map(lambda count: count / 4)
outcomes = st.lists(st.tuples(quarters, quarters).filter(any), max_size=30)


@given(outcomes, st.data())
def test_the_sums_of_a_step_count_tasks_rollouts_and_successes(counts, data):
    flags = data.draw(st.lists(st.booleans(), min_size=len(counts), max_size=len(counts)))
    evidence = evidence_of(*((task, s, f) for task, (s, f) in enumerate(counts)), effective=flags)
    told = totals_of(evidence, NOTHING_OPEN, 0)
    assert told.reported == len(counts) == told.effective + told.all_solved + told.none_solved
    assert told.effective == sum(flags)
    alike = [(s, f) for (s, f), flag in zip(counts, flags, strict=True) if not flag]
    assert told.all_solved == sum(s / (s + f) >= 0.5 for s, f in alike)
    assert (told.rollouts, told.successes) == (sum(s + f for s, f in counts), sum(s for s, _ in counts))


@given(outcomes.filter(any), st.data())
def test_prediction_errors_are_means_over_rollouts(counts, data):
    means = data.draw(st.lists(st.floats(1e-6, 1 - 1e-6), min_size=len(counts), max_size=len(counts)))
    evidence = evidence_of(*((task, s, f) for task, (s, f) in enumerate(counts)))
    brier, log_loss = errors_of(np.array(means), evidence)
    rollouts = sum(s + f for s, f in counts)
    rows = [(s, f, p) for (s, f), p in zip(counts, means, strict=True)]
    assert brier == pytest.approx(sum(s * (1 - p) ** 2 + f * p**2 for s, f, p in rows) / rollouts)
    assert log_loss == pytest.approx(-sum(s * math.log(p) + f * math.log1p(-p) for s, f, p in rows) / rollouts)


def test_without_evidence_nothing_was_predicted():
    assert errors_of(np.empty(0), evidence_of()) == (None, None)
    assert calibration(np.empty(0), evidence_of()) is None


@given(outcomes.filter(any), st.data())
def test_a_calibration_adds_up_each_bin(counts, data):
    edges = st.sampled_from([place / BINS for place in range(1, BINS + 1)])
    means = data.draw(st.lists(st.floats(1e-6, 1) | edges, min_size=len(counts), max_size=len(counts)))
    shown = calibration(np.array(means), evidence_of(*((task, s, f) for task, (s, f) in enumerate(counts))))
    assert shown is not None
    rows = [(min(int(p * BINS), BINS - 1), s + f, p * (s + f), s) for (s, f), p in zip(counts, means, strict=True)]
    for place in range(BINS):
        own = [row[1:] for row in rows if row[0] == place]
        expected = [sum(column) for column in zip(*own, strict=True)] or [0.0] * 3
        assert [shown.rollouts[place], shown.predicted[place], shown.solved[place]] == pytest.approx(expected)
