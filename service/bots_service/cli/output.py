"""The output of commands: one JSON document, or text for people."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from bots_service.cli.failures import CommandError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table


UNBOUNDED = 10_000  # columns: pipes and files have no width at which to wrap


def show(document: object, readable: Callable[[], "RenderableType"], *, as_json: bool) -> None:
    """Write a result to stdout.

    Args:
        document: the result as dataclasses and plain values.
        readable: returns the result as text for people.
        as_json: write the document as JSON instead.
    """
    if as_json:
        sys.stdout.write(json.dumps(plain(document), ensure_ascii=False, indent=2) + "\n")
    else:
        console().print(readable())


def console(*, stderr: bool = False) -> "Console":
    """Return a console on the terminal, or a plain writer if the stream is not a terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else UNBOUNDED
    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False, soft_wrap=False)


def plain(value: object) -> Any:
    """Return a value as JSON types: dataclasses become objects, times become ISO 8601 text."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.isoformat() if isinstance(value, datetime) else value


def table(columns: str, rows: Iterable[Iterable[str]], *, caption: str | None = None) -> "Table":
    """Return a table.

    Args:
        columns: titles, separated by two blanks; ">" before a title aligns its column to the right.
        rows: one text per column.
        caption: text below the table.
    """
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", caption=caption, caption_justify="left")
    for title in columns.split("  "):
        made.add_column(title.removeprefix(">"), justify="right" if title.startswith(">") else "left", overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made


def sheet(rows: Mapping[str, str]) -> "Table":
    """Return a table of names and values, one pair per line."""
    from rich.table import Table

    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in rows.items():
        made.add_row(name, value)
    return made


def number(value: float | None, digits: int = 3) -> str:
    """Format a number with fixed decimals; "-" for None."""
    return "-" if value is None else f"{value:.{digits}f}"


def count(value: float | None) -> str:
    """Format a count with thousands separators, and two decimals unless it is whole; "-" for None."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def percent(value: float | None) -> str:
    """Format a share as a whole percentage; "-" for None."""
    return "-" if value is None else f"{value:.0%}"


def counted(value: float, noun: str) -> str:
    """Format a count with its noun, such as "1 outcome" or "2.50 rollouts"."""
    return f"{count(value)} {noun}" + ("" if value == 1 else "s")


def task_count(value: int) -> str:
    """Format a number of tasks, such as "1 task" or "1,200 tasks"."""
    return counted(value, "task")


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
