"""The gain of a run over uniform sampling. It is computed here and nowhere else."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from bots_service.core.summary.course import RunCourse, StepSums

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
