"""The results as a picture: `python -m examples.grpo_cpu.chart results.json picture.svg`."""

import sys
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from examples.grpo_cpu.course import Course
from examples.grpo_cpu.measures import smoothed
from examples.grpo_cpu.plan import Plan
from examples.grpo_cpu.results import Results
from examples.grpo_cpu.tasks import LEVELS

COLORS = {"uniform": "#c1554b", "bots": "#1b6ca8"}
LABELS = {"uniform": "uniform", "bots": "BOTS"}
POOLED = 10  # steps in one point of the effective task ratio

Points = list[tuple[float, float]]


def draw_chart(results: Results, path: Path) -> None:
    """Draw accuracy and effective task ratio by steps, and accuracy by level, to an SVG file."""
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "bots", "font.size": 9})
    figure = Figure(figsize=(12, 3.8), layout="constrained")
    accuracy, ratio, levels = figure.subplots(1, 3)
    lines(accuracy, results, accuracies)
    accuracy.set(title="held-out accuracy", xlabel="GRPO steps")
    lines(ratio, results, lambda course: ratios(course, results.plan))
    ratio.set(title="effective task ratio", xlabel="GRPO steps", ylim=(0, 1))
    by_level(levels, results)
    levels.set(title="held-out accuracy by level, at the end", xlabel="digits")
    for axes in (accuracy, ratio, levels):
        axes.grid(visible=True, alpha=0.3)
        axes.legend()
    # No date, so that equal figures give equal files.
    figure.savefig(path, format="svg", metadata={"Date": None})


def lines(axes: Axes, results: Results, points_of: Callable[[Course], Points]) -> None:
    """Draw each run thin, and the mean of each arm on top."""
    for arm, color in COLORS.items():
        curves = [points_of(course) for course in results.courses if course.arm == arm]
        for points in curves:
            axes.plot(*zip(*points, strict=True), color=color, linewidth=0.6, alpha=0.35)
        mean = [(at[0][0], fmean(value for _, value in at)) for at in zip(*curves, strict=True)]
        axes.plot(*zip(*mean, strict=True), color=color, linewidth=2, label=LABELS[arm])


def accuracies(course: Course) -> Points:
    """Return the smoothed accuracy by steps."""
    return [(evaluation.step, level) for evaluation, level in smoothed(course)]


def ratios(course: Course, plan: Plan) -> Points:
    """Return the effective task ratio of some steps each, by the last of them."""
    ends = range(POOLED, len(course.effective) + 1, POOLED)
    return [(end, fmean(course.effective[end - POOLED : end]) / plan.tasks_per_step) for end in ends]


def by_level(axes: Axes, results: Results) -> None:
    """Draw the mean accuracy of each level: before training, and after it in both arms."""
    runs = {arm: [course for course in results.courses if course.arm == arm] for arm in COLORS}
    before = [
        fmean(course.evaluations[0].by_level[place] for course in runs["uniform"]) for place in range(len(LEVELS))
    ]
    axes.plot(list(LEVELS), before, color="#888888", linestyle=":", marker="o", markersize=3, label="before training")
    for arm, color in COLORS.items():
        after = [fmean(course.evaluations[-1].by_level[place] for course in runs[arm]) for place in range(len(LEVELS))]
        axes.plot(list(LEVELS), after, color=color, marker="o", markersize=3, label=LABELS[arm])


if __name__ == "__main__":
    draw_chart(Results.read(Path(sys.argv[1])), Path(sys.argv[2]))
