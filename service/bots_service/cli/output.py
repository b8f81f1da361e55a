"""The output of commands: one JSON document, or text for people; and how far long work is."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from itertools import compress
from typing import TYPE_CHECKING, Any

import typer

from bots_service.cli.failures import CommandError
from bots_service.core.rounding import half_up

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

Result = tuple[object, Any]  # of a command: as dataclasses and plain values, and as text for people (rich's)
UNBOUNDED = 10_000  # columns: pipes and files have no width at which to wrap


def show(document: object, readable: "RenderableType", *, as_json: bool) -> None:
    """Write a result to stdout: as text for people, or its dataclasses and plain values as JSON."""
    if as_json:
        sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2, default=_plain) + "\n")
    else:
        console().print(readable)


def console(*, stderr: bool = False) -> "Console":
    """Return a console on the terminal, or a plain writer if the stream is not a terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else UNBOUNDED
    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False, soft_wrap=False)


def _plain(value: Any) -> Any:
    """Return what JSON has no type for: dataclasses as objects, times as ISO 8601 text."""
    return value.isoformat() if isinstance(value, datetime) else asdict(value)


def table(columns: str, rows: Iterable[Iterable[str]], *, caption: str = "") -> "RenderableType":
    """Return a table; on a terminal that is too narrow for it, one block of lines for each row.

    Args:
        columns: titles, separated by two blanks; ">" before a title aligns its column to the right, and "?" after it
            leaves the column out if each of its texts is "-".
        rows: one text per column.
        caption: text below the table.
    """
    from rich import box
    from rich.console import Group
    from rich.table import Table

    titles, texts = columns.split("  "), [tuple(row) for row in rows]
    shown = [not title.endswith("?") or any(row[place] != "-" for row in texts) for place, title in enumerate(titles)]
    titles, texts = list(compress(titles, shown)), [tuple(compress(row, shown)) for row in texts]
    made = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False, collapse_padding=True)
    for title in titles:
        made.add_column(title.strip(">?"), justify="right" if title.startswith(">") else "left", no_wrap=True)
    for row in texts:
        made.add_row(*row)
    screen = console()
    parts: list[RenderableType] = [made]
    if screen.measure(made, options=screen.options.update(width=UNBOUNDED)).maximum > screen.width:
        names = [title.strip(">?").replace("\n", " ") for title in titles]
        parts = []
        for row in texts:
            parts += [*([""] if parts else []), sheet(dict(zip(names, row, strict=True)))]
    return Group(*parts, *(["", caption] if caption else []))


def sheet(rows: Mapping[str, str]) -> "Table":
    """Return names and values, one pair per line."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows.items():
        grid.add_row(name, value)
    return grid


def number(value: float | None, digits: int = 3) -> str:
    """Format a number with fixed decimals; "-" for None."""
    return "-" if value is None else half_up(value, digits)


def count(value: float | None) -> str:
    """Format a count with thousands separators, and two decimals unless it is whole; "-" for None."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def percent(value: float | None) -> str:
    """Format a share as a whole percentage; "-" for None."""
    return "-" if value is None else f"{value:.0%}"


def times(factor: float | None) -> str:
    """Format a factor, such as "1.45x"; "-" for None."""
    return "-" if factor is None else f"{factor:.2f}x"


def counted(value: float, noun: str) -> str:
    """Format a count with its noun, such as "1 task" or "2.50 rollouts"."""
    return f"{count(value)} {noun}" + ("" if value == 1 else "s")


def moment(value: datetime | None) -> str:
    """Format a time in the local zone, to the second; "-" for None."""
    return "-" if value is None else value.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation unless `yes` is set; return if it is given.

    Raises:
        CommandError: the user declined.
        typer.BadParameter: stdin is not a terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter("can't ask without a terminal; pass --yes", param_hint="--yes")
    if not typer.confirm(question, err=True):
        raise CommandError("nothing was deleted")


Advance = Callable[[float | None, str], None]  # share that is done, in [0, 1], None if unknown; what is being done
BAR = 20  # columns


@contextmanager
def progress_line() -> Iterator[Advance]:
    """Show a bar and the time left on stderr while the block runs, if stderr is a terminal; yield what updates it."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    terminal = console(stderr=True)
    columns = BarColumn(BAR), TextColumn("{task.description}"), TimeRemainingColumn(compact=True)
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as progress:
        line = progress.add_task("starting", total=None)

        def advance(share: float | None, doing: str) -> None:
            done = "" if share is None else f"{share:.0%}, "
            progress.update(line, completed=share or 0.0, description=f"{done}{doing}")
            progress.tasks[line].total = None if share is None else 1.0  # `update` can't say that it is unknown

        yield advance


STORING = "sent; the service checks and stores it"


def show_sent(advance: Advance, sent: int, total: int | None) -> None:
    """Show how much of a file is sent, as the client's `on_progress`."""
    if total is None or sent < total:
        advance(sent / total if total else None, "sending")
    else:
        advance(None, STORING)
