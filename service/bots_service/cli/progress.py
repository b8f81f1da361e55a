"""How far long work is, on a terminal: a bar, what is being done, and the time that is left."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bots_service.cli.output import console, shortened

if TYPE_CHECKING:
    from rich.progress import Task as Work

Advance = Callable[[float | None, str], None]  # share that is done, in [0, 1], None if unknown; what is being done

BAR_FROM = 60  # columns: a narrower terminal has no room for a bar and a title
BAR, TITLE = 20, 20  # columns


@contextmanager
def progress_line(title: str) -> Iterator[Advance]:
    """Show a line on stderr while the block runs, if stderr is a terminal; yield what updates it.

    The line pulses, with the time so far, while it is unknown how much is done.
    """
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
    from rich.text import Text

    class TimeColumn(ProgressColumn):
        """The time that is left, or the time so far."""

        def render(self, task: "Work") -> Text:
            """Return the text."""
            return Text(time_of(task), style="cyan")

    terminal = console(stderr=True)
    columns = [TextColumn("{task.fields[doing]}"), TimeColumn()]
    if terminal.width >= BAR_FROM:
        columns = [TextColumn(shortened(title, TITLE)), BarColumn(BAR), *columns]
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as progress:
        line = progress.add_task("", total=None, doing="starting")

        def advance(share: float | None, doing: str) -> None:
            percent = "" if share is None else f"{share:.0%}, "
            progress.update(line, completed=share or 0.0, doing=f"{percent}{doing}")
            progress.tasks[line].total = None if share is None else 1.0  # `update` can't say that it is unknown

        yield advance


def time_of(task: "Work") -> str:
    """Return the time that is left, such as "1:02 left"; while that is unknown, the time so far."""
    left = None if task.total is None else task.time_remaining
    return clock_time(task.elapsed or 0.0) if left is None else f"{clock_time(left)} left"


def clock_time(seconds: float) -> str:
    """Format a duration, such as "1:02" or "2:03:04"."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}" if minutes >= 60 else f"{minutes}:{rest:02}"
