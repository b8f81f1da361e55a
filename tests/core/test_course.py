"""The course of a run, compared with plain loops over its steps."""

import math
from dataclasses import dataclass, fields

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.summary.course import (
    RECENT,
    TIMED,
    TREND,
    CourseSteps,
    RunCourse,
    StepSums,
    UniformEstimates,
    estimated_gain,
    recent_ratios,
)


@dataclass(frozen=True)
class Step:
    """A closed step, plainly."""

    seq: int
    reported: int
    effective: int
    time: float


@st.composite
def made_steps(draw: st.DrawFn, *, most: int = 130) -> list[Step]:
    seq, steps = 0, []
    for _ in range(draw(st.integers(0, most))):
        seq += draw(st.integers(1, 3))
        reported = draw(st.integers(0, 4))
        steps.append(Step(seq, reported, draw(st.integers(0, reported)), float(seq * seq)))
    return steps


made_estimates = st.dictionaries(st.integers(0, 300), st.floats(0.1, 1.0), max_size=12)
made_cuts = st.lists(st.integers(0, 130), max_size=4)


def columns(steps: list[Step]) -> CourseSteps:
    return CourseSteps(
        np.array([step.seq for step in steps], np.int64),
        np.array([step.reported for step in steps], np.int64),
        np.array([step.effective for step in steps], np.int64),
        np.array([4.0 * step.reported for step in steps]),
        np.array([step.time for step in steps])[-TIMED:],
    )


def looks(estimates: dict[int, float], after: int, up_to: int) -> UniformEstimates:
    seqs = sorted(seq for seq in estimates if after < seq <= up_to)
    return UniformEstimates(np.array(seqs, np.int64), np.array([estimates[seq] for seq in seqs], np.float64))


def read(steps: list[Step], estimates: dict[int, float], cuts: list[int]) -> RunCourse:
    """Return the course of the steps, read in parts that begin at the cuts."""
    course = RunCourse()
    places = sorted({0, len(steps), *(cut for cut in cuts if cut < len(steps))})
    for first, end in zip(places, [*places[1:], len(steps)], strict=True):
        part = steps[first:end]
        up_to = 10**6 if end == len(steps) else part[-1].seq
        course = course.continued(columns(part), looks(estimates, course.settled, up_to))
    return course


def ratio(steps: list[Step]) -> float | None:
    reported = sum(step.reported for step in steps)
    return sum(step.effective for step in steps) / reported if reported else None


def expected_by_hand(steps: list[Step], estimates: dict[int, float]) -> float:
    """Return what uniform sampling is expected to find: by the last estimate before each step, else by the first."""
    total = 0.0
    for step in steps:
        before = [seq for seq in estimates if seq <= step.seq]
        total += step.reported * estimates[max(before) if before else min(estimates)]
    return total


def same(one: object, other: object) -> bool:
    return np.allclose(np.asarray(one, np.float64), np.asarray(other, np.float64), equal_nan=True)


@given(steps=made_steps(), estimates=made_estimates, cuts=made_cuts)
def test_a_course_is_the_same_however_its_steps_are_read(steps, estimates, cuts):
    whole, parts = read(steps, estimates, []), read(steps, estimates, cuts)
    for field in fields(RunCourse):
        one, other = getattr(whole, field.name), getattr(parts, field.name)
        if isinstance(one, CourseSteps | UniformEstimates):
            assert all(same(getattr(one, each.name), getattr(other, each.name)) for each in fields(one))
        elif isinstance(one, float | np.ndarray):
            assert same(one, other), field.name
        else:
            assert one == other, field.name


