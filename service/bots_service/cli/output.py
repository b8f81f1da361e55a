"""What commands write to stdout: one JSON document, or something to read."""

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


UNBOUNDED = 10_000  # columns: what goes into a pipe or a file is not cut off at a terminal's width


def show(document: object, readable: Callable[[], "RenderableType"], *, as_json: bool) -> None:
    """Write a result to stdout.

    Args:
        document: its content, of dataclasses and plain values.
        readable: makes what a person reads.
        as_json: write the document as JSON.
    """
    if as_json:
        sys.stdout.write(json.dumps(plain(document), ensure_ascii=False, indent=2) + "\n")
    else:
        console().print(readable())


def console(*, stderr: bool = False) -> "Console":
    """Return the terminal, or a plain writer where there is none."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else UNBOUNDED
    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False, soft_wrap=False)


def plain(value: object) -> Any:
    """Return a value as JSON can carry it."""
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
        columns: their titles, separated by two blanks; ">" before a title aligns its column to the right.
        rows: a text for each column.
        caption: stands below.
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
    """Return names with their values, one under the other."""
    from rich.table import Table

    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in rows.items():
        made.add_row(name, value)
    return made


def number(value: float | None, digits: int = 3) -> str:
    """Return a number to read; a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def count(value: float | None) -> str:
    """Return a count with its thousands apart, with decimals only if it has some; a dash where there is none."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def tasks_told(value: int) -> str:
    """Return a number of tasks, to read."""
    return f"{value:,} task" + ("" if value == 1 else "s")


def moment(value: datetime | None) -> str:
    """Return a time to the second, in the local zone; a dash where there is none."""
    return "-" if value is None else value.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def confirm(question: str, *, yes: bool) -> None:
    """Return if the answer is yes.

    Raises:
        CommandError: the answer is no.
        typer.BadParameter: there is nobody to ask.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter("can't ask without a terminal; pass --yes", param_hint="--yes")
    if not typer.confirm(question, err=True):
        raise CommandError("nothing was deleted")
