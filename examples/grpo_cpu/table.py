"""The results as Markdown: `python -m examples.grpo_cpu.table results.json`; several files make one table."""

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

from examples.grpo_cpu.course import Course
from examples.grpo_cpu.measures import (
    Interval,
    Pair,
    best_so_far,
    difference,
    effective_task_ratio,
    final_accuracy,
    mean_accuracy,
    overhead,
    pairs_of,
)
from examples.grpo_cpu.results import Results

SHARES = (0.25, 0.5, 1.0)
QUARTERS = ("first", "second", "third", "last")


def tables(results: Results) -> str:
    """Return both tables: the means over the seeds, and each seed."""
    pairs = pairs_of(results.courses)
    return "\n".join([*means(pairs, results.plan.tasks_per_step), "", *seeds(pairs)]) + "\n"


def means(pairs: Sequence[Pair], tasks_per_step: int) -> Iterator[str]:
    """Yield the lines of the table of means."""
    yield from head(pairs)
    for share in SHARES:
        so_far = partial(best_so_far, share=share)
        yield row(f"best held-out accuracy so far at {share:.0%} of the steps", pairs, so_far)
    for place, quarter in enumerate(QUARTERS):
        begin, end = place / len(QUARTERS), (place + 1) / len(QUARTERS)
        share_of_effective = partial(effective_task_ratio, tasks_per_step=tasks_per_step, begin=begin, end=end)
        yield row(f"effective task ratio, {quarter} quarter of the steps", pairs, share_of_effective)
    yield row("seconds per step", pairs, lambda run: run.seconds / len(run.solved))
    yield row("select and report, seconds per step", pairs, lambda run: overhead(run) * run.seconds / len(run.solved))
    yield row("select and report, share of the time", pairs, overhead, as_text=lambda value: f"{value:.1%}")


def together(several: Iterable[Results]) -> str:
    """Return the table of what can be asked of comparisons whose plans differ: the accuracy over the whole course."""
    pairs = [pair for results in several for pair in pairs_of(results.courses)]
    return "\n".join(head(pairs)) + "\n"


def head(pairs: Sequence[Pair]) -> Iterator[str]:
    """Yield the first lines of a table of means, the endpoint included."""
    yield line(f"mean of {len(pairs)} seeds", "uniform", "BOTS", "BOTS minus uniform (95 % interval)")
    yield line("---", "---:", "---:", "---:")
    yield row("held-out accuracy, mean over the whole course", pairs, mean_accuracy)


def row(
    name: str,
    pairs: Sequence[Pair],
    measure: Callable[[Course], float],
    *,
    as_text: Callable[[float], str] | None = None,
) -> str:
    """Return a line with the mean of both arms and their difference."""
    text = as_text or (lambda value: f"{value:.3f}")
    uniform, bots = (
        fmean(measure(run) for run in runs) for runs in zip(*((p.uniform, p.bots) for p in pairs), strict=True)
    )
    compared = within(difference(pairs, measure), lambda value: ("+" if value >= 0 else "") + text(value))
    return line(name, text(uniform), text(bots), compared)


def seeds(pairs: Iterable[Pair]) -> Iterator[str]:
    """Yield the lines of the table of seeds."""
    yield line("seed", "accuracy before", "uniform's mean", "BOTS' mean", "uniform's final", "BOTS' final")
    yield line("---:", "---:", "---:", "---:", "---:", "---:")
    for pair in pairs:
        figures = (measure(run) for measure in (mean_accuracy, final_accuracy) for run in (pair.uniform, pair.bots))
        before = pair.uniform.evaluations[0].accuracy
        yield line(str(pair.uniform.seed), *(f"{figure:.3f}" for figure in (before, *figures)))


def within(interval: Interval, text: Callable[[float], str]) -> str:
    """Return a mean with its interval, if there is one."""
    if math.isnan(interval.low):
        return text(interval.mean)
    return f"{text(interval.mean)} ({text(interval.low)} to {text(interval.high)})"


def line(*cells: str) -> str:
    """Return a line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    found = [Results.read(Path(name)) for name in sys.argv[1:]]
    parts = [*map(tables, found), *([together(found)] if len(found) > 1 else [])]
    print("\n".join(parts), end="")
