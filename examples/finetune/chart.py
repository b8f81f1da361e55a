"""Learning curves: `python -m examples.finetune.chart picture.svg results.jsonl ...`."""

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from examples.finetune.course import Record, records_of
from examples.finetune.intervals import interval
from examples.finetune.measures import arms_of, averaged
from examples.finetune.plan import BASE

# All can be told apart on white and on a dark page, where the frame and the text are grey, too.
COLORS = {
    BASE: "#8a8a8a",
    "pass": "#3a9a50",
    "pass-tags": "#e09020",
    "pass-r2": "#8f6fc0",
    "bots-r2": "#3584c4",
    "oracle": "#c9a227",
    "refill": "#3584c4",
    "pass-wanted": "#e09020",
    "pass-r2-tags": "#c06fa0",
    "bots": "#6aaed6",
    "nearest-r2": "#c1554b",
}
INK = "#7d8590"


def draw_chart(records: list[Record], path: Path) -> None:
    """Draw the held-out accuracy of each arm by steps, to an SVG file; bands are those of the difference from shuffle.

    A curve is the mean over an arm's seeds that shuffle has, too. Seeds begin at unequal accuracies, so the band around
    it is the 95 % interval of the difference from shuffle of the same seed.
    """
    arms, plan = arms_of(record.course for record in records), records[0].plan
    style: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "bots", "font.size": 10}
    style |= dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK)
    with mpl.rc_context(style):
        figure = Figure(figsize=(8, 4.2), layout="constrained")
        axes = figure.subplots()
        steps = [plan.evaluate_every * place for place in range(plan.evaluations)]
        for arm, runs in arms.items():
            seeds = [seed for seed in runs if seed in arms[BASE]]
            if not seeds:
                continue
            curve = np.array(averaged(runs[seed] for seed in seeds).accuracies)
            axes.plot(steps, curve, color=COLORS[arm], label=f"{arm}, {len(seeds)} seeds")
            if arm != BASE and len(seeds) > 1:
                pairs = [np.subtract(runs[seed].accuracies, arms[BASE][seed].accuracies) for seed in seeds]
                found = [interval(at) for at in np.transpose(pairs).tolist()]
                reach = np.array([one.high - one.mean for one in found])
                axes.fill_between(steps, curve - reach, curve + reach, color=COLORS[arm], alpha=0.18, linewidth=0)
        axes.set(xlabel="GRPO steps", ylabel="held-out accuracy")
        axes.grid(visible=True, color=INK, alpha=0.25)
        axes.legend(frameon=False)
        # No date, so that equal figures give equal files.
        figure.savefig(path, format="svg", transparent=True, metadata={"Date": None})


if __name__ == "__main__":
    draw_chart(records_of(map(Path, sys.argv[2:])), Path(sys.argv[1]))
