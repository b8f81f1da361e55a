"""What is asked of finished runs: how accurate they were, how widely they chose, what differs between arms."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean

import numpy as np

from examples.finetune.course import Course
from examples.finetune.intervals import Interval, interval
from examples.finetune.plan import BASE

# In evaluations: one alone is right by luck now and then, and the best would be the luckiest.
SMOOTHED = 3

Arms = Mapping[str, Mapping[int, Course]]  # each arm's runs, by seed


def arms_of(courses: Iterable[Course]) -> Arms:
    """Return the runs by arm and seed, arms and seeds in the order in which they come."""
    arms: dict[str, dict[int, Course]] = {}
    for course in courses:
        arms.setdefault(course.arm, {})[course.seed] = course
    return arms


def mean_accuracy(course: Course) -> float:
    """Return the endpoint: the mean held-out accuracy over all evaluations, the first and the last included."""
    return fmean(course.accuracies)


def final_accuracy(course: Course) -> float:
    """Return the held-out accuracy after the last step."""
    return course.accuracies[-1]


def last_tenth(course: Course) -> float:
    """Return the mean held-out accuracy over the evaluations in the last tenth of the steps."""
    return fmean(course.accuracies[-max((len(course.accuracies) - 1) // 10, 1) :])


def pool_accuracy(course: Course) -> float:
    """Return the accuracy on the pool after the last step."""
    return course.pool_accuracies[-1]


def effective_ratio(course: Course, *, quarter: int) -> float:
    """Return the effective task ratio in a quarter of the steps, 0 to 3."""
    steps = len(course.effective)
    begin, end = quarter * steps // 4, (quarter + 1) * steps // 4
    return fmean(course.effective[begin:end]) * steps / sum(course.visits)


def distinct_tasks(course: Course) -> float:
    """Return how many tasks of the pool were chosen at all."""
    return sum(count > 0 for count in course.visits)


def most_visits(course: Course) -> float:
    """Return how often the task was chosen that was chosen most."""
    return max(course.visits)


def smoothed(accuracies: Sequence[float]) -> list[float]:
    """Return the mean of each evaluation and those just before it, 3 in all."""
    return [fmean(accuracies[max(place - SMOOTHED + 1, 0) : place + 1]) for place in range(len(accuracies))]


def share_of_steps_to(course: Course, base: Course, gained: float = 1.0) -> float | None:
    """Return the share of the steps after which a run has so much of what another gains in all; None: it never has.

    Both are smoothed, and in between two evaluations a straight line is taken.
    """
    own, other = smoothed(course.accuracies), smoothed(base.accuracies)
    goal = other[0] + gained * (other[-1] - other[0])
    if own[0] >= goal:
        return 0.0
    for place, (before, level) in enumerate(pairwise(own)):
        if level >= goal:
            return (place + (goal - before) / (level - before)) / (len(own) - 1)
    return None


def steps_to(course: Course, base: Course) -> float:
    """Return the share of the steps to another run's final accuracy; 1 for a run that never has it.

    A run that never gets there takes the whole course at least. To leave it out would favour arms that rarely do.
    """
    share = share_of_steps_to(course, base)
    return 1.0 if share is None else share


def averaged(courses: Iterable[Course]) -> Course:
    """Return a run with the mean held-out accuracies of several. They alone are changed."""
    several = list(courses)
    return replace(several[0], accuracies=np.mean([course.accuracies for course in several], axis=0).tolist())


def charged(course: Course, rollouts_per_step: int) -> Course:
    """Return a run as it stands at equal rollouts, those of its references counted.

    While they are measured, the model stays as it is; the last steps come too late. Accuracies alone are changed.
    """
    each = (len(course.solved) * rollouts_per_step) / (len(course.accuracies) - 1)
    late = min(course.reference_rollouts / each, len(course.accuracies) - 1)
    places = np.maximum(np.arange(len(course.accuracies)) - late, 0)
    moved = np.interp(places, np.arange(len(course.accuracies)), course.accuracies)
    return replace(course, accuracies=[float(accuracy) for accuracy in moved])


def mean_slope(course: Course) -> float:
    """Return the mean calibration slope of the belief on the pool over the evaluations that have one; else NaN."""
    slopes = [slope for slope in course.slopes if slope is not None]
    return fmean(slopes) if slopes else math.nan


def excess_log_loss(course: Course) -> float:
    """Return how much larger the belief's log loss on the pool is than that of one who knows the truth, on average."""
    return fmean(course.log_losses) - fmean(course.least_losses)


def difference(arms: Arms, arm: str, measure: Callable[[Course], float], base: str = BASE) -> Interval:
    """Return how much more an arm has of something than another, seed by seed, with its 95 % interval."""
    return interval(differences(arms, arm, measure, base))


def differences(arms: Arms, arm: str, measure: Callable[[Course], float], base: str = BASE) -> list[float]:
    """Return how much more an arm has of something than another, for each seed that both have."""
    return [measure(course) - measure(arms[base][seed]) for seed, course in arms[arm].items() if seed in arms[base]]
