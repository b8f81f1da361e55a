"""The outlook of a pool against a look at each of its tasks."""

import math
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor, isclose, pi, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import betabinom

from bots_service.core import summary
from bots_service.core.belief import Belief
from bots_service.core.draw import NamedTasks, SelectRequest, select_tasks
from bots_service.core.entries import Entry, Report
from bots_service.core.guard import Streak
from bots_service.core.pool import Pool
from bots_service.core.receipt import BINS as CALIBRATION_BINS
from bots_service.core.receipt import Calibration, Receipt, Totals
from bots_service.core.rounding import half_up
from bots_service.core.run_settings import settings_from
from bots_service.core.state import RunState, advance, fresh_state
from bots_service.core.summary import (
    ATTENTION_S,
    BINS,
    COLLAPSED,
    EVERY,
    EXHAUSTED,
    LARGE_ERROR,
    MOST_OF_VISITS,
    MOST_UNMET,
    RECENT,
    SMALLEST_POOL,
    STARTING,
    TIMED,
    TREND,
    RunCourse,
    RunFacts,
    RunVerdict,
    Sums,
    UniformEstimate,
    calibration_error,
    course_of,
    coverage,
    estimate_after,
    estimated_gain,
    findings_of,
    gain_over,
    hint_on,
    is_overdue,
    last_evaluation,
    narrow,
    needs_attention,
    outlook,
    status_of,
    tag_rows,
    verdict_on,
    wanted_steps,
)
from bots_service.core.walks import WHOLE, Walk, places_of_pass
from bots_service.selections import context_of
from tests.core.journals import evidence_of, pool_of, replay, report_of
from tests.core.pools import belief, beliefs, beta_parameters, candidates, pool, pools, tasks


def looked(believed: Belief, about: Pool, rollouts: float, *, seed: int = 0) -> UniformEstimate:
    """The outlook of a run that believes this, whose tasks have so many rollouts."""
    state = fresh_state(settings_from({"seed": seed}), about)
    return outlook(replace(state, belief=believed, totals=Totals(reported=1, rollouts=rollouts)), about)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_it_is_what_a_look_at_each_task_gives(data):
    about = data.draw(pools())
    prior = data.draw(st.sampled_from([(1.0, 1.0), (0.25, 3.0)]))
    believed = data.draw(beliefs(about, prior))
    rollouts = data.draw(st.integers(1, 64))
    found, offered = looked(believed, about, rollouts), candidates(about)
    if not offered:
        assert found == UniformEstimate()
        return
    alpha, beta = beta_parameters(believed.distributions(about, tasks(*offered)))
    solved, failed = np.maximum(alpha - prior[0], 0), np.maximum(beta - prior[1], 0)
    likely = betabinom(rollouts, solved + 0.5, failed + 0.5)
    expected = np.mean(1.0 - likely.pmf(0) - likely.pmf(rollouts))
    # Log-gammas of counts of 1e7 are right to 3e-8.
    assert found.ratio == pytest.approx(max(expected, 0.0), rel=1e-6, abs=1e-7)
    means = alpha / (alpha + beta)
    counts = [0] * BINS
    for mean in means:
        counts[min(int(mean * BINS), BINS - 1)] += 1
    assert found.distribution == tuple(count / len(offered) for count in counts)
    assert sum(found.distribution or ()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("alpha", "beta", "place"), [(1e-300, 1.0, 0), (1.0, 19.0, 1), (1.0, 1.0, 10), (19.0, 1.0, 19), (1.0, 1e-300, 19)]
)
def test_a_bin_holds_its_lower_end_and_the_last_one_both(alpha, beta, place):
    found = looked(belief([alpha], [beta]), pool([0]), 16)
    assert found.distribution == tuple(float(bin_ == place) for bin_ in range(BINS))


def test_a_sample_stands_for_a_large_pool(monkeypatch: pytest.MonkeyPatch):
    about, rng = pool(np.arange(5000)), np.random.default_rng(3)
    believed = belief(rng.uniform(1, 9, 5000), rng.uniform(1, 9, 5000))
    sampled, again, other = (looked(believed, about, 16, seed=seed) for seed in (1, 1, 2))
    monkeypatch.setattr(summary, "SAMPLE", 5000)
    whole = looked(believed, about, 16)
    assert sampled == again != other
    assert sampled.ratio == pytest.approx(whole.ratio, abs=0.04)  # 4 standard errors
    assert sampled.distribution == pytest.approx(whole.distribution, abs=0.08)


