"""The results as a picture: `python -m examples.finetune.chart picture.svg results.jsonl ...`."""

import math
import sys
from pathlib import Path
from statistics import fmean

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from examples.finetune.course import Record, records_of
from examples.finetune.measures import Arms, arms_of, difference, differences, mean_accuracy
from examples.finetune.plan import BASE, Plan

COLORS = {
    BASE: "#888888",
    "bots-r2": "#1b6ca8",
    "pass-r2": "#2e8540",
    "nearest-r2": "#c1554b",
    "bots": "#7fb3d5",
    "pass": "#8ab17d",
    "pass-tags": "#e9a23b",
    "pass-r2-tags": "#7d5ba6",
    "oracle": "#111111",
}
POOLED = 20  # steps in one point of the effective task ratio
SHOWN = (-0.04, 0.05)  # differences of accuracies; an arm that does far worse would leave no room for the others


def draw_chart(records: list[Record], path: Path) -> None:
    """Draw the endpoint of each arm, accuracy over shuffle's and ETR by steps, and visits by task, to an SVG file."""
    arms, plan = arms_of(record.course for record in records), records[0].plan
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "bots", "font.size": 9})
    figure = Figure(figsize=(12, 7.6), layout="constrained")
    (endpoint, gain), (ratio, visits) = figure.subplots(2, 2)
    endpoints(endpoint, arms)
    endpoint.set(title=f"mean held-out accuracy over the course, minus {BASE}'s", xlim=SHOWN)
    gains(gain, arms, plan)
    gain.set(title=f"held-out accuracy, minus {BASE}'s of the same seed", xlabel="GRPO steps", ylim=SHOWN)
    ratios(ratio, arms, plan)
    ratio.set(title="effective task ratio", xlabel="GRPO steps", ylim=(0, 1))
    counts(visits, arms)
    visits.set(title="visits of a task", xlabel="tasks, the most visited first", yscale="symlog")
    for axes in (endpoint, gain, ratio, visits):
        axes.grid(visible=True, alpha=0.3)
    for axes in (gain, ratio, visits):
        axes.legend(ncols=2)
    # No date, so that equal figures give equal files.
    figure.savefig(path, format="svg", metadata={"Date": None})


def endpoints(axes: Axes, arms: Arms) -> None:
    """Draw each arm's difference from shuffle with its 95 % interval; one beyond the edge is a number only."""
    others = [arm for arm in arms if arm != BASE and differences(arms, arm, mean_accuracy)]
    found = [difference(arms, arm, mean_accuracy) for arm in others]
    for place, (arm, one) in enumerate(zip(others, found, strict=True)):
        reach = 0.0 if math.isnan(one.low) else one.mean - one.low
        axes.errorbar(one.mean, place, xerr=reach, fmt="o", color=COLORS[arm], capsize=3)
    axes.axvline(0, color=COLORS[BASE])
    names = [f"{arm}, {len(arms[arm])} seeds: {one.mean:+.4f}" for arm, one in zip(others, found, strict=True)]
    axes.set_yticks(range(len(others)), names)
    axes.invert_yaxis()


def gains(axes: Axes, arms: Arms, plan: Plan) -> None:
    """Draw how much more accurate than shuffle of the same seed each arm is, on the mean of its seeds."""
    steps = [plan.evaluate_every * place for place in range(plan.evaluations)]
    for arm, runs in arms.items():
        curves = [
            [own - base for own, base in zip(course.accuracies, arms[BASE][seed].accuracies, strict=True)]
            for seed, course in runs.items()
            if seed in arms[BASE]
        ]
        if curves:
            axes.plot(steps, [fmean(at) for at in zip(*curves, strict=True)], color=COLORS[arm], label=arm)


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
