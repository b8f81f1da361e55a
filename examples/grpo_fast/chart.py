"""The results as a picture: `python -m examples.grpo_fast.chart picture.svg results.jsonl ...`."""

import sys
from pathlib import Path
from statistics import fmean

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from examples.grpo_fast.course import Record, records_of
from examples.grpo_fast.measures import Arms, arms_of
from examples.grpo_fast.plan import BASE, Plan

COLORS = {
    BASE: "#888888",
    "bots-r2": "#1b6ca8",
    "pass-r2": "#2e8540",
    "nearest-r2": "#c1554b",
    "pass": "#8ab17d",
    "pass-tags": "#e9a23b",
}
POOLED = 20  # steps in one point of the effective task ratio


def draw_chart(records: list[Record], path: Path) -> None:
    """Draw accuracy over shuffle's and effective task ratio by steps, and visits by task, to an SVG file."""
    arms, plan = arms_of(record.course for record in records), records[0].plan
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "bots", "font.size": 9})
    figure = Figure(figsize=(12, 3.8), layout="constrained")
    gain, ratio, visits = figure.subplots(1, 3)
    gains(gain, arms, plan)
    gain.set(title=f"held-out accuracy, minus {BASE}'s of the same seed", xlabel="GRPO steps")
    ratios(ratio, arms, plan)
    ratio.set(title="effective task ratio", xlabel="GRPO steps", ylim=(0, 1))
    counts(visits, arms)
    visits.set(title="visits of a task", xlabel="tasks, the most visited first", yscale="symlog")
    for axes in (gain, ratio, visits):
        axes.grid(visible=True, alpha=0.3)
        axes.legend()
    # No date, so that equal figures give equal files.
    figure.savefig(path, format="svg", metadata={"Date": None})


def gains(axes: Axes, arms: Arms, plan: Plan) -> None:
    """Draw how much more accurate than shuffle each run is, thin, and the mean of each arm on top."""
    steps = [plan.evaluate_every * place for place in range(plan.evaluations)]
    for arm, runs in arms.items():
        curves = [
            [own - base for own, base in zip(course.accuracies, arms[BASE][seed].accuracies, strict=True)]
            for seed, course in runs.items()
        ]
        for curve in curves:
            axes.plot(steps, curve, color=COLORS[arm], linewidth=0.6, alpha=0.4)
        axes.plot(steps, [fmean(at) for at in zip(*curves, strict=True)], color=COLORS[arm], linewidth=2, label=arm)


def ratios(axes: Axes, arms: Arms, plan: Plan) -> None:
    """Draw the mean effective task ratio of each arm, of some steps each, by the last of them."""
    ends = range(POOLED, plan.steps + 1, POOLED)
    for arm, runs in arms.items():
        means = [
            fmean(fmean(course.effective[end - POOLED : end]) / plan.tasks_per_step for course in runs.values())
            for end in ends
        ]
        axes.plot(list(ends), means, color=COLORS[arm], label=arm)


def counts(axes: Axes, arms: Arms) -> None:
    """Draw how often each task was chosen, from the most visited to the least, as means over the seeds."""
    for arm, runs in arms.items():
        ranked = [sorted(course.visits, reverse=True) for course in runs.values()]
        axes.plot([fmean(at) for at in zip(*ranked, strict=True)], color=COLORS[arm], label=arm)


if __name__ == "__main__":
    draw_chart(records_of(map(Path, sys.argv[2:])), Path(sys.argv[1]))