@pytest.mark.parametrize("kind", ["bots", "tracker"])
def test_what_uniform_sampling_would_have_found_is_added_up_by_the_estimates_of_the_time(kind: str):
    about = pool_of(*((share / 16,) for share in range(17)))
    state, before = fresh_state(settings_from({"belief": kind}), about), UniformEstimate()
    looks, expected, ratio = 0, 0.0, None
    for number in range(70):
        body = report_of((number % 17, 4.0, 12.0), (number * 3 % 17, 9.0, 7.0), close=number % 3 > 0)
        after, receipt = advance(state, Entry(number + 1, 0, about.profiles, body), about)
        found = estimate_after(before, state, receipt, about)
        if receipt.closed:
            if state.step in {0, 1, 2, 4, 8} or (state.step >= EVERY and state.step % EVERY == 0):
                here = outlook(state, about)
                ratio, looks = here.ratio, looks + 1
                assert found.distribution == here.distribution
            assert ratio is not None
            expected += ratio * receipt.reported
            assert found.ratio == ratio
            assert found.expected == pytest.approx(expected)
        else:
            assert (found.ratio, found.expected, found.distribution) == (before.ratio, before.expected, None)
        state, before = after, found
    assert looks == 5 + (state.step - 1) // EVERY


def test_the_first_estimate_stands_for_the_steps_before_it_and_there_is_none_without_tasks():
    about = pool_of((0.25,), (0.5,))
    state = replay(about, [report_of((0, 4.0, 12.0))] * 40, settings_from({}))
    body = Entry(41, 0, about.profiles, report_of((0, 4.0, 12.0), (1, 1.0, 1.0)))
    _, receipt = advance(state, body, about)
    found = estimate_after(UniformEstimate(), state, receipt, about)
    assert found.ratio is not None
    assert found.expected == found.ratio * 42
    nothing = replace(about, retired=np.array([0, 1], np.int32))
    assert estimate_after(UniformEstimate(), state, receipt, nothing) == UniformEstimate()


# --- how visits spread over a pool, against a plain count; and which ways of choosing are called narrow --------------

NO_TASKS = np.empty(0, np.int32)


def pool_without_references(size: int) -> Pool:
    return pool_of(*[()] * size)


def visited(pool: Pool, steps: list[list[int]], **settings) -> RunState:
    return replay(pool, [report_of(*((task, 1.0, 1.0) for task in step)) for step in steps], settings_from(settings))


@given(st.data())
def test_it_is_what_a_plain_count_gives(data):
    size = data.draw(st.integers(1, 40))
    some = st.lists(st.integers(0, size - 1), unique=True, min_size=1).map(sorted)
    steps = data.draw(st.lists(some, max_size=12))
    retired = data.draw(st.lists(st.integers(0, size - 1), unique=True).map(sorted))
    found = coverage(
        visited(pool_without_references(size), steps),
        replace(pool_without_references(size), retired=tasks(*retired)),
    )
    offered = [task for task in range(size) if task not in retired]
    visits = Counter(task for step in steps for task in step)
    total = sum(visits.values())
    assert (found.available_tasks, found.distinct_tasks) == (len(offered), len(visits))
    reached = sum(task in visits for task in offered) / len(offered) if offered else None
    assert found.reached_share == reached
    if not steps:
        assert (found.top_tenth_share, found.unmet_share) == (None, None)
        return
    told = narrow(found, settings_from({}))
    if not offered:
        assert (found.unmet_share, found.top_tenth_share, told) == (None, None, None)
        return
    largest = sum(sorted(visits.values())[-ceil(len(offered) / 10) :]) / total
    assert found.top_tenth_share == pytest.approx(largest)
    pass_steps = ceil(len(offered) * len(steps) / total)
    if pass_steps > len(steps):
        assert (found.unmet_share, told) == (None, None)
        return
    met = {task for step in steps[-pass_steps:] for task in step}
    assert found.unmet_share is not None
    assert found.unmet_share == pytest.approx(sum(task not in met for task in offered) / len(offered))
    over = found.unmet_share > MOST_UNMET or largest > MOST_OF_VISITS
    assert (told is not None) == (over and len(offered) >= SMALLEST_POOL)


def test_a_pass_tells_how_far_it_came_and_another_strategy_nothing():
    pool = pool_without_references(8)
    state = visited(pool, [[0, 1]], strategy="pass")
    state = replace(state, walks=state.walks.moved([Walk(WHOLE, 3, 6, 8)]))
    found = coverage(state, pool)
    # The first pass was given up: its only report came without a selection's id.
    assert found.passes == 2 + 6 / places_of_pass(8)
    assert coverage(visited(pool, [[0, 1]], strategy="uniform"), pool).passes is None


