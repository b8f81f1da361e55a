"""What `bots top` shows: a table of runs that leaves out columns where the terminal is narrow."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from bots_client import Overview, OverviewTotals, RunSummary
from bots_service.cli.output import GAP, count, counted, number, shortened

ROWS_BESIDES = 9  # of a screen: title, totals, the head of the table, the lines between them
BAR = 14  # characters
NAME_SHARE, NAME_LEAST = 0.3, 14  # of the width, and characters: names get at least so much
STYLES = {"running": "green", "stalled": "bold red", "new": "cyan", "idle": "dim"}
UNITS = ((86400, "d"), (3600, "h"), (60, "min"))


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title, the text of a run, and its rank: of those that don't all fit, the highest go."""

    title: str
    cell: Callable[[RunSummary], Text]
    rank: int
    side: Literal["left", "right"] = "right"


def columns_at(now: float) -> list[Column]:
    """Return the columns besides the name, in order.

    Args:
        now: seconds since 1970.
    """
    return [
        Column("status", lambda run: Text(run.status, STYLES.get(run.status, "")), 4, "left"),
        Column("verdict", verdict, 1, "left"),
        Column("ETR, last 50", lambda run: Text(number(run.effective_task_ratio)), 2),
        Column("uniform ┃", bar, 6, "left"),
        Column("vs uniform, all", versus_uniform, 3),
        Column("step", lambda run: Text(count(run.step)), 7),
        Column("rollouts", lambda run: Text(count(run.rollouts)), 8),
        Column("last step", lambda run: Text(age(run.last_step_at, now)), 5),
    ]


def verdict(run: RunSummary) -> Text:
    """Return the verdict in words, red where the run needs attention; "-" where it is not judged yet."""
    if run.verdict is None:
        return Text("-")
    style = "bold red" if run.attention else "green" if run.verdict.kind == "healthy" else "dim"
    return Text(run.verdict.kind.replace("_", " "), style)


def versus_uniform(run: RunSummary) -> Text:
    """Return the gain: "1.45x" measured, "~1.45x" estimated, "-" where there is none. Dim unless the run is healthy."""
    if run.strategy == "uniform":
        return Text("baseline")
    if run.gain is None or run.gain.factor is None:
        return Text("-")
    is_healthy = run.verdict is not None and run.verdict.kind == "healthy"
    mark = "" if run.gain.source == "measured" else "~"
    return Text(f"{mark}{number(run.gain.factor, 2)}x", "" if is_healthy else "dim")


def bar(run: RunSummary) -> Text:
    """Return the effective task ratio as a bar, with a tick at that of uniform sampling."""
    ratio = run.effective_task_ratio
    uniform = None if run.gain is None else run.gain.uniform_effective_task_ratio
    filled = 0 if ratio is None else round(ratio * BAR)
    made = Text("━" * filled, style="cyan").append("─" * (BAR - filled), style="dim")
    if uniform is None:
        return made
    tick = min(int(uniform * BAR), BAR - 1)
    return Text.assemble(made[:tick], ("┃", "bold yellow"), made[tick + 1 :])


def age(at: datetime | None, now: float) -> str:
    """Format how long ago a time was, such as "12 s", "5 min" or "3 d"; "-" for None."""
    if at is None:
        return "-"
    seconds = max(now - at.timestamp(), 0)
    return next((f"{seconds // size:.0f} {unit}" for size, unit in UNITS if seconds >= size), f"{seconds:.0f} s")


@dataclass(frozen=True, slots=True)
class RunTable:
    """A table of runs, as wide as it is allowed to be."""

    runs: Sequence[RunSummary]
    now: float

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table with as many columns as fit."""
        names = [f"{run.dataset}/{run.run}" for run in self.runs]
        longest = max(map(len, names), default=0)
        least = min(longest, max(NAME_LEAST, int(options.max_width * NAME_SHARE)))
        shown, left = self._fitting(options.max_width - least)
        width = max(min(longest, least + left), len("run"))
        made = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
        made.add_column("run", width=width, no_wrap=True)
        for column, cells in shown:
            made.add_column(column.title, justify=column.side, width=width_of(cells, column), no_wrap=False)
        for place, name in enumerate(names):
            made.add_row(shortened(name, width), *(cells[place] for _, cells in shown))
        yield made

    def _fitting(self, available: int) -> tuple[list[tuple[Column, list[Text]]], int]:
        """Return the columns that fit with their cells, in order, and how much space is left."""
        columns = [(column, [column.cell(run) for run in self.runs]) for column in columns_at(self.now)]
        kept = []
        for column, cells in sorted(columns, key=lambda each: each[0].rank):
            if (needed := width_of(cells, column) + GAP) > available:
                break
            kept.append(column.rank)
            available -= needed
        return [(column, cells) for column, cells in columns if column.rank in kept], available


def width_of(cells: Sequence[Text], column: Column) -> int:
    """Return how wide a column is: its title may be wrapped, its cells not."""
    return max(*(len(word) for word in column.title.split()), *(cell.cell_len for cell in cells), 0)


def summed(totals: OverviewTotals) -> str:
    """Describe all runs together."""
    ratio = number(totals.effective / totals.reported if totals.reported else None)
    attention = f", {count(totals.attention)} need attention" if totals.attention != 1 else ", 1 needs attention"
    unjudged = f" ({count(totals.unjudged)} not judged yet)" if totals.unjudged else ""
    stalled = f", {count(totals.stalled)} stalled" if totals.stalled else ""
    runs = f"{counted(totals.runs, 'run')} of {counted(totals.datasets, 'dataset')}"
    rollouts = counted(totals.rollouts, "rollout")
    return (
        f"{runs}: {count(totals.running)} running{stalled}{attention}{unjudged}; {rollouts}, ETR of all steps {ratio}"
    )


def page_text(found: Overview, *, now: float) -> RenderableType:
    """Return the runs, and below them how many there are."""
    if not found.runs:
        return (
            "no run matches" if found.totals.runs else "no runs yet; create a dataset with `bots datasets import FILE`"
        )
    more = f"{count(len(found.runs))} of {count(found.matching)} runs; " if found.matching > len(found.runs) else ""
    return Group(RunTable(found.runs, now), "", f"{more}{summed(found.totals)}")


def screen(found: Overview, address: str, lost: datetime | None, *, now: float) -> RenderableType:
    """Return the whole screen.

    Args:
        lost: when the service stopped answering; None if it answers.
    """
    title = Text("bots top", style="bold", no_wrap=True, overflow="ellipsis")
    title.append(f"  q quits  {address}", style="not bold")
    if lost is not None:
        title = Text(f"no answer since {lost:%H:%M:%S}; trying again", style="bold red")
    return Group(title, "", page_text(found, now=now))
