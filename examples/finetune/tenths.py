"""A comparison, tenth by tenth of its steps, as Markdown."""

from collections.abc import Callable, Iterator
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from examples.finetune.course import Course
from examples.finetune.measures import Arms, arms_of
from examples.finetune.plan import BASE
from examples.finetune.table import head, line

TENTHS = 10


def tenth_tables(courses: list[Course]) -> str:
    """Return tables by tenths of the steps: what each arm gains, its effective task ratio, its belief's log loss.

    Args:
        courses: the runs, of one plan, shuffle's among them.
    """
    arms = arms_of(sorted(courses, key=lambda course: course.seed))
    others = {arm: runs for arm, runs in arms.items() if arm != BASE}
    parts = [
        rows(f"held-out accuracy minus `{BASE}`, by tenths", others, lambda course: gains(course, arms), "+.3f"),
        rows("effective task ratio", arms, effective_ratios),
        rows("log loss on the pool, excess", others, excess_losses),
    ]
    return "\n".join("\n".join([*part, ""]) for part in parts).rstrip("\n") + "\n"


def rows(name: str, arms: Arms, measure: Callable[[Course], list[float]], form: str = ".3f") -> Iterator[str]:
    """Yield a table of each arm's means over its seeds, tenth by tenth."""
    yield from head(name, *map(str, range(1, TENTHS + 1)))
    for arm, runs in arms.items():
        means = (fmean(at) for at in zip(*map(measure, runs.values()), strict=True))
        yield line(f"`{arm}`", *(format(mean, form) for mean in means))


def gains(course: Course, arms: Arms) -> list[float]:
    """Return how much more accurate than shuffle of the same seed a run is at the end of each tenth of the steps."""
    return at_ends(np.subtract(course.accuracies, arms[BASE][course.seed].accuracies))


def effective_ratios(course: Course) -> list[float]:
    """Return the effective task ratio in each tenth of the steps."""
    each = sum(course.visits) / len(course.effective)
    return [float(part.mean() / each) for part in np.array_split(np.array(course.effective), TENTHS)]


def excess_losses(course: Course) -> list[float]:
    """Return how much larger than the least the belief's log loss is at the end of each tenth of the steps."""
    return at_ends(np.subtract(course.log_losses, course.least_losses))


def at_ends(values: NDArray[np.float64]) -> list[float]:
    """Return the values at the end of each tenth, of one for each evaluation."""
    places = np.linspace(0, len(values) - 1, TENTHS + 1).round().astype(int)[1:]
    return [float(value) for value in values[places]]