def test_with_a_mix_each_tag_has_a_pass_of_its_own_and_none_is_told():
    pool = Pool.of_tasks(np.empty((4, 0)), {"odd": tasks(1, 3)})
    found = coverage(visited(pool, [[0, 1]], strategy="pass", mix={"odd": 1.0}), pool)
    assert found.passes is None


def told_of(state: RunState, pool: Pool) -> RunVerdict:
    found = narrow(coverage(state, pool), state.settings)
    assert found is not None
    return found


def test_the_reason_tells_what_was_counted_and_what_to_do():
    pool = pool_without_references(40)
    steps = [[0, 1, 2, 3]] * 10
    for strategy, todo in (("thompson", "use the strategy pass"), ("uniform", "add tasks of another difficulty")):
        told = told_of(visited(pool, steps, strategy=strategy), pool)
        assert todo in told.advice
        assert f"enough for a pass over all 40 tasks, left out {100 * 36 / 40:.0f} % of them" in told.reason
        assert f", and a tenth of the pool took {100 * 4 / 4:.0f} % of all visits" in told.reason


def test_one_of_the_bounds_is_enough():
    pool = pool_without_references(40)
    spread = [[4 * turn + task for task in range(4)] for turn in range(10)]
    few = [[4 * (turn % 3) + task for task in range(4)] for turn in range(10)]
    many_at_first = told_of(visited(pool, [*spread * 5, *few]), pool).reason
    assert "left out" in many_at_first
    assert "of all visits" not in many_at_first
    few_at_first = told_of(visited(pool, [*[[0, 1, 2, 3]] * 10, *spread]), pool).reason
    assert "of all visits" in few_at_first
    assert "left out" not in few_at_first


SIZE, BATCH, ROLLOUTS, STEPS = 480, 16, 8, 120
HOPELESS = 0.29  # of the tasks, as in the pilot


def ever_narrow(**settings) -> bool:
    """Whether a run is called narrow after any of the steps; what a task's rollouts come to never changes."""
    rng, pool = np.random.default_rng(0), Pool.of_tasks(np.empty((SIZE, 0)))
    skills = np.where(rng.random(SIZE) < HOPELESS, -5.0, rng.normal(0, 2, SIZE))
    state, found = fresh_state(settings_from(settings), pool), False
    for step in range(STEPS):
        context, request = context_of(state, np.random.default_rng([1, step])), SelectRequest("pool", BATCH)
        drawn = select_tasks(state.belief, pool, request, context, named=NamedTasks(), leased=NO_TASKS)
        chosen = np.sort(drawn.tasks).tolist()
        solved = rng.binomial(ROLLOUTS, 1 / (1 + np.exp(-skills[chosen]))).tolist()
        evidence = evidence_of(*((task, float(s), float(ROLLOUTS - s)) for task, s in zip(chosen, solved, strict=True)))
        entry = Entry(state.seq + 1, 0, pool.profiles, Report(evidence, state.step, None, drawn.walks))
        state, _ = advance(state, entry, pool)
        found = found or narrow(coverage(state, pool), state.settings) is not None
    return found


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("belief", "strategy"),
    [
        ("bots", "shuffle"),
        ("bots", "uniform"),
        ("bots", "pass"),
        ("tracker", "pass"),
        ("bots", "thompson"),
    ],
)
def test_choice_that_goes_round_the_pool_is_never_called_narrow(belief: str, strategy: str):
    assert not ever_narrow(belief=belief, strategy=strategy)


@pytest.mark.parametrize("settings", [{"belief": "tracker"}, {"belief": "bots", "forgetting": 0.0}])
def test_the_nearest_to_the_target_under_a_sharp_belief_is_called_narrow(settings):
    assert ever_narrow(strategy="thompson", **settings)


# --- what is said of how a run selects -------------------------------------------------------------------------------

UNKNOWN = pool_of(*[()] * 100)
BOTS = settings_from({"belief": "bots"})


def after_steps_of(tasks: int, pool=UNKNOWN, **settings):
    body = report_of(*((task, 1.0, 1.0) for task in range(tasks)))
    return hint_on(replay(pool, [body] * 2, settings_from({"belief": "bots", **settings})), pool)


def test_without_references_a_run_is_told_how_long_evidence_lasts_and_how_many_tasks_a_step_it_takes():
    text = hint_on(fresh_state(BOTS, UNKNOWN), UNKNOWN)
    assert f"about {1 / 0.1:.0f} steps" in text
    assert f"fewer than {100 * 0.1:.0f} tasks a step" in text
    text = after_steps_of(4, forgetting=0.05)
    assert f"about {1 / 0.05:.0f} steps" in text
    assert f"fewer than {100 * 0.05:.0f} tasks a step" in text


