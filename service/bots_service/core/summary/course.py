"""The course of a run: what its summary shows of its closed steps, from a few of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar

import numpy as np

RECENT = 50  # steps; fewer are too noisy to show a run's present level
TREND = 40  # points at most, the newest included: as many as a sparkline can show
TIMED = 21  # steps whose times are known: the gaps between them say how long a step usually takes


class Sums(NamedTuple):
    """Sums over a run's first closed steps, those before a fork included; or over some of its steps.

    reported, effective: tasks; expected: how many of them uniform sampling was estimated to find effective, None
        without an estimate.
    at: when the last of the steps closed, in seconds since 1970, UTC; None before the first.
    """

    reported: int = 0
    effective: int = 0
    rollouts: float = 0.0
    expected: float | None = None
    at: float | None = None

    @property
    def effective_task_ratio(self) -> float | None:
        """The share of the reported tasks that were effective; None without any."""
        return self.effective / self.reported if self.reported else None

    @property
    def uniform_ratio(self) -> float | None:
        """This share as uniform sampling is estimated to have it; None without any task or estimate."""
        return self.expected / self.reported if self.expected is not None and self.reported else None

    def less(self, earlier: "Sums") -> "Sums":
        """Return the sums without those over the first of the steps."""
        expected = self.expected
        if expected is not None and earlier.reported:
            expected = None if earlier.expected is None else expected - earlier.expected
        reported, effective = self.reported - earlier.reported, self.effective - earlier.effective
        return Sums(reported, effective, self.rollouts - earlier.rollouts, expected, self.at)


NO_SUMS = Sums()


@dataclass(frozen=True, slots=True)
class RunCourse:
    """The closed steps of a run's present history, summed up; without those before a fork.

    steps: how many there are; sums: over all of them; recent: over the last RECENT.
    usual_gap_s: the median time between two of the last ones; 0 before the second.
    trend: the effective task ratio over about RECENT steps, along all steps; at most TREND points.
    """

    steps: int = 0
    sums: Sums = NO_SUMS
    recent: Sums = NO_SUMS
    usual_gap_s: float = 0.0
    trend: tuple[float | None, ...] = ()


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


def course_of(origin: int, step: int, ends: Mapping[int, Sums]) -> RunCourse:
    """Return the course of a run that has closed `step` steps.

    Args:
        origin: how many steps closed before a fork.
        step: by now.
        ends: the sums over all steps up to each of `wanted_steps`, and up to `origin`.
    """
    last, recent = ends[step], ends[step].less(ends[max(origin, step - RECENT)])
    stride = stride_of(step - origin)
    grid = list(range(origin, step + 1, stride))
    width = -(-RECENT // stride)
    trend = [
        ends[each].less(ends[grid[max(place - width, 0)]]).effective_task_ratio for place, each in enumerate(grid)
    ][1:]
    times = [ends[each].at for each in range(max(origin, step - TIMED) + 1, step + 1)]
    gaps = np.diff(np.array(times, np.float64))
    return RunCourse(
        steps=step - origin,
        sums=last.less(ends[origin]),
        recent=recent,
        usual_gap_s=float(np.median(gaps)) if len(gaps) else 0.0,
        trend=tuple(trend if grid[-1] == step else [*trend, recent.effective_task_ratio]),
    )


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


def measured_gain(baseline: str, steps: int, *, own: Sums, uniform: Sums, recent: Sums) -> Gain:
    """Return the gain over a run that samples uniformly.

    Args:
        baseline: its name.
        steps: how many steps both have closed.
        own: sums of the run over these steps.
        uniform: sums of the baseline over these steps.
        recent: sums of the baseline over the last 50 of them.
    """
    return _gain("measured", baseline, steps, own, uniform.effective_task_ratio, recent.effective_task_ratio)


def estimated_gain(course: RunCourse) -> Gain:
    """Return the gain over what the run's belief expects of uniform sampling."""
    sums, recent = course.sums, course.recent
    return _gain("estimated", None, course.steps, sums, sums.uniform_ratio, recent.uniform_ratio)


def _gain(
    source: GainSource, baseline: str | None, steps: int, own: Sums, uniform: float | None, recent: float | None
) -> Gain:
    expected = own.reported * (uniform or 0.0)
    factor = own.effective / expected if expected > 0.0 else None
    saved = None if factor is None else own.rollouts * (factor - 1.0)
    return Gain(source, baseline, factor, saved, own.rollouts, steps, own.effective_task_ratio, uniform, recent)


def nearest(created_at: float, runs: Sequence[tuple[float, Run]]) -> Run | None:
    """Return the run that was created nearest to a time, the first of several; None without runs.

    Args:
        created_at: the time.
        runs: with the time when each was created.
    """
    _, found = min(runs, key=lambda run: abs(run[0] - created_at), default=(0.0, None))
    return found
