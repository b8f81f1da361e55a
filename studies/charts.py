"""Charts of what trials showed: means over seeds with 95 % intervals, as SVG. Equal results give equal files."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from studies.results import Result
from studies.study import StudyChart
from studies.tables import Interval, grouped, interval_of, measure_named, values_of
from studies.trial import KEPT_EVERY

# Okabe and Ito's colours, which people who see few colours tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8a8a8a")
MARKERS = "os^Dvx+*"
OF_STEPS = "step"
PANEL_INCHES, HEIGHT_INCHES = 4.6, 3.8


def draw(chart: StudyChart, results: Sequence[Result], path: Path) -> None:
    """Draw a chart of one study's results to an SVG file."""
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "bots", "font.size": 9})
    shown = [result for result in results if chart.shows(result.labels)]
    panels = list(dict.fromkeys(result.labels[chart.panels] for result in shown)) if chart.panels else [""]
    figure = Figure(figsize=(PANEL_INCHES * len(panels), HEIGHT_INCHES), layout="constrained")
    figure.suptitle(chart.title, fontsize=10)
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False).ravel(), panels, strict=True):
        _panel(axes, chart, [result for result in shown if not chart.panels or result.labels[chart.panels] == panel])
        axes.set(title=panel)
    handles, names = figure.axes[0].get_legend_handles_labels()
    if len(names) > 1:
        figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 4), fontsize=8)
    # No date, so that equal figures give equal files.
    figure.savefig(path, format="svg", metadata={"Date": None})


def _panel(axes: Axes, chart: StudyChart, results: list[Result]) -> None:
    of_steps = chart.x == OF_STEPS
    lines: dict[str, list[Result]] = {}
    for result in results:
        lines.setdefault(", ".join(result.labels[name] for name in chart.lines), []).append(result)
    labels = [] if of_steps else sorted({result.labels[chart.x] for result in results}, key=float)
    for place, (name, group) in enumerate(lines.items()):
        points = _course(group, chart.y) if of_steps else _by_label(group, chart, labels)
        places = [x for x, _ in points]
        means = [interval.mean for _, interval in points]
        halves = [0.0 if interval.half_width != interval.half_width else interval.half_width for _, interval in points]
        colour = COLOURS[place % len(COLOURS)]
        if of_steps:
            axes.plot(places, means, linewidth=1.4, color=colour, label=name)
            low, high = zip(
                *((mean - half, mean + half) for mean, half in zip(means, halves, strict=True)), strict=True
            )
            axes.fill_between(places, low, high, color=colour, alpha=0.18, linewidth=0)
        else:
            marker = MARKERS[place % len(MARKERS)]
            line = axes.errorbar(
                places, means, halves, marker=marker, markersize=4, linewidth=1.2, capsize=2, color=colour
            )
            line.set_label(name)
    heading = chart.y.replace("_", " ") if of_steps else measure_named(chart.y).heading
    axes.set(xlabel=chart.x, ylabel=heading)
    if labels:
        axes.set_xticks(range(len(labels)), labels)
    axes.grid(visible=True, alpha=0.3)


def _course(group: list[Result], measure: str) -> list[tuple[float, Interval]]:
    """Return a measure that is kept every so many steps, with its steps; the last is that after the last step."""
    curves = [result.measures[measure] for result in group]
    steps = int(group[0].measures["steps"])
    places = [*range(0, steps, KEPT_EVERY), steps]
    return [(place, interval_of(values)) for place, *values in zip(places, *curves, strict=True)]


def _by_label(group: list[Result], chart: StudyChart, labels: list[str]) -> list[tuple[float, Interval]]:
    """Return a measure of each cell, at the place of its label among the sorted ones: settings are no even scale."""
    points = []
    for cell in grouped(group).values():
        values = values_of(cell, chart.y)
        if values is not None:
            points.append((float(labels.index(cell[0].labels[chart.x])), interval_of(values)))
    return sorted(points, key=lambda point: point[0])
