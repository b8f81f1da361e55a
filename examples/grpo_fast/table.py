"""The results as Markdown: `python -m examples.grpo_fast.table results.jsonl ...`."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import fmean

from examples.grpo_cpu.table import line, within
from examples.grpo_fast.course import Course, records_of
from examples.grpo_fast.measures import (
    Arms,
    arms_of,
    difference,
    distinct_tasks,
    effective_ratio,
    final_accuracy,
    mean_accuracy,
    most_visits,
    pool_accuracy,
    share_of_steps_to,
)
from examples.grpo_fast.plan import BASE

COMPARED: dict[str, Callable[[Course], float]] = {
    "held-out accuracy, mean over the course": mean_accuracy,
    "held-out accuracy at the end": final_accuracy,
    "accuracy on the pool at the end": pool_accuracy,
}
OTHERS: dict[str, tuple[Callable[[Course], float], str]] = {
    "effective task ratio, first quarter of the steps": (partial(effective_ratio, quarter=0), ".3f"),
    "effective task ratio, last quarter of the steps": (partial(effective_ratio, quarter=3), ".3f"),
    "distinct tasks": (distinct_tasks, ".0f"),
    "visits of the task visited most": (most_visits, ".0f"),
    "milliseconds per step": (lambda course: 1e3 * course.seconds / len(course.solved), ".0f"),
    "of those, waiting for the service": (lambda course: 1e3 * course.service_seconds / len(course.solved), ".0f"),
}


def tables(courses: list[Course]) -> str:
    """Return three tables: each seed's endpoint, the differences from shuffle, and what else is asked of each arm."""
    arms = arms_of(courses)
    whole = in_all_arms(arms)
    return "\n".join([*by_seed(arms), "", *differences(whole), "", *means(whole)]) + "\n"


def in_all_arms(arms: Arms) -> Arms:
    """Return the runs of those seeds that every arm has: means of different seeds can't be compared."""
    seeds = [seed for seed in arms[BASE] if all(seed in runs for runs in arms.values())]
    return {arm: {seed: runs[seed] for seed in seeds} for arm, runs in arms.items()}


def by_seed(arms: Arms) -> Iterator[str]:
    """Yield the endpoint of every run: the mean held-out accuracy over the course, and what it was before."""
    yield line("seed", "accuracy before", *arms)
    yield line(*(["---:"] * (len(arms) + 2)))
    for seed, base in arms[BASE].items():
        endpoints = (f"{mean_accuracy(runs[seed]):.4f}" if seed in runs else "" for runs in arms.values())
        yield line(str(seed), f"{base.accuracies[0]:.3f}", *endpoints)


def differences(arms: Arms) -> Iterator[str]:
    """Yield how much more than shuffle each arm has, with 95 % intervals over the seeds."""
    others = [arm for arm in arms if arm != BASE]
    yield line(f"minus {BASE}, of the same seed", *others)
    yield line("---", *["---:"] * len(others))
    for name, measure in COMPARED.items():
        found = (difference(arms, arm, measure) for arm in others)
        yield line(name, *(within(one, lambda value: f"{value:+.4f}") for one in found))
    yield line("seeds in which the mean over the course is higher", *(higher(arms, arm) for arm in others))
    yield line(f"steps to {BASE}'s accuracy at the end, share of all", *(steps_to(arms, arm) for arm in others))


def higher(arms: Arms, arm: str) -> str:
    """Return in how many seeds the endpoint is above shuffle's."""
    runs = arms[arm]
    count = sum(mean_accuracy(course) > mean_accuracy(arms[BASE][seed]) for seed, course in runs.items())
    return f"{count} of {len(runs)}"


def steps_to(arms: Arms, arm: str) -> str:
    """Return the mean share of the steps that was needed, of the runs that got there, and how many did not."""
    shares = [share_of_steps_to(course, arms[BASE][seed]) for seed, course in arms[arm].items()]
    there = [share for share in shares if share is not None]
    never = f"{len(shares) - len(there)} of {len(shares)} never" if len(there) < len(shares) else ""
    return ", ".join(filter(None, [f"{fmean(there):.2f}" if there else "", never]))


def means(arms: Arms) -> Iterator[str]:
    """Yield the means over the seeds of each arm."""
    yield line(f"mean of {len(arms[BASE])} seeds", *arms)
    yield line("---", *["---:"] * len(arms))
    for name, measure in COMPARED.items():
        yield line(name, *(f"{fmean(map(measure, runs.values())):.4f}" for runs in arms.values()))
    for name, (measure, form) in OTHERS.items():
        yield line(name, *(format(fmean(map(measure, runs.values())), form) for runs in arms.values()))


if __name__ == "__main__":
    print(tables([record.course for record in records_of(map(Path, sys.argv[1:]))]), end="")
