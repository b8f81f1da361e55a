"""The course of a run: all that its summary needs of its closed steps, in a few kilobytes.

A course continued from where it stood equals one read from the beginning. So the overview of many runs reads only
the steps that closed since its last answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Counts, Floats, frozen

RECENT = 50  # steps; fewer are too noisy to show a run's present level
TREND = 40  # points at most, the newest included: as many as a sparkline can show
TIMED = 21  # steps whose times are kept: the gaps between them say how long a step usually takes


@dataclass(frozen=True, slots=True)
class StepSums:
    """Sums over some closed steps: reported and effective tasks, and rollouts."""

    reported: int = 0
    effective: int = 0
    rollouts: float = 0.0

    @property
    def effective_task_ratio(self) -> float | None:
        """The share of the reported tasks that were effective; None without any."""
        return self.effective / self.reported if self.reported else None

    def plus(self, other: "StepSums") -> "StepSums":
        """Return the sums over these steps and others."""
        return StepSums(
            self.reported + other.reported,
            self.effective + other.effective,
            self.rollouts + other.rollouts,
        )


@dataclass(frozen=True, slots=True)
class CourseSteps:
    """Consecutive closed steps, in order.

    seqs: [n] of the entries that closed them.
    reported, effective: [n] tasks; rollouts: [n] of these tasks.
    times: when the last of them closed, in seconds since 1970, UTC; at most TIMED.
    """

    seqs: Counts
    reported: Counts
    effective: Counts
    rollouts: Floats
    times: Floats

    def __len__(self) -> int:
        return len(self.seqs)

    @property
    def sums(self) -> StepSums:
        """The sums over all of them."""
        return StepSums(int(self.reported.sum()), int(self.effective.sum()), float(self.rollouts.sum()))

    @property
    def _columns(self) -> tuple[NDArray[Any], ...]:
        return self.seqs, self.reported, self.effective, self.rollouts

    def followed_by(self, steps: "CourseSteps") -> "CourseSteps":
        """Return these steps and the next ones."""
        pairs = zip(self._columns, steps._columns, strict=True)
        return CourseSteps(*(*map(np.concatenate, pairs), np.concatenate([self.times, steps.times])[-TIMED:]))

    def before(self, place: int) -> "CourseSteps":
        """Return the first steps, so many, without their times."""
        return CourseSteps(*(*(column[:place] for column in self._columns), _NO_NUMBER))

    def last(self, count: int) -> "CourseSteps":
        """Return the last steps, at most so many, in memory of their own."""
        columns = (frozen(column[-count:].copy()) for column in self._columns)
        return CourseSteps(*(*columns, frozen(self.times.copy())))


@dataclass(frozen=True, slots=True)
class UniformEstimates:
    """Estimates of what uniform sampling reaches, in order.

    seqs: [n] the entries after which they were made.
    ratios: [n] effective task ratios.
    """

    seqs: Counts
    ratios: Floats

    def at(self, seqs: Counts, *, older: float) -> Floats:
        """Return [m] the last estimate made up to each of these entries; `older` where there is none."""
        known: Floats = np.concatenate([[older], self.ratios])
        return known[self.seqs.searchsorted(seqs, side="right")]

    def after(self, seq: int) -> "UniformEstimates":
        """Return those made after an entry."""
        first = int(self.seqs.searchsorted(seq, side="right"))
        return UniformEstimates(frozen(self.seqs[first:].copy()), frozen(self.ratios[first:].copy()))


_NOTHING = frozen(np.empty(0, np.int64))
_NO_NUMBER = frozen(np.empty(0))
NO_STEPS = CourseSteps(_NOTHING, _NOTHING, _NOTHING, _NO_NUMBER, _NO_NUMBER)
NO_ESTIMATES = UniformEstimates(_NOTHING, _NO_NUMBER)


@dataclass(frozen=True, slots=True)
class RunCourse:
    """The closed steps of a run's present history, summed up.

    steps: how many there are; sums: over all of them; recent: over the last RECENT.
    last_step_at: when the last one closed, in seconds since 1970, UTC; None before the first.
    usual_gap_s: the median time between two of the last ones; 0 before the second.
    tail: the last RECENT of them; settled: the entry that closed the step before these, -1 if there is none.
    stride, ratios: the effective task ratio over the last RECENT steps, after every `stride`th step; NaN where they
        reported nothing.
    estimates: those made since `settled`; older_estimate: the last made before; first_estimate: the first of all.
        NaN without any.
    expected: how many effective tasks uniform sampling is estimated to find in the steps before the tail.
    unestimated: tasks reported in those of them that closed before the first estimate.
    """

    steps: int = 0
    sums: StepSums = StepSums()
    recent: StepSums = StepSums()
    last_step_at: float | None = None
    usual_gap_s: float = 0.0
    tail: CourseSteps = NO_STEPS
    settled: int = -1
    stride: int = 1
    ratios: Floats = field(default_factory=lambda: _NO_NUMBER)
    estimates: UniformEstimates = NO_ESTIMATES
    older_estimate: float = np.nan
    first_estimate: float = np.nan
    expected: float = 0.0
    unestimated: int = 0

    def continued(self, steps: CourseSteps, estimates: UniformEstimates) -> "RunCourse":
        """Return the course with the next steps.

        Args:
            steps: that closed since.
            estimates: all that were made after entry `settled`: some may be stored late.
        """
        known, count = self.tail.followed_by(steps), self.steps + len(steps)
        tail, leaving, stride = known.last(RECENT), known.before(max(0, len(known) - RECENT)), stride_of(count)
        settled = int(leaving.seqs[-1]) if len(leaving) else self.settled
        shares = estimates.at(leaving.seqs, older=self.older_estimate)
        is_known = ~np.isnan(shares)
        first = self.first_estimate
        if len(estimates.ratios) and (np.isnan(first) or self.settled < 0):
            first = float(estimates.ratios[0])
        return RunCourse(
            steps=count,
            sums=self.sums.plus(steps.sums),
            recent=tail.sums,
            last_step_at=float(tail.times[-1]) if len(tail.times) else None,
            usual_gap_s=float(np.median(np.diff(tail.times))) if len(tail.times) > 1 else 0.0,
            tail=tail,
            settled=settled,
            stride=stride,
            ratios=frozen(np.concatenate([self._thinned(stride), self._new_ratios(known, len(steps), stride)])),
            estimates=estimates.after(settled),
            older_estimate=float(shares[-1]) if len(leaving) else self.older_estimate,
            first_estimate=first,
            expected=self.expected + float((leaving.reported * shares)[is_known].sum()),
            unestimated=self.unestimated + int(leaving.reported[~is_known].sum()),
        )

    def _thinned(self, stride: int) -> Floats:
        """Return the known ratios of every `stride`th step."""
        kept = np.arange(1, len(self.ratios) + 1) * self.stride % stride == 0
        ratios: Floats = self.ratios[kept]
        return ratios

    def _new_ratios(self, known: CourseSteps, new: int, stride: int) -> Floats:
        """Return the ratios of every `stride`th of the new steps, the last of those known."""
        numbers = np.arange(self.steps + 1, self.steps + new + 1)
        wanted = np.arange(len(known) - new, len(known))[numbers % stride == 0]
        ratios: Floats = recent_ratios(known.reported, known.effective)[wanted]
        return ratios

    @property
    def trend(self) -> list[float | None]:
        """The effective task ratio over the last RECENT steps, along all steps; at most TREND points."""
        points = [None if np.isnan(ratio) else float(ratio) for ratio in self.ratios.tolist()]
        return points if self.steps % self.stride == 0 else [*points, self.recent.effective_task_ratio]

    @property
    def uniform_expected(self) -> float | None:
        """How many effective tasks uniform sampling is estimated to find in all steps; None without an estimate."""
        if np.isnan(self.first_estimate):
            return None
        return self.expected + self.unestimated * self.first_estimate + float(self._expected_in_tail().sum())

    @property
    def uniform_recent(self) -> float | None:
        """The effective task ratio that uniform sampling is estimated to reach in the last RECENT steps."""
        reported = self.recent.reported
        if np.isnan(self.first_estimate) or not reported:
            return None
        return float(self._expected_in_tail().sum()) / reported

    def _expected_in_tail(self) -> Floats:
        older = self.first_estimate if np.isnan(self.older_estimate) else self.older_estimate
        expected: Floats = self.tail.reported * self.estimates.at(self.tail.seqs, older=older)
        return expected


def stride_of(steps: int) -> int:
    """Return the smallest power of two of which so few multiples are steps that a trend can show them."""
    stride = 1
    while steps // stride > TREND - 1:
        stride *= 2
    return stride


def recent_ratios(reported: Counts, effective: Counts) -> Floats:
    """Return [n] the effective task ratio over the RECENT steps up to each step; NaN where they reported nothing."""
    tasks, found = (_moving_sums(column) for column in (reported, effective))
    ratios: Floats = np.divide(found, tasks, out=np.full(len(tasks), np.nan), where=tasks > 0)
    return ratios


def _moving_sums(column: Counts) -> Counts:
    sums: Counts = np.concatenate([np.zeros(RECENT, np.int64), np.cumsum(column)])
    return sums[RECENT:] - sums[:-RECENT]


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


@dataclass(frozen=True, slots=True)
class StepRange:
    """Steps from `first` to `last`, both included; none if `last` comes before `first`."""

    first: int
    last: int

    def __len__(self) -> int:
        return max(0, self.last - self.first + 1)

    def common(self, other: "StepRange") -> "StepRange":
        """Return the steps that are in both."""
        return StepRange(max(self.first, other.first), min(self.last, other.last))

    def recent(self, steps: int) -> "StepRange":
        """Return the last of them, at most so many."""
        return StepRange(max(self.first, self.last - steps + 1), self.last)


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
    sums, expected = course.sums, course.uniform_expected
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
