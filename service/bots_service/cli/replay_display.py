"""What a replay looks like in a terminal: live, and as a closing table. Its numbers are the service's summaries."""

from collections.abc import Iterable, Iterator

from rich.bar import Bar
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bots_client import RunSummary
from bots_service.cli.output import TextTable, count, number, sparkline, table
from bots_service.demo.replay import DEFAULT, PREDICTED_EVERY, RECENT, ROLLOUTS, Course, ReplayedRun

SPARKS = 50  # characters at most: 10 steps each in a whole run
WIDEST = 80  # columns: of a small terminal
COLORS = {"uniform": "yellow", "bots-thompson": "cyan", "tracker-thompson": "magenta", "tracker-pass": "green"}
LABEL = max(map(len, COLORS))
COLUMNS = f"run  >effective task ratio  >last {RECENT} steps  >vs uniform  >rollouts saved  >tasks met  >log loss"
EXPLANATION = (
    f"Tasks met: different problems that the run selected. Log loss: of the success rates predicted for all problems, "
    f"before every {PREDICTED_EVERY}th step.",
    "The names of the runs are their belief and their strategy. Uniform sampling looks at no belief.",
)


class LivePanel:
    """How a replay stands, as wide as the terminal, up to 80 columns."""

    def __init__(self, replay: ReplayedRun) -> None:
        """Show this replay."""
        self.replay = replay

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the panel."""
        width = min(options.max_width, WIDEST)
        inside = width - 4
        replay, plan = self.replay, self.replay.plan
        bar = ProgressBar(total=plan.steps, completed=replay.steps_done, width=inside // 2)
        done = Table.grid(padding=(0, 2))
        done.add_row(f"step {replay.steps_done} of {plan.steps}", bar)
        parts: list[RenderableType] = [
            done,
            Text(),
            ratios(replay, inside),
            Text(),
            trends(replay, inside),
            *gains(replay),
        ]
        yield Panel(Group(*parts), title=title_of(replay), title_align="left", border_style="dim", width=width)


def ratios(replay: ReplayedRun, width: int) -> Table:
    """Return the effective task ratios of the runs as bars."""
    grid = Table.grid(padding=(0, 2))
    grid.add_row(Text("ETR", style="bold"), "", "so far", f"last {RECENT}", style="dim")
    for label, summary in replay.summaries.items():
        so_far = overall(summary)
        bar = Bar(1.0, 0.0, so_far or 0.0, width=width - LABEL - 19, color=COLORS[label], bgcolor="default")
        grid.add_row(label, bar, number(so_far), number(summary.effective_task_ratio))
    return grid


def trends(replay: ReplayedRun, width: int) -> Table:
    """Return the effective task ratios along the steps."""
    grid = Table.grid(padding=(0, 2))
    for label, course in replay.courses.items():
        marks = sparkline(parts_of(course, replay.plan.steps, min(SPARKS, width - LABEL - 2)))
        grid.add_row(label, Text(marks, style=COLORS[label]))
    return grid


def gains(replay: ReplayedRun) -> Iterator[Text]:
    """Yield what each run gains over uniform sampling."""
    for label, summary in replay.summaries.items():
        if summary.gain is not None:
            factor = Text(f"{times(summary.gain.factor)} vs uniform", style="bold")
            saved = f"{count(rounded(summary.gain.rollouts_saved))} rollouts saved"
            yield Text.assemble(f"{label}: ", factor, ", ", saved)


def parts_of(course: Course, steps: int, parts: int) -> Iterator[float | None]:
    """Yield the effective task ratio of each part of the run that is done."""
    for part in range(parts):
        first, end = part * steps // parts, (part + 1) * steps // parts
        if end > len(course.reported):
            return
        reported = sum(course.reported[first:end])
        if reported:
            yield sum(course.effective[first:end]) / reported


def closing_table(replays: Iterable[ReplayedRun]) -> RenderableType:
    """Return the results: a table for each replay, with a row for each run."""
    replays = list(replays)
    plan = replays[0].plan
    head = f"{plan.steps} steps of a real GRPO run, {plan.count} tasks a step, {ROLLOUTS} rollouts each"
    parts: list[RenderableType] = [Text(head, style="bold")]
    for replay in replays:
        parts += ["", Text(title_of(replay), style="bold"), table_of(replay)]
    return Group(*parts, "", *EXPLANATION)


def table_of(replay: ReplayedRun) -> TextTable:
    """Return the results of a replay."""
    return table(COLUMNS, (row_of(replay, label) for label in replay.summaries))


def row_of(replay: ReplayedRun, label: str) -> tuple[str, ...]:
    """Return the cells of a run."""
    summary, course = replay.summaries[label], replay.courses[label]
    gain = summary.gain
    return (
        label,
        number(overall(summary)),
        number(summary.effective_task_ratio),
        "baseline" if gain is None else times(gain.factor),
        "-" if gain is None else count(rounded(gain.rollouts_saved)),
        count(len(course.met)),
        number(course.log_loss),
    )


def headline(replay: ReplayedRun) -> str:
    """Return the gain of the default, and why a larger one is no better training."""
    gains = {label: summary.gain for label, summary in replay.summaries.items()}
    changes = {label: gain.factor - 1 for label, gain in gains.items() if gain is not None and gain.factor is not None}
    default = gains.get(DEFAULT)
    if default is None or DEFAULT not in changes:
        return "Uniform sampling found no effective task."
    said = (
        f"{DEFAULT}, which new runs get, found {changes[DEFAULT]:+.0%} effective tasks for the same"
        f" {count(default.rollouts_spent)} rollouts, compared with uniform sampling."
    )
    larger = [f"{label} ({change:+.0%})" for label, change in changes.items() if change > changes[DEFAULT]]
    if not larger:
        return said
    return (
        f"{said} {' and '.join(larger)} found more, but that is no better training: thompson returns to the same few"
        " tasks near 50% success, and a model that trains on few tasks may unlearn the others (docs/tracker.md)."
    )


def progress_line(replay: ReplayedRun) -> str:
    """Return how a replay stands, for a log."""
    stand = ", ".join(f"{label} {number(overall(summary))}" for label, summary in replay.summaries.items())
    return f"{title_of(replay)}, step {replay.steps_done} of {replay.plan.steps}: {stand}"


def title_of(replay: ReplayedRun) -> str:
    """Return which problems are replayed."""
    if replay.referenced == replay.problems:
        return f"{replay.problems} with both references"
    return f"all {replay.problems} problems"


def overall(summary: RunSummary) -> float | None:
    """Return a run's effective task ratio over all its steps; None if nothing was reported."""
    return summary.effective / summary.reported if summary.reported else None


def times(factor: float | None) -> str:
    """Format a factor, such as "1.45x"; "-" for None."""
    return "-" if factor is None else f"{factor:.2f}x"


def rounded(value: float | None) -> int | None:
    """Return a number of rollouts without its fraction."""
    return None if value is None else round(value)
