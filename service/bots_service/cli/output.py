"""The output of commands: one JSON document, or text for people."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from itertools import compress
from typing import TYPE_CHECKING, Any, Literal

import typer

from bots_service.cli.failures import CommandError
from bots_service.core.rounding import half_up

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table


UNBOUNDED = 10_000  # columns: pipes and files have no width at which to wrap
LEVELS = "▁▂▃▄▅▆▇█"
GAP = 2  # blanks between the columns of a table


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


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table; on a terminal that is too narrow for it, one block of lines for each row. No word is split.

    columns: titles; ">" before a title aligns its column to the right.
    rows: one text per column.
    caption: text below the table.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str | None = None

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        """Yield the table, or the blocks."""
        if widths := self._widths(options.max_width):
            yield self._table(widths)
            return
        names = [title.removeprefix(">") for title in self.columns]
        for place, row in enumerate(self.rows):
            yield from ([""] if place else [])
            yield sheet(dict(zip(names, row, strict=True)))
        yield from ["", self.caption] if self.caption else []

    def _widths(self, available: int) -> list[int]:
        """Return the widths of the columns, the widest texts wrapped as needed; none if that would split a word."""
        from rich.cells import cell_len

        least, widths = [], []
        for title, *cells in zip(self.columns, *self.rows, strict=True):
            texts = [title.removeprefix(">"), *cells]
            words = [word for text in texts for word in text.split()]
            kept = cells if title.startswith(">") else []  # numbers stay on their line
            least.append(max(map(cell_len, [*words, *kept]), default=0))
            widths.append(max(map(cell_len, texts)))
        excess = sum(widths) + GAP * (len(widths) - 1) - available
        while excess > 0:
            widest = max(range(len(widths)), key=lambda place: (widths[place] > least[place], widths[place]))
            if widths[widest] == least[widest]:
                return []
            widths[widest] -= 1
            excess -= 1
        return widths

    def _table(self, widths: list[int]) -> "Table":
        from rich import box
        from rich.table import Table

        made = Table(box=box.SIMPLE_HEAD, header_style="bold", caption=self.caption, caption_justify="left")
        made.pad_edge, made.show_edge, made.collapse_padding = False, False, True
        for title, width in zip(self.columns, widths, strict=True):
            side: Literal["left", "right"] = "right" if title.startswith(">") else "left"
            made.add_column(title.removeprefix(">"), justify=side, width=width)
        for row in self.rows:
            made.add_row(*row)
        return made


def table(columns: str, rows: Iterable[Iterable[str]], *, caption: str | None = None) -> TextTable:
    """Return a table.

    Args:
        columns: titles, separated by two blanks; ">" before a title aligns its column to the right, and "?" after it
            leaves the column out if each of its texts is "-".
        rows: one text per column.
        caption: text below the table.
    """
    titles, texts = columns.split("  "), [tuple(row) for row in rows]
    shown = [not title.endswith("?") or any(row[place] != "-" for row in texts) for place, title in enumerate(titles)]
    kept = (tuple(compress(row, shown)) for row in [[title.removesuffix("?") for title in titles], *texts])
    return TextTable(next(kept), tuple(kept), caption)


@dataclass(frozen=True, slots=True)
class Sheet:
    """Names and values, one pair per line; on a narrow terminal, a value with a long word goes below its name."""

    rows: Mapping[str, str]

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        """Yield the lines."""
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        indent = max(map(len, self.rows), default=0) + 2
        for name, value in self.rows.items():
            if any(len(word) > options.max_width - indent for word in value.split()):
                yield Text(name, style="dim")
                yield Padding(Text(value, overflow="fold"), (0, 0, 0, 2), expand=False)
            else:
                line = Table.grid(padding=(0, 2, 0, 0))
                line.add_column(style="dim", no_wrap=True, min_width=indent - 2)
                line.add_row(name, value)
                yield line


def sheet(rows: Mapping[str, str]) -> Sheet:
    """Return names and values, one pair per line."""
    return Sheet(rows)


def number(value: float | None, digits: int = 3) -> str:
    """Format a number with fixed decimals; "-" for None."""
    return "-" if value is None else half_up(value, digits)


def count(value: float | None) -> str:
    """Format a count with thousands separators, and two decimals unless it is whole; "-" for None."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def short(value: float | None) -> str:
    """Format a number of any size with three digits, such as "0.0512", "914" or "5.53M"; "-" for None."""
    if value is None:
        return "-"
    size, unit = next(((size, unit) for size, unit in UNITS if abs(value) >= size), (1.0, ""))
    return f"{float(f'{value / size:.3g}'):g}{unit}"


def percent(value: float | None) -> str:
    """Format a share as a whole percentage; "-" for None."""
    return "-" if value is None else f"{value:.0%}"


def counted(value: float, noun: str) -> str:
    """Format a count with its noun, such as "1 outcome" or "2.50 rollouts"."""
    return f"{count(value)} {noun}" + ("" if value == 1 else "s")


def task_count(value: int) -> str:
    """Format a number of tasks, such as "1 task" or "1,200 tasks"."""
    return counted(value, "task")


def shortened(name: str, width: int) -> str:
    """Return a name, or its end where it is too long: what tells names apart is mostly at their end."""
    return name if len(name) <= width else f"…{name[len(name) - width + 1 :]}"


def sparkline(ratios: Iterable[float | None]) -> str:
    """Return one character for each ratio in [0, 1], the higher the larger; a blank for None."""
    return "".join(" " if ratio is None else LEVELS[min(int(ratio * len(LEVELS)), len(LEVELS) - 1)] for ratio in ratios)


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
