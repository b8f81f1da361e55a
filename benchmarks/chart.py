"""The figures as one picture."""

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.bench import LoadRow
from benchmarks.kernels import KernelRow
from benchmarks.targets import history_name

Thing = TypeVar("Thing")

OURS, THEIRS = "#1b6ca8", "#c1554b"
STYLES = ("-", "--", ":")
MARKERS = ("o", "s", "^", "D")


def draw_chart(kernels: list[KernelRow], loads: list[LoadRow], path: Path) -> None:
    """Draw what was measured to an SVG file: cost by pool size, and throughput by callers."""
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "bots", "font.size": 9})
    panels = 2 * bool(kernels) + 2 * bool(loads)
    figure = Figure(figsize=(12, 5 * (panels // 2)), layout="constrained")
    axes = iter(figure.subplots(panels // 2, 2, squeeze=False).ravel())
    if kernels:
        _costs(next(axes), kernels, "select 512")
        _costs(next(axes), kernels, "update 512")
    if loads:
        _throughput(next(axes), loads, "select")
        _throughput(next(axes), loads, "report")
    # No date, so that equal figures give equal files.
    figure.savefig(path, format="svg", metadata={"Date": None})


def _costs(axes: Axes, rows: list[KernelRow], operation: str) -> None:
    """Draw cost by pool size, references as k/16."""
    wanted = [row for row in rows if row.operation == operation and row.references == "k/16"]
    for history, style in zip(_distinct(map(history_name, wanted)), STYLES, strict=False):
        own = sorted((row for row in wanted if history_name(row) == history), key=lambda row: row.tasks)
        tasks = [row.tasks for row in own]
        ours = [row.ours.median_ms for row in own]
        axes.plot(tasks, ours, style, color=OURS, marker="o", markersize=3, label=f"bots, {history}")
        theirs = [row.theirs.median_ms for row in own if row.theirs is not None]
        if theirs:
            axes.plot(tasks, theirs, style, color=THEIRS, marker="o", markersize=3, label=f"trinity-rft, {history}")
    axes.set(title=f"{operation} tasks, references as k/16", xlabel="tasks in the pool", ylabel="ms (median)")
    axes.set(xscale="log", yscale="log")
    _finish(axes)


def _throughput(axes: Axes, rows: list[LoadRow], operation: str) -> None:
    """Draw requests a second by callers, of the smallest pool; a line for each pool would be too many to tell apart."""
    smallest = min(row.tasks for row in rows)
    wanted = [row for row in rows if row.operation.startswith(operation) and row.tasks == smallest]
    series = _distinct((row.operation, row.runs) for row in wanted)
    for place, (name, runs) in enumerate(series):
        own = [row for row in wanted if (row.operation, row.runs) == (name, runs)]
        label = f"{name}, {runs} run{'s' * (runs > 1)}"
        by_callers = [row.callers for row in own], [row.per_second for row in own]
        axes.plot(*by_callers, marker=MARKERS[place % len(MARKERS)], markersize=3, label=label)
    axes.set(
        title=f"{operation} over HTTP, one process, SQLite, {smallest:,} tasks",
        xlabel="callers",
        ylabel="requests a second",
    )
    axes.set_xscale("log", base=2)
    axes.set_xticks(callers := _distinct(row.callers for row in wanted), list(map(str, callers)))
    axes.set_ylim(bottom=0)
    _finish(axes)


def _distinct(things: Iterable[Thing]) -> list[Thing]:
    return list(dict.fromkeys(things))


def _finish(axes: Axes) -> None:
    axes.grid(visible=True, which="major", alpha=0.3)
    if axes.lines:
        axes.legend(fontsize=7, ncols=2, handlelength=3.5, loc="upper center", bbox_to_anchor=(0.5, -0.14))
