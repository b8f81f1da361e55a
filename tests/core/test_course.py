"""The course of a run, compared with plain loops over its steps."""

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.summary import (
    RECENT,
    TIMED,
    TREND,
    RunCourse,
    Sums,
    course_of,
    estimated_gain,
    wanted_steps,
)


@dataclass(frozen=True)
class Step:
    """A closed step, plainly."""

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
    return course_of(origin, last, {number: ends[number] for number in (origin, *wanted)})


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
    stride = next(2**power for power in range(20) if len(steps) // 2**power < TREND)
    ends = sorted({*range(stride, len(steps) + 1, stride), *([len(steps)] if steps else [])})
    assert len(course.trend) == len(ends) <= TREND
    for found, end in zip(course.trend, ends, strict=True):
        width = RECENT if end % stride else -(-RECENT // stride) * stride  # between points of the trend
        assert same(found, ratio(steps[max(0, end - width) : end]))


@given(steps=made_steps(), earlier=before_a_fork)
def test_the_estimate_of_uniform_sampling_is_that_of_the_time(steps: list[Step], earlier: list[int]):
    gain = estimated_gain(course := read(steps, earlier))
    expected, recent = sum(step.expected for step in steps), steps[-RECENT:]
    assert (gain.source, gain.baseline, gain.steps) == ("estimated", None, len(steps))
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
