"""The results as Markdown: `python -m examples.grpo_cpu.table results.json`."""

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
    goal,
    overhead,
    pairs_of,
    ratio,
    reached,
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
    yield line(f"mean of {len(pairs)} seeds", "uniform", "BOTS", "BOTS beside uniform (95 % interval)")
    yield line("---", "---:", "---:", "---:")
    yield from times(pairs)
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


def times(pairs: Sequence[Pair]) -> Iterator[str]:
    """Yield how long it took to reach uniform's final accuracy, and the seeds that say nothing of it."""
    moments = [(reached(pair.uniform, goal(pair)), reached(pair.bots, goal(pair))) for pair in pairs]
    both = [(uniform, bots) for uniform, bots in moments if uniform and bots and uniform.step and bots.step]
    yield times_row("steps to uniform's final accuracy", [(uniform.step, bots.step) for uniform, bots in both])
    yield times_row("seconds to uniform's final accuracy", [(uniform.seconds, bots.seconds) for uniform, bots in both])
    last = pairs[0].uniform.evaluations[-1].step
    at_most = [(one.step if one else last, other.step if other else last) for one, other in moments]
    counted = [steps for steps in at_most if all(steps)]
    yield times_row("steps, where never counts as all of them", counted)
    for name, is_so in (
        ("never reached it", lambda moment: moment is None),
        ("were there before the first step", lambda moment: moment is not None and not moment.step),
    ):
        counts = [sum(map(is_so, column)) for column in zip(*moments, strict=True)]
        yield line(f"seeds that {name}", *map(str, counts), "not in the first two rows" if any(counts) else "")


def times_row(name: str, values: Sequence[tuple[float, float]]) -> str:
    """Return a line with the means of (uniform, BOTS) and their ratio."""
    if not values:
        return line(name, "-", "-", "-")
    means_of_both = (f"{fmean(column):.0f}" for column in zip(*values, strict=True))
    return line(name, *means_of_both, within(ratio(values), lambda value: f"{value:.2f}") + " times")


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
    yield line(
        "seed", "accuracy before", "uniform's final", "BOTS' final", "uniform's steps to it", "BOTS' steps to it"
    )
    yield line("---:", "---:", "---:", "---:", "---:", "---:")
    for pair in pairs:
        wanted = goal(pair)
        finals = (wanted, goal(Pair(pair.bots, pair.uniform)))
        steps = (reached(run, wanted) for run in (pair.uniform, pair.bots))
        yield line(
            str(pair.uniform.seed),
            f"{pair.uniform.evaluations[0].accuracy:.3f}",
            *(f"{final:.3f}" for final in finals),
            *("never" if moment is None else str(moment.step) for moment in steps),
        )


def within(interval: Interval, text: Callable[[float], str]) -> str:
    """Return a mean with its interval, if there is one."""
    if math.isnan(interval.low):
        return text(interval.mean)
    return f"{text(interval.mean)} ({text(interval.low)} to {text(interval.high)})"


def line(*cells: str) -> str:
    """Return a line of a Markdown table."""
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    print(tables(Results.read(Path(sys.argv[1]))), end="")
