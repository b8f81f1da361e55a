"""The course of a run: what its summary shows of its closed steps, from a few of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

import numpy as np

from bots_service.core.receipt import NO_SUMS, StepSums

RECENT = 50  # steps; fewer are too noisy to show a run's present level
TREND = 40  # points at most, the newest included: as many as a sparkline can show
TIMED = 21  # steps whose times are known: the gaps between them say how long a step usually takes


class StepEnd(NamedTuple):
    """Where a run stood when it had closed a step.

    sums: over all steps by then, those before a fork included.
    expected: how many effective tasks uniform sampling was estimated to find in them; None without an estimate.
    at: when it closed, in seconds since 1970, UTC.
    """

    sums: StepSums = NO_SUMS
    expected: float | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class RunCourse:
    """The closed steps of a run's present history, summed up; without those before a fork.

    steps: how many there are; sums: over all of them; recent: over the last RECENT.
    last_step_at: when the last one closed, in seconds since 1970, UTC; None before the first.
    usual_gap_s: the median time between two of the last ones; 0 before the second.
    trend: the effective task ratio over about RECENT steps, along all steps; at most TREND points.
    expected: how many effective tasks uniform sampling is estimated to find in all steps; None without an estimate.
    uniform_recent: the effective task ratio that it is estimated to reach in the last RECENT; None as above.
    """

    steps: int = 0
    sums: StepSums = NO_SUMS
    recent: StepSums = NO_SUMS
    last_step_at: float | None = None
    usual_gap_s: float = 0.0
    trend: tuple[float | None, ...] = ()
    expected: float | None = None
    uniform_recent: float | None = None


def stride_of(steps: int) -> int:
    """Return the smallest power of two of which so few multiples are steps that a trend can show them."""
    stride = 1
    while steps // stride > TREND - 1:
        stride *= 2
    return stride


def wanted_steps(origin: int, step: int) -> list[int]:
    """Return the steps whose ends a course is made of. origin: how many steps closed before a fork; step: by now."""
    grid = range(origin, step + 1, stride_of(step - origin))
    timed = range(max(origin, step - TIMED) + 1, step + 1)
    return sorted({*grid, *timed, max(origin, step - RECENT), step} - {origin})


def course_of(origin: int, step: int, ends: Mapping[int, StepEnd]) -> RunCourse:
    """Return the course of a run that has closed `step` steps. ends: those of `wanted_steps`, and that of `origin`."""
    last, begin, recent = ends[step], ends[origin], ends[max(origin, step - RECENT)]
    stride = stride_of(step - origin)
    grid = list(range(origin, step + 1, stride))
    width = -(-RECENT // stride)
    trend = [
        ends[each].sums.less(ends[grid[max(place - width, 0)]].sums).effective_task_ratio
        for place, each in enumerate(grid)
    ][1:]
    now = last.sums.less(recent.sums)
    times = [ends[each].at for each in range(max(origin, step - TIMED) + 1, step + 1)]
    gaps = np.diff(np.array(times, np.float64))
    expected, lately = _between(begin, last), _between(recent, last)
    return RunCourse(
        steps=step - origin,
        sums=last.sums.less(begin.sums),
        recent=now,
        last_step_at=last.at if step > origin else None,
        usual_gap_s=float(np.median(gaps)) if len(gaps) else 0.0,
        trend=tuple(trend if grid[-1] == step else [*trend, now.effective_task_ratio]),
        expected=expected,
        uniform_recent=lately / now.reported if lately is not None and now.reported else None,
    )


def _between(begin: StepEnd, end: StepEnd) -> float | None:
    """Return how many effective tasks uniform sampling is estimated to find between two steps."""
    if end.expected is None:
        return None
    if begin.expected is not None:
        return end.expected - begin.expected
    return end.expected if not begin.sums.reported else None


GainSource = Literal["measured", "estimated"]
Run = TypeVar("Run")


@dataclass(frozen=True, slots=True)
class Gain:
    """How much more a run found than uniform sampling finds with the same rollouts.

    source: measured by another run that samples uniformly, over the steps that both have closed; or estimated from the
        run's own belief, over all its steps.
    baseline: the name of that other run; None for an estimate.
    factor: effective tasks found, as a multiple of those of uniform sampling; None where that finds none.
    rollouts_saved: how many more rollouts uniform sampling needs for as many; None as above.
    rollouts_spent: in the steps compared.
    steps: how many steps are compared.
    own_ratio, uniform_ratio: the effective task ratios over these steps, of the run and of uniform sampling; their
        quotient is the factor. None where nothing is known.
    uniform_effective_task_ratio: what uniform sampling has over the last 50 of them; None as above.
    """

    source: GainSource
    baseline: str | None
    factor: float | None
    rollouts_saved: float | None
    rollouts_spent: float
    steps: int
    own_ratio: float | None
    uniform_ratio: float | None
    uniform_effective_task_ratio: float | None


def measured_gain(baseline: str, steps: int, *, own: StepSums, uniform: StepSums, recent: StepSums) -> Gain:
    """Return the gain over a run that samples uniformly.

    Args:
        baseline: its name.
        steps: how many steps both have closed.
        own: sums of the run over these steps.
        uniform: sums of the baseline over these steps.
        recent: sums of the baseline over the last 50 of them.
    """
    ratio = uniform.effective_task_ratio
    factor, saved = _compared(own, 0.0 if ratio is None else own.reported * ratio)
    ratios = (own.effective_task_ratio, ratio, recent.effective_task_ratio)
    return Gain("measured", baseline, factor, saved, own.rollouts, steps, *ratios)


def estimated_gain(course: RunCourse) -> Gain:
    """Return the gain over what the run's belief expects of uniform sampling."""
    sums, expected = course.sums, course.expected
    factor, saved = _compared(sums, expected or 0.0)
    uniform = None if expected is None or not sums.reported else expected / sums.reported
    ratios = (sums.effective_task_ratio, uniform, course.uniform_recent)
    return Gain("estimated", None, factor, saved, sums.rollouts, course.steps, *ratios)


def _compared(own: StepSums, expected: float) -> tuple[float | None, float | None]:
    """Return the factor and the saved rollouts of a run, where uniform sampling finds so many effective tasks."""
    if expected <= 0.0:
        return None, None
    factor = own.effective / expected
    return factor, own.rollouts * (factor - 1.0)


def nearest(created_at: float, times: Sequence[float], runs: Sequence[Run]) -> Run | None:
    """Return the run that was created nearest to a time, the first of several; None without runs.

    Args:
        created_at: the time.
        times: when the runs were created.
        runs: as many.
    """
    if not runs:
        return None
    place = min(range(len(runs)), key=lambda place: abs(times[place] - created_at))
    return runs[place]