def test_a_run_that_comes_round_its_pool_before_it_forgets_needs_no_advice():
    assert after_steps_of(9)
    assert not after_steps_of(10)
    retired = replace(UNKNOWN, retired=np.arange(10, 20, dtype=np.int32))
    assert not after_steps_of(9, retired)
    small = pool_of(*[()] * 10)
    assert not hint_on(fresh_state(BOTS, small), small)  # any step brings one of ten


def test_references_of_one_task_are_enough_to_tell_others_apart():
    nobody, one = pool_of(*[(math.nan, 0.5)] * 100), pool_of((0.25, 0.5), *[(math.nan, 0.5)] * 99)
    assert hint_on(fresh_state(BOTS, nobody), nobody)
    assert not hint_on(fresh_state(BOTS, one), one)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"belief": "bots", "strategy": "uniform"},
        {"belief": "bots", "strategy": "shuffle"},
    ],
)
def test_a_run_that_does_not_look_at_its_belief_or_never_forgets_gets_no_advice(settings):
    assert not hint_on(fresh_state(settings_from(settings), UNKNOWN), UNKNOWN)


REFERENCES = pool_of(*[(0.25, 0.5)] * 100)


@pytest.mark.parametrize("belief", [{"belief": "tracker"}, {"belief": "bots", "forgetting": 0.0}])
def test_a_belief_that_forgets_nothing_is_told_to_leave_what_is_nearest(belief):
    for about in (UNKNOWN, REFERENCES):
        text = hint_on(fresh_state(settings_from({**belief, "strategy": "thompson"}), about), about)
        assert "'thompson'" in text
        assert "'pass'" in text


# --- the course of a run, compared with plain loops over its steps ---------------------------------------------------


@dataclass(frozen=True)
class Step:
    reported: int
    effective: int
    time: float
    expected: float


@st.composite
def made_steps(draw: st.DrawFn, *, most: int = 200) -> list[Step]:
    steps = []
    for place in range(draw(st.integers(0, most))):
        reported = draw(st.integers(0, 4))
        expected = draw(st.floats(0.1, 1.0)) * reported
        steps.append(Step(reported, draw(st.integers(0, reported)), float(place * place), expected))
    return steps


before_a_fork = st.lists(st.integers(0, 30), max_size=5)


def read(steps: list[Step], earlier: list[int], *, estimated: bool = True) -> RunCourse:
    """Return the course of the steps; earlier: tasks of the steps before a fork, all of them effective."""
    origin, tasks = len(earlier), sum(earlier)
    sums = Sums(tasks, tasks, 8.0 * tasks, 0.0 if estimated else None)
    ends = {origin: sums}
    for number, step in enumerate(steps, origin + 1):
        reported, expected = sums.reported + step.reported, sums.expected
        expected = None if expected is None else expected + step.expected
        ends[number] = sums = Sums(reported, sums.effective + step.effective, 8.0 * reported, expected, step.time)
    last = origin + len(steps)
    wanted = wanted_steps(origin, last)
    assert len(wanted) <= TREND + TIMED + 2
    return course_of(origin, last, {number: ends[number] for number in wanted})


def ratio(steps: list[Step]) -> float | None:
    reported = sum(step.reported for step in steps)
    return sum(step.effective for step in steps) / reported if reported else None


def same(one: float | None, other: float | None) -> bool:
    return one is other is None or (one is not None and other is not None and math.isclose(one, other, abs_tol=1e-9))


