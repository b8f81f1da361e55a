"""What is asked of finished runs: how accurate they were, how widely they chose, what differs between arms."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean

from examples.grpo_cpu.measures import SMOOTHED, Interval, interval
from examples.grpo_fast.course import Course
from examples.grpo_fast.plan import BASE

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


def share_of_steps_to(course: Course, base: Course) -> float | None:
    """Return the share of the steps after which a run is as accurate as another at its end; None: it never is.

    Both are smoothed, and in between two evaluations a straight line is taken.
    """
    own, goal = smoothed(course.accuracies), smoothed(base.accuracies)[-1]
    if own[0] >= goal:
        return 0.0
    for place, (before, level) in enumerate(pairwise(own)):
        if level >= goal:
            return (place + (goal - before) / (level - before)) / (len(own) - 1)
    return None


def difference(arms: Arms, arm: str, measure: Callable[[Course], float]) -> Interval:
    """Return how much more an arm has of something than shuffle, seed by seed, with its 95 % interval."""
    return interval([measure(course) - measure(arms[BASE][seed]) for seed, course in arms[arm].items()])
