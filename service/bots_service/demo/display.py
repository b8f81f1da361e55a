"""What a replay looks like in a terminal: live, and as a closing table."""

from collections.abc import Iterable

from rich import box
from rich.bar import Bar
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bots_service.demo.replay import RECENT, ROLLOUTS, Course, ReplayedRun

LEVELS = "▁▂▃▄▅▆▇█"
SPARKS = 50  # characters: 10 steps each in a whole run
WIDTH = 78  # fits a terminal of 80 columns
BAR_WIDTH = 34
BOTS_COLOR, UNIFORM_COLOR = "green", "yellow"


def live_panel(replay: ReplayedRun) -> Panel:
    """Return how a replay stands."""
    plan, title = replay.plan, f"{title_of(replay)}, {replay.plan.count} a step, {ROLLOUTS} rollouts each"
    done = Table.grid(padding=(0, 2))
    bar = ProgressBar(total=plan.steps, completed=replay.steps_done, width=40)
    done.add_row(f"step {replay.steps_done} of {plan.steps}", bar)
    return Panel(
        Group(done, Text(), ratios(replay), Text(), details(replay)),
        title=title,
        title_align="left",
        border_style="dim",
        width=WIDTH,
    )


def ratios(replay: ReplayedRun) -> Table:
    """Return the effective task ratios of both runs as bars."""
    table = Table.grid(padding=(0, 2))
    table.add_row(Text("effective task ratio", style="bold"), "", "so far", f"last {RECENT}", style="dim")
    for name, course, color in (("BOTS", replay.bots, BOTS_COLOR), ("uniform", replay.uniform, UNIFORM_COLOR)):
        bar = Bar(1.0, 0.0, course.effective_task_ratio(), width=BAR_WIDTH, color=color, bgcolor="default")
        table.add_row(name, bar, ratio(course), ratio(course, RECENT))
    return table


def details(replay: ReplayedRun) -> Table:
    """Return what else is worth watching."""
    table = Table.grid(padding=(0, 2))
    table.add_row("BOTS, step by step", sparkline(replay.bots, replay.plan.steps, BOTS_COLOR))
    table.add_row("uniform", sparkline(replay.uniform, replay.plan.steps, UNIFORM_COLOR))
    table.add_row("times uniform's", Text(number(replay.ratio), style="bold"))
    table.add_row("capability", f"{number(replay.bots.capability)}  (0: before training, 1: the 7B model)")
    table.add_row("rollouts saved", f"{count(replay.rollouts_saved)} of {count(replay.rollouts_spent)}")
    return table


def sparkline(course: Course, steps: int, color: str) -> Text:
    """Return the effective task ratio along the run, a character for every 50th of it that is done."""
    marks = ""
    for part in range(SPARKS):
        first, end = part * steps // SPARKS, (part + 1) * steps // SPARKS
        reported = sum(course.reported[first:end])
        if end > len(course.reported):
            break
        if reported:
            level = sum(course.effective[first:end]) / reported
            marks += mark(level)
    return Text(marks, style=color)


def mark(level: float) -> str:
    """Return one character of a sparkline, for a level in [0, 1]."""
    return LEVELS[min(int(level * len(LEVELS)), len(LEVELS) - 1)]


def closing_table(replays: Iterable[ReplayedRun]) -> RenderableType:
    """Return the results, a column for each replay."""
    replays = list(replays)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left", title_style="bold")
    table.title = f"{replays[0].plan.steps} steps of a real GRPO run, {replays[0].plan.count} tasks a step"
    table.add_column("")
    for replay in replays:
        table.add_column(title_of(replay), justify="right")

    def row(name: str, cells: Iterable[str], style: str = "") -> None:
        table.add_row(name, *cells, style=style)

    row("effective task ratio, BOTS", (ratio(replay.bots) for replay in replays))
    row("effective task ratio, uniform", (ratio(replay.uniform) for replay in replays))
    row("times uniform's", (number(replay.ratio) for replay in replays), "bold")
    row(f"last {RECENT} steps, BOTS", (ratio(replay.bots, RECENT) for replay in replays))
    row(f"last {RECENT} steps, uniform", (ratio(replay.uniform, RECENT) for replay in replays))
    row("capability in the end", (number(replay.bots.capability) for replay in replays))
    row("rollouts each spent", (count(replay.rollouts_spent) for replay in replays))
    row("rollouts saved by BOTS", (count(replay.rollouts_saved) for replay in replays), "bold")
    return table


def progress_line(replay: ReplayedRun) -> str:
    """Return how a replay stands, for a log."""
    step = f"step {replay.steps_done} of {replay.plan.steps}"
    return f"{title_of(replay)}, {step}: BOTS {ratio(replay.bots)}, uniform {ratio(replay.uniform)}"


def title_of(replay: ReplayedRun) -> str:
    """Return which problems are replayed."""
    if replay.referenced == replay.problems:
        return f"{replay.problems} with both references"
    return f"all {replay.problems} problems"


def ratio(course: Course, steps: int | None = None) -> str:
    """Return an effective task ratio, of the last steps or of all."""
    return f"{course.effective_task_ratio(steps):.3f}"


def number(value: float | None) -> str:
    """Return a number with two decimals; a dash where there is none."""
    return "-" if value is None else f"{value:.2f}"


def count(value: int | None) -> str:
    """Return a count with its thousands apart; a dash where there is none."""
    return "-" if value is None else f"{value:,}"
