"""What is asked of finished runs: how accurate they were, how many tasks were effective, what differs between arms."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from scipy.stats import t

from examples.grpo_cpu.course import Course, Evaluation

# In evaluations: one alone is right by luck now and then, and the best would be the luckiest.
SMOOTHED = 3
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Pair:
    """Both runs of one seed."""

    uniform: Course
    bots: Course


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over seeds with its confidence interval; low and high are NaN where one seed is all there is."""

    mean: float
    low: float
    high: float


def pairs_of(courses: Iterable[Course]) -> list[Pair]:
    """Return the courses in pairs, by seed."""
    by_name = {(course.seed, course.arm): course for course in courses}
    seeds = sorted({seed for seed, _ in by_name})
    return [Pair(by_name[seed, "uniform"], by_name[seed, "bots"]) for seed in seeds]


def smoothed(course: Course) -> list[tuple[Evaluation, float]]:
    """Return each evaluation with the mean accuracy of it and those just before it, 3 in all."""
    accuracies = [evaluation.accuracy for evaluation in course.evaluations]
    return [
        (evaluation, fmean(accuracies[max(place - SMOOTHED + 1, 0) : place + 1]))
        for place, evaluation in enumerate(course.evaluations)
    ]


def mean_accuracy(course: Course) -> float:
    """Return the mean accuracy over all evaluations, those before the first step and after the last one included."""
    return fmean(evaluation.accuracy for evaluation in course.evaluations)


def final_accuracy(course: Course) -> float:
    """Return the smoothed accuracy at the end."""
    return smoothed(course)[-1][1]


def best_so_far(course: Course, share: float) -> float:
    """Return the highest smoothed accuracy within a share of the steps."""
    steps = course.evaluations[-1].step
    return max(level for evaluation, level in smoothed(course) if evaluation.step <= share * steps)


def effective_task_ratio(course: Course, tasks_per_step: int, begin: float, end: float) -> float:
    """Return the share of effective tasks between two shares of the steps."""
    steps = len(course.effective)
    part = course.effective[round(begin * steps) : round(end * steps)]
    return sum(part) / (len(part) * tasks_per_step)


def overhead(course: Course) -> float:
    """Return the share of the training time that was spent waiting for the service."""
    return (course.select_seconds + course.report_seconds) / course.seconds


def interval(values: Sequence[float]) -> Interval:
    """Return the mean and its interval by Student's t."""
    mean = fmean(values)
    if len(values) == 1:
        return Interval(mean, math.nan, math.nan)
    reach = float(t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)) * stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - reach, mean + reach)


def difference(pairs: Sequence[Pair], measure: Callable[[Course], float]) -> Interval:
    """Return how much more BOTS has of something, seed by seed."""
    return interval([measure(pair.bots) - measure(pair.uniform) for pair in pairs])