@given(steps=made_steps(), earlier=before_a_fork)
def test_sums_and_recent_steps_are_those_of_plain_loops(steps: list[Step], earlier: list[int]):
    course = read(steps, earlier)
    for sums, some in ((course.sums, steps), (course.recent, steps[-RECENT:])):
        reported, effective = sum(step.reported for step in some), sum(step.effective for step in some)
        assert sums[:3] == (reported, effective, 8.0 * reported)
        assert sums.effective_task_ratio == ratio(some)
    assert course.steps == len(steps)
    assert course.sums.at == (steps[-1].time if steps else None)
    gaps = sorted(b.time - a.time for a, b in zip(steps[-TIMED:], steps[-TIMED:][1:], strict=False))
    middle = (gaps[(len(gaps) - 1) // 2] + gaps[len(gaps) // 2]) / 2 if gaps else 0.0
    assert course.usual_gap_s == middle


@given(steps=made_steps(), earlier=before_a_fork)
def test_a_trend_has_the_moving_ratio_at_even_distances_and_at_the_end(steps: list[Step], earlier: list[int]):
    course = read(steps, earlier)
    ends = sorted({len(steps) * place // TREND for place in range(TREND + 1)})
    assert len(course.trend) == len(ends) - 1 <= TREND
    for place, found in enumerate(course.trend, 1):
        width = next((w for w in range(1, 99) if w * len(steps) >= RECENT * (len(ends) - 1)), 1)  # points of the trend
        assert same(found, ratio(steps[ends[max(0, place - width)] : ends[place]]))


@given(steps=made_steps(), earlier=before_a_fork)
def test_the_estimate_of_uniform_sampling_is_that_of_the_time(steps: list[Step], earlier: list[int]):
    gain = estimated_gain(course := read(steps, earlier))
    expected, recent = sum(step.expected for step in steps), steps[-RECENT:]
    assert (gain.baseline, gain.steps) == (None, len(steps))
    assert gain.rollouts_spent == course.sums.rollouts
    assert same(course.sums.expected, expected)
    shares = sum(step.expected for step in recent), sum(step.reported for step in recent)
    assert same(gain.uniform_effective_task_ratio, shares[0] / shares[1] if shares[1] else None)
    assert same(gain.own_ratio, ratio(steps))
    if course.sums.reported:
        assert same(gain.uniform_ratio, expected / course.sums.reported)
        assert same(gain.factor, course.sums.effective / expected)
        assert gain.factor is not None
        assert same(gain.rollouts_saved, course.sums.rollouts * (gain.factor - 1))


@pytest.mark.parametrize("earlier", [[], [4, 4]])
def test_without_an_estimate_nothing_is_said_of_uniform_sampling(earlier: list[int]):
    gain = estimated_gain(read([Step(4, 2, 1.0, 0.0)] * 60, earlier, estimated=False))
    assert gain.factor is gain.rollouts_saved is gain.uniform_ratio is gain.uniform_effective_task_ratio is None


# --- the gain over uniform sampling, and the status of a run ---------------------------------------------------------

sums = st.builds(
    lambda reported, share, group: Sums(reported, int(reported * share), float(reported * group)),
    st.integers(0, 10_000),
    st.floats(0, 1),
    st.integers(1, 16),
)


@given(own=sums, uniform=sums, recent=sums)
def test_a_measured_gain_compares_the_shares_of_effective_tasks(own, uniform, recent):
    gain = gain_over("even", 7, own, uniform.effective_task_ratio, recent.effective_task_ratio)
    assert (gain.baseline, gain.steps, gain.rollouts_spent) == ("even", 7, own.rollouts)
    assert gain.uniform_effective_task_ratio == recent.effective_task_ratio
    assert gain.own_ratio == (own.effective / own.reported if own.reported else None)
    assert gain.uniform_ratio == (uniform.effective / uniform.reported if uniform.reported else None)
    if not (own.reported and uniform.effective):
        assert gain.factor is gain.rollouts_saved is None
        return
    factor = (own.effective / own.reported) / (uniform.effective / uniform.reported)
    assert gain.factor is not None
    assert gain.rollouts_saved is not None
    assert math.isclose(gain.factor, factor)
    # Uniform sampling finds as many effective tasks with `factor` times the rollouts.
    assert math.isclose(gain.rollouts_saved, own.rollouts * factor - own.rollouts, abs_tol=1e-6)


@pytest.mark.parametrize(
    ("since_s", "usual_gap_s", "status"),
    [
        (None, 0.0, "new"),
        (60.0, 1.0, "running"),
        (60.1, 1.0, "stalled"),
        (90.0, 30.0, "running"),
        (90.1, 30.0, "stalled"),
        (3599.9, 30.0, "stalled"),
        (3600.0, 30.0, "idle"),
        (5999.9, 300.0, "stalled"),
        (6000.0, 300.0, "idle"),
        (-5.0, 1.0, "running"),  # a step of a replica whose clock is ahead
    ],
)
def test_a_run_with_tasks_in_flight_is_stalled_once_three_usual_gaps_passed(since_s, usual_gap_s, status):
    assert status_of(since_s, usual_gap_s, in_flight=True, finished=False) == status
    assert is_overdue(since_s, usual_gap_s) == (status == "stalled")
    if status == "stalled":
        assert status_of(since_s, usual_gap_s, in_flight=False, finished=False) == "idle"
    assert status_of(since_s, usual_gap_s, in_flight=True, finished=True) == "finished"


SCORES = ((10, 0.3), (20, 0.5), (40, 0.4))


@pytest.mark.parametrize(
    ("baseline", "step", "difference"),
    [
        (SCORES, 40, 0.0),
        (((20, 0.25),), 20, 0.25),
        (((0, 0.0), (30, 0.3)), 20, 0.5 - 0.2),  # on the line between
        (((0, 0.1), (9, 0.2)), None, None),
        (((41, 0.1),), None, None),
        ((), None, None),
    ],
)
def test_an_evaluation_is_compared_at_its_last_step_within_the_baseline_s(baseline, step, difference):
    found = last_evaluation("accuracy", SCORES, baseline, "other")
    assert (found.name, found.step, found.value, found.baseline) == ("accuracy", 40, 0.4, "other")
    assert (found.compared_step, found.difference) == (step, difference if step is None else pytest.approx(difference))


# --- the bounds of each verdict, on plain numbers, and the order of the verdicts -------------------------------------

NOTHING = Calibration((0.0,) * CALIBRATION_BINS, (0.0,) * CALIBRATION_BINS, (0.0,) * CALIBRATION_BINS)


def expecting(ratio: float, *, easy: float = 0.0, hard: float = 0.0) -> UniformEstimate:
    """An outlook in which so many tasks are solved nearly always, and nearly never."""
    shares = [hard / 2] * 2 + [(1 - easy - hard) / (BINS - 4)] * (BINS - 4) + [easy / 2] * 2
    return UniformEstimate(ratio, distribution=tuple(shares))


FACTS = RunFacts(
    alarms=(),
    narrow=None,
    calibration=NOTHING,
    group_size=8.0,
    expected=expecting(0.5, easy=0.1, hard=0.1),
    aborting=0,
    met=800,
    has_references=True,
    hint="",
)
COURSE = RunCourse(steps=80, usual_gap_s=10.0, recent=Sums(1600, 960, 12_800.0))
NOW: dict[str, Any] = {"uniform": 0.4}
REFUSED = (12, "reward -1.0 is outside [0, 1]")


def judged(facts: RunFacts, course: RunCourse = COURSE, **now: Any) -> RunVerdict:
    return verdict_on(course, findings_of(facts), **(NOW | now))


def in_bin(place: int, rollouts: float, predicted: float, solved: float) -> Calibration:
    columns = np.zeros((3, CALIBRATION_BINS))
    columns[:, place] = rollouts, rollouts * predicted, rollouts * solved
    return Calibration(*(tuple(column) for column in columns.tolist()))


ALARM = Streak(None, "failed", 71, 80, 24, 1e-12)
# By urgency: each fits together with all that come after it. What the clock says, the course, the facts.
URGENT: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("reports_refused", {"refused": REFUSED}, {}, {}),
    ("verifier_suspect", {}, {}, {"alarms": (ALARM,)}),
    ("stalled", {"stalled_s": 1000.0}, {}, {}),
    ("aborting", {}, {}, {"aborting": 9, "met": 800}),
    ("narrow", {}, {}, {"narrow": RunVerdict("narrow", "Few tasks take most visits.", "Use pass.")}),
    ("miscalibrated", {}, {}, {"calibration": in_bin(8, 80_000, 0.85, 0.4)}),
    ("pool_exhausted", {}, {}, {"expected": expecting(0.05, easy=0.9)}),
    ("learning_slowly", {}, {"recent": Sums(1600, 160, 12_800.0)}, {}),
]


@pytest.mark.parametrize("place", range(len(URGENT) + 1))
def test_the_most_urgent_of_the_verdicts_that_fit_is_given(place):
    now, course, facts = dict[str, Any](), COURSE, FACTS
    for _, own, going, known in URGENT[place:]:
        now, course, facts = now | own, replace(course, **going), replace(facts, **known)
    wanted = URGENT[place][0] if place < len(URGENT) else "healthy"
    assert judged(facts, course, **now).kind == wanted


def test_a_run_of_few_steps_is_starting_whatever_else_its_numbers_say_except_what_is_certain():
    early = replace(COURSE, steps=STARTING - 1)
    for kind, now, going, known in URGENT:
        found = judged(replace(FACTS, **known), replace(early, **going), **now).kind
        assert found == (kind if kind in ("reports_refused", "verifier_suspect", "stalled") else "starting")
    assert judged(FACTS, replace(early, steps=STARTING)).kind == "healthy"
    assert judged(replace(FACTS, hint="Use pass."), early).advice == "Use pass."


@pytest.mark.parametrize(
    ("kind", "wanted"), [("reports_refused", True), ("narrow", True), ("healthy", False), ("starting", False)]
)
def test_a_run_needs_attention_where_something_is_wrong_and_it_moved_lately(kind, wanted):
    verdict = RunVerdict(kind, "Why.", "What to do.")
    assert needs_attention(verdict, 60.0) is needs_attention(verdict, ATTENTION_S) is wanted
    assert needs_attention(verdict, ATTENTION_S + 1) is needs_attention(verdict, None) is False


@given(st.integers(0, 100_000), st.integers(0, 3))
def test_a_half_is_rounded_up_as_in_a_browser(halves, digits):
    value = (halves + 0.5) / 2**5  # exact in binary, so that some of them are exact halves in decimal
    shown = Fraction(half_up(value, digits)) * 10**digits
    assert shown == floor(Fraction(value) * 10**digits + Fraction(1, 2))


def test_an_alarm_comes_first_and_says_how_to_go_back():
    found = judged(replace(FACTS, alarms=(ALARM,)))
    assert found.kind == "verifier_suspect"
    assert found.reason.startswith("All rollouts failed since step 71: 24 groups; given the history of these tasks")
    assert found.advice.startswith("Check the verifier, and")
    assert "rewind the run to step 70" in found.advice
    of_tag = judged(replace(FACTS, alarms=(replace(ALARM, tag="code", outcome="succeeded"),)))
    assert of_tag.reason.startswith("All rollouts of tasks with the tag 'code' succeeded since step 71")
    assert "Check the verifier of these tasks" in of_tag.advice


def test_a_stalled_run_says_for_how_long():
    found = judged(FACTS, stalled_s=1000.0)
    assert found.reason == "The last step closed 17 min ago; usually one closes every 10 s."
    later = judged(FACTS, replace(COURSE, usual_gap_s=1200.0), stalled_s=3 * 3600.0)
    assert later.reason == "The last step closed 3 h ago; usually one closes every 20 min."


@given(st.floats(0.55, 0.95), st.integers(1, 10_000), st.integers(1, 32))
def test_an_error_of_one_bin_is_compared_with_that_of_a_coin_for_each_group(rate, count, size):
    error, chance = calibration_error(in_bin(5, count * size, rate, 0.5), size)
    assert error is not None
    assert isclose(error, rate - 0.5, rel_tol=1e-6)
    assert isclose(chance, sqrt(2 / pi * rate * (1 - rate) / count), rel_tol=1e-6)


def test_the_chance_error_is_that_of_simulated_predictions_that_are_right():
    rng, size, rates = np.random.default_rng(3), 8, np.array([0.15, 0.45, 0.75])
    found = []
    for _ in range(400):
        solved = rng.binomial(40, rates) * size  # the rollouts of a group are equal: the most that chance does
        columns = np.zeros((3, CALIBRATION_BINS))
        columns[:, [1, 4, 7]] = np.stack([np.full(3, 40.0 * size), 40 * size * rates, solved])
        found.append(calibration_error(Calibration(*(tuple(each) for each in columns.tolist())), size))
    errors = [error for error, _ in found if error is not None]
    assert isclose(sum(errors) / len(found), found[0][1], rel_tol=0.1)


def test_predictions_are_called_wrong_if_they_are_off_by_much_and_not_by_chance():
    few = in_bin(5, 8 * 4, 0.55, 0.3)  # 4 groups: chance explains it
    assert judged(replace(FACTS, calibration=few)).kind == "healthy"
    slightly = in_bin(5, 80_000, 0.55, 0.55 - LARGE_ERROR + 0.01)
    assert judged(replace(FACTS, calibration=slightly)).kind == "healthy"
    much = in_bin(5, 80_000, 0.55, 0.55 - LARGE_ERROR - 0.01)
    assert judged(replace(FACTS, calibration=much)).kind == "miscalibrated"
    assert calibration_error(NOTHING, 8.0) == (None, 0.0)


def test_an_exhausted_pool_says_on_which_side():
    for easy, hard, todo in ((0.9, 0.05, "harder"), (0.05, 0.9, "easier")):
        facts = replace(FACTS, expected=expecting(EXHAUSTED, easy=easy, hard=hard))
        found = judged(facts)
        assert (found.kind, found.reason) == (
            "pool_exhausted",
            f"About 10 % of the pool's tasks would be effective: {100 * easy:.0f} % are solved nearly always,"
            f" {100 * hard:.0f} % nearly never.",
        )
        assert todo in found.advice
    assert judged(replace(FACTS, expected=expecting(EXHAUSTED + 0.01))).kind == "healthy"
    assert judged(replace(FACTS, expected=UniformEstimate())).kind == "healthy"


def test_few_effective_tasks_or_clearly_fewer_than_uniform_sampling_are_slow_learning():
    collapsed = replace(COURSE, recent=Sums(1600, int(1600 * COLLAPSED) - 1, 12_800.0))
    assert judged(FACTS, collapsed).kind == "learning_slowly"
    assert judged(FACTS, replace(collapsed, steps=49)).kind == "healthy"
    slack = 3 * sqrt((0.5 * 0.5 + 0.6 * 0.6) / 1600)
    for ratio, kind in ((0.6 - slack - 0.02, "learning_slowly"), (0.6 - slack + 0.02, "healthy")):
        course = replace(COURSE, recent=Sums(1600, round(1600 * ratio), 12_800.0))
        assert judged(FACTS, course, uniform=0.6).kind == kind
    assert judged(replace(FACTS, hint="Use the tracker."), collapsed).advice == "Use the tracker."


def test_a_healthy_run_says_what_it_has_and_what_uniform_sampling_has():
    found = judged(FACTS)
    assert found.reason == "60.0 % of the tasks of the last 50 steps were effective; uniform sampling has 40.0 %."
    alone = judged(replace(FACTS, hint="Use pass."), replace(COURSE, steps=20), uniform=None)
    assert (alone.reason, alone.advice) == ("60.0 % of the tasks of the last 20 steps were effective.", "Use pass.")
    nothing = judged(FACTS, replace(COURSE, recent=Sums()))
    assert (nothing.kind, nothing.reason) == ("healthy", "The last steps reported no task.")


def test_a_few_tasks_that_always_abort_are_no_verdict_and_many_are():
    few = replace(FACTS, aborting=8, met=800)
    assert judged(few).kind == "healthy"
    found = judged(replace(few, aborting=9))
    assert (found.kind, found.reason) == (
        "aborting",
        "9 tasks always abort, of 800 that were selected: three times in a row or more.",
    )
    assert judged(replace(few, aborting=1, met=20)).reason.startswith("1 task always aborts")


def test_groups_of_one_are_told_what_the_run_does_and_not_that_no_task_is_effective():
    single = replace(COURSE, recent=Sums(1600, 0, 1600.0))
    found = judged(replace(FACTS, group_size=1.0, expected=expecting(0.0)), single)
    assert found.kind == "healthy"
    assert "p (1 - p)" in found.reason


def test_no_advice_about_references_is_given_where_there_are_none():
    wrong = replace(FACTS, calibration=in_bin(8, 80_000, 0.85, 0.4))
    assert "reference" in judged(wrong).advice
    assert "reference" not in judged(replace(wrong, has_references=False)).advice


# --- what the last steps showed by tag, compared with sums by hand ---------------------------------------------------

TAGS = {"hard": tasks(4), "math": tasks(0, 1, 2), "odd": tasks(1, 3, 5)}
POOL = Pool.of_tasks(np.empty((6, 0)), TAGS)
STATE = fresh_state(settings_from({}), POOL)


def step(*outcomes: tuple[int, float, float]) -> Receipt:
    return advance(STATE, Entry(1, 0, POOL.profiles, report_of(*outcomes)), POOL)[1]


EARLIER = step((0, 1.0, 3.0), (4, 0.0, 4.0))
SECOND = step((0, 2.0, 2.0), (1, 4.0, 0.0))
THIRD = step((0, 0.0, 4.0), (3, 3.0, 1.0))


def test_a_tag_s_row_holds_what_its_own_tasks_showed_in_these_steps_and_before():
    rows = {row.tag: row for row in tag_rows(POOL, [SECOND, THIRD], [EARLIER])}
    math_row, hard = rows["math"], rows["hard"]
    assert (math_row.tasks, math_row.pool_share) == (3, 3 / 6)
    assert (math_row.reported, math_row.selected_share, math_row.rollouts) == (3, 3 / 4, 12.0)
    assert math_row.effective_task_ratio == 1 / 3
    assert math_row.success_rate == 6 / 12
    assert math_row.earlier_success_rate == 1 / 4
    assert (hard.reported, hard.selected_share, hard.effective_task_ratio, hard.success_rate) == (0, 0.0, None, None)
    assert hard.earlier_success_rate == 0.0


def test_without_a_step_a_row_holds_the_pool_alone():
    row, *_ = tag_rows(POOL, [], [])
    assert (row.tag, row.tasks, row.pool_share, row.reported, row.rollouts) == ("math", 3, 0.5, 0, 0.0)
    assert row.selected_share is row.effective_task_ratio is row.success_rate is row.earlier_success_rate is None


def test_the_tags_with_most_available_tasks_come_first_and_those_without_any_are_left_out():
    assert [(row.tag, row.tasks) for row in tag_rows(POOL, [], [])] == [("math", 3), ("odd", 3), ("hard", 1)]
    rows = tag_rows(replace(POOL, retired=tasks(0, 4)), [], [])
    assert [(row.tag, row.tasks, row.pool_share) for row in rows] == [("odd", 3, 3 / 4), ("math", 2, 2 / 4)]
