"""What commands say: one JSON document, or text for people; how far long work is; and failures, in one line on stderr.

A failure's line says what to do. The exit code is 2 for wrong usage, 1 for everything else.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, fields, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from bots_service.core.rounding import half_up
from bots_service.errors import BotsError, not_a_choice

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
    return value.isoformat() if isinstance(value, datetime) else asdict(value)


def table(columns: str, rows: Iterable[object], *, caption: str = "", nothing: str = "") -> "RenderableType":
    """Return a table of dataclasses or dicts; on a terminal too narrow for it, one block of lines for each row.

    columns: separated by two blanks: fields of the rows, such as "gain.factor", or titled ones, "vs uniform=...". One
    whose values are all empty or 0 is left out; numbers are aligned to the right. caption: text below the table.
    nothing: text in place of a table without rows.
    """
    from rich import box
    from rich.console import Group
    from rich.table import Table

    rows = list(rows)
    if nothing and not rows:
        return nothing
    made = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False, collapse_padding=True)
    texts = dict[str, list[str]]()
    for title, _, path in (column.rpartition("=") for column in columns.split("  ")):
        values = [_value_at(row, path) for row in rows]
        if not any(values):
            continue
        name = title or path.replace("_", " ")
        texts[name] = [written(value) for value in values]
        has_numbers = any(isinstance(value, int | float) for value in values)
        made.add_column(name, justify="right" if has_numbers else "left", no_wrap=True)
    for row in zip(*texts.values(), strict=True):
        made.add_row(*row)
    screen = console()
    parts: list[RenderableType] = [made]
    if screen.measure(made, options=screen.options.update(width=UNBOUNDED)).maximum > screen.width:
        names = [name.replace("\n", " ") for name in texts]
        parts = [Group("", sheet(zip(names, row, strict=True))) for row in zip(*texts.values(), strict=True)]
    return Group(*parts, *(["", caption] if caption else []))


def _value_at(row: Any, path: str) -> Any:
    for name in path.split("."):
        if row is not None:
            row = row[name] if isinstance(row, dict) else getattr(row, name)
    return row


def details(answer: Any) -> "Table":
    """Return the fields of a dataclass, without empty ones; what is nested stands below its name."""
    return sheet(_lines_of(answer))


def _lines_of(answer: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(answer, Mapping):
        answer = {one.name.replace("_", " "): getattr(answer, one.name) for one in fields(answer)}
    for name, value in answer.items():
        if is_dataclass(value) or (value and isinstance(value, Mapping)):
            yield name, ""
            yield from ((f"  {inner}", text) for inner, text in _lines_of(value))
        elif value not in (None, "", (), {}):
            yield name, written(value)


def written(value: Any) -> str:
    """Return a value as text for people; "-" for None or nothing."""
    if value is None or value in ("", (), {}):
        return "-"
    if isinstance(value, datetime):
        return value.astimezone().strftime("%Y-%m-%d %H:%M:%S")  # in the local zone
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return half_up(value, 4) if isinstance(value, float) and not value.is_integer() else f"{value:,.0f}"
    if is_dataclass(value) or isinstance(value, Mapping):
        return " ".join(f"{name} {text}" for name, text in _lines_of(value))
    return ", ".join(map(written, value)) if isinstance(value, list | tuple) else str(value)


def sheet(rows: Iterable[tuple[str, str]]) -> "Table":
    """Return names and values, one pair per line."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(name, value)
    return grid


def counted(value: int, noun: str) -> str:
    """Format a count with its noun, such as "1 task" or "2,000 rollouts"."""
    return f"{written(value)} {noun}" + ("" if value == 1 else "s")


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation unless `yes` is set; return only if it is given."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError("can't ask for confirmation without a terminal; pass --yes")
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


# --- failures ---------------------------------------------------------------------------------------------------------

_CHOICE = re.compile("'[^']*' is not one of .*")  # Typer's
INTERRUPTED = 130  # what shells expect after Ctrl-C
HINTS = {
    "unknown-dataset": "list the datasets with `bots datasets list`",
    "unknown-run": "list the runs with `bots runs list DATASET`",
    "unknown-step": "list the steps with `bots history DATASET`",
    "task-exists": "leave out the tasks that the dataset already has",
    "run-has-history": "change the settings of a run with history with `bots runs set`",
    "stale-epoch": "select again",
    "unknown-api-key": "list the keys with `bots keys list`",
}
NO_SERVICE_OF_OURS = "check the address in --url or BOTS_URL: is it a BOTS service?"
KEY_HINTS = {401: "set BOTS_API_KEY to a valid key", 403: "set BOTS_API_KEY to a key with this permission"}


class CommandError(BotsError):
    """A command failed; the message says why and what to do."""


class OneLineGroup(TyperGroup):
    """A group of commands that reports every failure in one line."""

    def main(self, *args: Any, **kwargs: Any) -> None:
        """Run a command and exit with its exit code."""
        kwargs |= {"standalone_mode": False, "prog_name": "bots"}
        try:
            code = super().main(*args, **kwargs) or 0
        except typer.TyperException as error:
            # There is no message if no command was named: then the help was printed.
            code = _print_error(_usage_message(error), error.exit_code) if error.format_message() else 0
        except (typer.Abort, KeyboardInterrupt):
            code = INTERRUPTED
        except Exception as error:
            if os.environ.get("BOTS_TRACEBACK"):
                raise
            code = _print_error(_message_of(error), 1)
        sys.exit(code)


def _print_error(message: str, code: int) -> int:
    sys.stderr.write(f"bots: {' '.join(message.split())}\n")
    return code


def _usage_message(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    help_ = f' (see "{context.command_path} --help")' if context is not None else ""
    message = error.format_message().replace("Value error, ", "")
    if choice := _CHOICE.search(message):
        value, *choices = re.findall("'([^']*)'", choice[0])
        message = message.replace(choice[0], not_a_choice(value, choices))
    return message.rstrip(". ") + help_


def _message_of(error: Exception) -> str:
    from bots_client import BotsClientError

    if isinstance(error, BotsClientError):
        return client_message(error)
    if isinstance(error, BotsError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
    return f"{type(error).__name__}: {error}; this is a bug in `bots`; set BOTS_TRACEBACK=1 to see the traceback"


def client_message(error: Any) -> str:
    """Return the message of an error of the client in one line, with a hint what to do."""
    hint = KEY_HINTS.get(error.status) or HINTS.get(error.type.rpartition(":")[2])
    if error.status is not None and not error.type.startswith("urn:bots:"):
        hint = NO_SERVICE_OF_OURS
    message = "; ".join(line.strip() for line in str(error).splitlines())
    return f"{message}; {hint}" if hint else message
