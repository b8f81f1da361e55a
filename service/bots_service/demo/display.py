"""What a replay looks like in a terminal: live, and as a closing table."""

from collections.abc import Iterable

from rich import box
from rich.bar import Bar
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bots_service.demo.replay import PREDICTED_EVERY, RECENT, ROLLOUTS, Course, ReplayedRun

LEVELS = "▁▂▃▄▅▆▇█"
SPARKS = 50  # characters: 10 steps each in a whole run
WIDTH = 80  # of a small terminal
BAR_WIDTH = 34
COLORS = {"uniform": "yellow", "BOTS": "cyan", "tracker": "green", "pass": "magenta"}


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
    """Return the effective task ratios of the runs as bars."""
    table = Table.grid(padding=(0, 2))
    table.add_row(Text("effective task ratio", style="bold"), "", "so far", f"last {RECENT}", style="dim")
    for label, course in replay.courses.items():
        bar = Bar(1.0, 0.0, course.effective_task_ratio(), width=BAR_WIDTH, color=COLORS[label], bgcolor="default")
        table.add_row(label, bar, ratio(course), ratio(course, RECENT))
    return table


def details(replay: ReplayedRun) -> Table:
    """Return what else is worth watching."""
    table = Table.grid(padding=(0, 2))
    for label, course in replay.courses.items():
        table.add_row(f"{label}, step by step", sparkline(course, replay.plan.steps, COLORS[label]))
    for label, course in replay.courses.items():
        times = Text(f"{number(replay.times_uniform(course))} times uniform's", style="bold")
        saved = f"{count(replay.rollouts_saved(course))} of {count(replay.rollouts_spent)} rollouts saved"
        table.add_row(label, Text.assemble(times, ", ", saved))
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
    """Return the results: a section for each replay, with a row for each run."""
    replays = list(replays)
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
        title_justify="left",
        title_style="bold",
        width=WIDTH,
    )
    plan = replays[0].plan
    table.title = f"{plan.steps} steps of a real GRPO run, {plan.count} tasks a step, {ROLLOUTS} rollouts each"
    table.caption = (
        "Tasks met: different problems that the run selected. "
        f"Log loss: of the success rates predicted for all problems, before every {PREDICTED_EVERY}th step.\n"
        "uniform and BOTS have the belief of BOTS, tracker and pass that of the tracker. BOTS and tracker select by "
        "the strategy thompson, pass by the strategy pass. The best effective task ratio is not yet the best training: "
        "docs/tracker.md tells why pass is the tracker's default."
    )
    table.caption_justify = "left"
    table.add_column("", no_wrap=True)
    for column in (
        "effective\ntask ratio",
        f"last {RECENT}\nsteps",
        "times\nuniform",
        "rollouts\nsaved",
        "tasks\nmet",
        "log\nloss",
    ):
        table.add_column(column, justify="right")
    for replay in replays:
        table.add_row(Text(title_of(replay), style="bold"))
        for label, course in replay.courses.items():
            table.add_row(*row_of(replay, label, course), end_section=label == list(replay.courses)[-1])
    return table


def row_of(replay: ReplayedRun, label: str, course: Course) -> tuple[str, ...]:
    """Return the cells of a run."""
    return (
        f"  {label}",
        ratio(course),
        ratio(course, RECENT),
        number(replay.times_uniform(course)),
        count(replay.rollouts_saved(course)),
        count(len(course.met)),
        number(course.log_loss, digits=3),
    )


def progress_line(replay: ReplayedRun) -> str:
    """Return how a replay stands, for a log."""
    ratios = ", ".join(f"{label} {ratio(course)}" for label, course in replay.courses.items())
    return f"{title_of(replay)}, step {replay.steps_done} of {replay.plan.steps}: {ratios}"


def title_of(replay: ReplayedRun) -> str:
    """Return which problems are replayed."""
    if replay.referenced == replay.problems:
        return f"{replay.problems} with both references"
    return f"all {replay.problems} problems"


def ratio(course: Course, steps: int | None = None) -> str:
    """Return an effective task ratio, of the last steps or of all."""
    return f"{course.effective_task_ratio(steps):.3f}"


def number(value: float | None, digits: int = 2) -> str:
    """Return a number with so many decimals; a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def count(value: int | None) -> str:
    """Return a count with its thousands apart; a dash where there is none."""
    return "-" if value is None else f"{value:,}"
