"""The results as Markdown: `python -m examples.finetune.table results.jsonl ...`."""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, median

from examples.finetune.course import Course, records_of
from examples.finetune.intervals import Interval, interval, sign_flip_p
from examples.finetune.measures import (
    Arms,
    arms_of,
    averaged,
    charged,
    difference,
    differences,
    distinct_tasks,
    effective_ratio,
    excess_log_loss,
    final_accuracy,
    last_tenth,
    mean_accuracy,
    mean_slope,
    most_visits,
    pool_accuracy,
    share_of_steps_to,
    steps_to,
)
from examples.finetune.plan import BASE, Plan

# Other comparisons of two arms: with the paper's belief and rule at the same references, and with refilling.
PAIRS = {"bots-r2": ["pass-r2"], "refill": ["pass", "pass-wanted"]}

OTHERS: dict[str, tuple[Callable[[Course], float], str]] = {
    "ETR, first quarter": (partial(effective_ratio, quarter=0), ".3f"),
    "last quarter": (partial(effective_ratio, quarter=3), ".3f"),
    "distinct tasks": (distinct_tasks, ".0f"),
    "most visits": (most_visits, ".0f"),
    "slope": (mean_slope, ".2f"),
    "log loss, excess": (excess_log_loss, ".3f"),
}


def tables(courses: list[Course], plan: Plan) -> str:
    """Return the tables, with a line of what each shows.

    Args:
        courses: the runs, shuffle's among them.
        plan: theirs.
    """
    arms = arms_of(sorted(courses, key=lambda course: course.seed))
    parts = [
        compared(arms, BASE, [arm for arm in arms if arm != BASE]),
        *(compared(arms, base, others) for base, others in PAIRS.items() if {base, *others} <= set(arms)),
        field_units(arms, plan),
        steps(arms),
        *([at_equal_rollouts(arms, plan)] if referenced(arms) else []),
        means(arms),
        by_seed(arms),
    ]
    return "\n".join("\n".join([*part, ""]) for part in parts).rstrip("\n") + "\n"


def compared(arms: Arms, base: str, shown: Sequence[str]) -> Iterator[str]:
    """Yield how much more than another arm some have, over the seeds that both have."""
    measures = (mean_accuracy, last_tenth, final_accuracy, pool_accuracy)
    yield from head(
        f"minus `{base}`", "seeds", "mean over the course", "p", "higher", "last tenth", "at the end", "pool at the end"
    )
    for arm in shown:
        if not (found := differences(arms, arm, mean_accuracy, base)):
            continue
        mean, *others = (within(difference(arms, arm, measure, base)) for measure in measures)
        higher = f"{sum(value > 0 for value in found)} of {len(found)}"
        yield line(f"`{arm}`", str(len(found)), mean, probability(sign_flip_p(found)), higher, *others)


def main_table(arms: Arms) -> Iterator[str]:
    """Yield the two endpoints of each arm but shuffle: over the course, and in its last tenth."""
    yield from head(f"minus `{BASE}`", "seeds", "mean over the course", "p", "higher", "last tenth")
    for arm in arms:
        if arm != BASE and (found := differences(arms, arm, mean_accuracy)):
            higher = f"{sum(value > 0 for value in found)} of {len(found)}"
            mean, last = (within(difference(arms, arm, measure)) for measure in (mean_accuracy, last_tenth))
            yield line(f"`{arm}`", str(len(found)), mean, probability(sign_flip_p(found)), higher, last)


def together(comparisons: Sequence[Arms], shown: Sequence[str]) -> Iterator[str]:
    """Yield how much more than shuffle some arms have, over the seeds of several comparisons with the same plan."""
    yield from head(f"minus `{BASE}`, all seeds together", "seeds", "mean over the course", "p", "higher")
    for arm in shown:
        found = [value for arms in comparisons for value in differences(arms, arm, mean_accuracy)]
        higher = f"{sum(value > 0 for value in found)} of {len(found)}"
        yield line(f"`{arm}`", str(len(found)), within(interval(found)), probability(sign_flip_p(found)), higher)