@given(steps=made_steps(), cuts=made_cuts)
def test_sums_and_recent_steps_are_those_of_plain_loops(steps, cuts):
    course = read(steps, {}, cuts)
    for sums, some in ((course.sums, steps), (course.recent, steps[-RECENT:])):
        reported, effective = sum(step.reported for step in some), sum(step.effective for step in some)
        assert sums == StepSums(reported, effective, 4.0 * reported)
        assert sums.effective_task_ratio == ratio(some)
    assert course.steps == len(steps)
    assert course.last_step_at == (steps[-1].time if steps else None)
    gaps = sorted(b.time - a.time for a, b in zip(steps[-TIMED:], steps[-TIMED:][1:], strict=False))
    middle = (gaps[(len(gaps) - 1) // 2] + gaps[len(gaps) // 2]) / 2 if gaps else 0.0
    assert course.usual_gap_s == middle


@given(steps=made_steps(), cuts=made_cuts)
def test_a_trend_has_the_moving_ratio_at_even_distances_and_at_the_end(steps, cuts):
    course = read(steps, {}, cuts)
    stride = next(2**power for power in range(20) if len(steps) // 2**power < TREND)
    ends = sorted({*range(stride, len(steps) + 1, stride), *([len(steps)] if steps else [])})
    assert len(course.trend) == len(ends) <= TREND
    for found, end in zip(course.trend, ends, strict=True):
        wanted = ratio(steps[max(0, end - RECENT) : end])
        assert found is wanted is None or (found is not None and wanted is not None and math.isclose(found, wanted))


@given(steps=made_steps(), estimates=made_estimates, cuts=made_cuts)
def test_an_estimate_of_uniform_sampling_counts_from_when_it_was_made(steps, estimates, cuts):
    course = read(steps, estimates, cuts)
    gain = estimated_gain(course)
    assert (gain.source, gain.baseline, gain.steps) == ("estimated", None, len(steps))
    assert gain.rollouts_spent == course.sums.rollouts
    if not estimates:
        assert course.uniform_expected is course.uniform_recent is gain.factor is gain.rollouts_saved is None
        return
    expected, recent = expected_by_hand(steps, estimates), steps[-RECENT:]
    assert course.uniform_expected is not None
    assert math.isclose(course.uniform_expected, expected, abs_tol=1e-9)
    reported = sum(step.reported for step in recent)
    share = gain.uniform_effective_task_ratio
    if reported:
        assert share is not None
        assert math.isclose(share, expected_by_hand(recent, estimates) / reported)
    else:
        assert share is None
    if not course.sums.reported:
        assert gain.own_ratio is gain.uniform_ratio is None
    else:
        assert gain.own_ratio == ratio(steps)
        assert gain.uniform_ratio is not None
        assert math.isclose(gain.uniform_ratio, expected / sum(step.reported for step in steps))
        assert gain.factor is not None
        assert gain.rollouts_saved is not None
        assert math.isclose(gain.factor, course.sums.effective / expected)
        assert math.isclose(gain.rollouts_saved, course.sums.rollouts * (gain.factor - 1), abs_tol=1e-9)


def test_an_estimate_that_comes_late_still_counts_for_the_steps_since():
    steps = [Step(seq, 2, 1, float(seq)) for seq in range(1, 5)]
    early = RunCourse().continued(columns(steps), looks({1: 0.5}, -1, 4))
    late = early.continued(columns([]), looks({1: 0.5, 3: 0.25}, early.settled, 4))
    assert early.uniform_expected == 4 * 2 * 0.5
    assert late.uniform_expected == 2 * 2 * 0.5 + 2 * 2 * 0.25


def test_steps_without_outcomes_have_no_ratio():
    none, one = np.array([0, 0, 3]), np.array([0, 0, 1])
    np.testing.assert_array_equal(recent_ratios(none, one), [np.nan, np.nan, 1 / 3])


def test_a_course_of_many_steps_stays_small():
    steps = [Step(seq, 8, seq % 9, float(seq)) for seq in range(1, 5001)]
    course = read(steps, dict.fromkeys(range(0, 5001, 2), 0.5), [100, 3000])
    arrays = [
        course.ratios,
        *(getattr(part, each.name) for part in (course.tail, course.estimates) for each in fields(part)),
    ]
    assert sum(array.nbytes for array in arrays) < 6000
    assert all(array.base is None for array in arrays)  # no part of a larger array, which would stay with it