def field_units(arms: Arms, plan: Plan) -> Iterator[str]:
    """Yield what others report: steps to parts of what shuffle gains, and each arm's gain as a share of shuffle's.

    They are read from the mean curves of the seeds that both have. The references' rollouts count in rows of their own.
    """
    goals = (0.5, 0.75, 0.9)
    heads = (*(f"to {100 * goal:.0f} % of its gain" for goal in goals), "gain, over the course", "at the end")
    yield from head(f"steps, and shares of what `{BASE}` gains", "seeds", *heads)
    each = plan.tasks_per_step * plan.rollouts
    for arm, runs in arms.items():
        seeds = [seed for seed in runs if seed in arms[BASE]]
        if not seeds:
            continue
        base = averaged(arms[BASE][seed] for seed in seeds)
        shown = {f"`{arm}`": averaged(runs[seed] for seed in seeds)}
        if arm in referenced(arms):
            shown[f"`{arm}`, references counted"] = averaged(charged(runs[seed], each) for seed in seeds)
        for name, course in shown.items():
            shares = (share_of_steps_to(course, base, goal) for goal in goals)
            steps = ("never" if share is None else f"{share * plan.steps:.0f}" for share in shares)
            pairs = ([gain_of(one, measure) for one in (course, base)] for measure in (mean_accuracy, last_tenth))
            gains = (number(own / whole if whole else math.nan, ".2f") for own, whole in pairs)
            yield line(name, str(len(seeds)), *steps, *gains)


def gain_of(course: Course, measure: Callable[[Course], float]) -> float:
    """Return how much higher a measure of the held-out accuracy is than the accuracy before the first step."""
    return measure(course) - course.accuracies[0]


def steps(arms: Arms) -> Iterator[str]:
    """Yield how many of the steps each arm needs to shuffle's accuracy at the end."""
    yield from head(f"steps to the final accuracy of `{BASE}`, share of all", "seeds", "median", "mean", "never")
    for arm, runs in arms.items():
        pairs = [(course, arms[BASE][seed]) for seed, course in runs.items() if seed in arms[BASE]]
        shares = [steps_to(*pair) for pair in pairs]
        never = sum(share_of_steps_to(*pair) is None for pair in pairs)
        if shares:
            yield line(f"`{arm}`", str(len(shares)), f"{median(shares):.2f}", f"{fmean(shares):.2f}", str(never))


def at_equal_rollouts(arms: Arms, plan: Plan) -> Iterator[str]:
    """Yield how much more than shuffle the arms with references have where the references' rollouts count, too."""
    each = plan.tasks_per_step * plan.rollouts
    yield from head(f"minus `{BASE}`, references counted", "references", "mean over the course", "p", "at the end")
    for arm in referenced(arms):
        paid = {**arms, arm: {seed: charged(course, each) for seed, course in arms[arm].items()}}
        mean, end = (within(difference(paid, arm, measure)) for measure in (mean_accuracy, final_accuracy))
        cost = next(iter(arms[arm].values())).reference_rollouts
        paid_for = f"{cost:,} rollouts, {cost / each:.0f} steps"
        yield line(f"`{arm}`", paid_for, mean, probability(sign_flip_p(differences(paid, arm, mean_accuracy))), end)


def referenced(arms: Arms) -> list[str]:
    """Return the arms whose references cost something."""
    return [arm for arm, runs in arms.items() if any(course.reference_rollouts for course in runs.values())]


def means(arms: Arms) -> Iterator[str]:
    """Yield the means of each arm over its own seeds."""
    yield from head("means", "seeds", "mean over the course", "at the end", "pool at the end", *OTHERS)
    for arm, runs in arms.items():
        courses = list(runs.values())
        accuracies = (f"{fmean(map(ask, courses)):.4f}" for ask in (mean_accuracy, final_accuracy, pool_accuracy))
        others = (number(fmean(map(measure, courses)), form) for measure, form in OTHERS.values())
        yield line(f"`{arm}`", str(len(courses)), *accuracies, *others)


def by_seed(arms: Arms) -> Iterator[str]:
    """Yield the endpoint of every run: the mean held-out accuracy over the course, and what it was before."""
    yield from head("seed", "before", *(f"`{arm}`" for arm in arms))
    for seed, base in arms[BASE].items():
        endpoints = (f"{mean_accuracy(runs[seed]):.4f}" if seed in runs else "" for runs in arms.values())
        yield line(str(seed), f"{base.accuracies[0]:.3f}", *endpoints)


def head(*cells: str) -> Iterator[str]:
    """Yield the two lines that begin a table; all columns but the first hold numbers."""
    yield line(*cells)
    yield line("---", *["---:"] * (len(cells) - 1))


def within(interval: Interval) -> str:
    """Return a difference of accuracies with its interval, if there is one."""
    mean, low, high = (f"{value:+.4f}" for value in (interval.mean, interval.low, interval.high))
    return mean if math.isnan(interval.low) else f"{mean} ({low} to {high})"


def probability(value: float) -> str:
    """Return a p; those below .0001 have more digits."""
    return f"{value:.4f}" if value >= 1e-4 else f"{value:.6f}"


def number(value: float, form: str) -> str:
    """Return a number in its form, or nothing where there is none."""
    return "" if math.isnan(value) else format(value, form)


def line(*cells: str) -> str:
    """Return a line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    found = records_of(map(Path, sys.argv[1:]))
    print(tables([record.course for record in found], found[0].plan), end="")
