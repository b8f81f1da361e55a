"""The help of commands: it wraps at words at any width, and shows names and texts side by side where both fit."""

import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

WIDEST = 100  # columns: longer lines are hard to read
LEAST_TEXT = 20  # columns: narrower texts are hard to read, so they go below the names
DEFAULT = re.compile(r"default: \((.*?)\)(?=[;\]])")  # typer puts a default in words into parentheses
VALUES = {"str": "TEXT", "int": "N", "float": "NUMBER", "path": "FOLDER", "file": "FILE"}  # by typer's names of types


class WrappedCommand(TyperCommand):
    """A command with this help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - it is printed, as typer's own is
        """Print the help."""
        print_help(self, ctx)


class WrappedGroup(TyperGroup):
    """A group of commands with this help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - it is printed, as typer's own is
        """Print the help."""
        print_help(self, ctx)


class Commands(typer.Typer):
    """Commands with this help."""

    def __init__(self, *, cls: type[TyperGroup] = WrappedGroup, **options: Any) -> None:
        """Make an application of no commands yet; the options are those of typer."""
        super().__init__(cls=cls, no_args_is_help=True, **options)

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        """Return the decorator that adds a command."""
        return super().command(name, cls=WrappedCommand, **options)


Row = tuple["Text", str]  # a name, and the text about it


def print_help(command: TyperCommand | TyperGroup, ctx: Any) -> None:
    """Print the help of a command on stdout."""
    from rich.console import Console
    from rich.text import Text

    terminal = Console(markup=False, emoji=False, highlight=False)
    terminal.width = min(terminal.width, WIDEST)
    terminal.print(usage(command, ctx))
    for paragraph in paragraphs(command.help or ""):
        terminal.print("", paragraph, sep="\n")
    for title, rows in sections_of(command, ctx).items():
        if rows:
            terminal.print("", Text(title, style="bold"), sep="\n")
            terminal.print(listing(rows, terminal.width))


def usage(command: TyperCommand | TyperGroup, ctx: Any) -> "RenderableType":
    """Return how the command is called."""
    from rich.table import Table
    from rich.text import Text

    arguments = [param for param in command.get_params(ctx) if isinstance(param, TyperArgument)]
    pieces = [value_of(param) if param.required else f"[{value_of(param)}]" for param in arguments]
    pieces += ["COMMAND", "[ARGS]..."] if isinstance(command, TyperGroup) else []
    line = Table.grid(padding=(0, 1))
    line.add_row(Text("Usage:", style="yellow"), Text(" ".join([ctx.command_path, "[OPTIONS]", *pieces]), style="bold"))
    return line


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs of a docstring, each in one line."""
    return [" ".join(paragraph.split()) for paragraph in inspect.cleandoc(text).split("\n\n")]


def sections_of(command: TyperCommand | TyperGroup, ctx: Any) -> dict[str, list[Row]]:
    """Return arguments, options and subcommands as rows by the title of their section."""
    from rich.text import Text

    sections: dict[str, list[Row]] = {"Arguments": [], "Options": [], "Commands": []}
    for param in command.get_params(ctx):
        if isinstance(param, TyperArgument):
            sections["Arguments"].append((Text(value_of(param), style="cyan"), text_of(param, ctx)))
        elif isinstance(param, TyperOption) and not param.hidden:
            sections["Options"].append((option_name(param, ctx), text_of(param, ctx)))
    if isinstance(command, TyperGroup):
        for name, each in command.commands.items():
            sections["Commands"].append((Text(name, style="bold cyan"), paragraphs(each.help or "")[0]))
    return sections


def option_name(option: TyperOption, ctx: Any) -> "Text":
    """Return how an option is written: "-o, --output FILE", "--close / --keep-open"."""
    from rich.text import Text

    name = Text(", ".join(sorted(option.opts, key=len)), style="bold cyan")
    if option.secondary_opts:
        name.append(f" / {', '.join(option.secondary_opts)}")
    return name if option.is_flag else name.append(f" {value_of(option, ctx)}", style="yellow")


def value_of(param: TyperArgument | TyperOption, ctx: Any = None) -> str:
    """Return what stands for a value, such as DATASET or NUMBER."""
    if param.metavar is not None:
        return param.metavar
    if isinstance(param, TyperArgument):
        return f"{param.name.upper()}{'...' * (param.nargs != 1)}"
    typed = type_of(param, ctx)
    return "NAME" if "|" in typed else VALUES[typed.removesuffix(" range")]


def type_of(param: TyperArgument | TyperOption, ctx: Any) -> str:
    """Return typer's name of a parameter's type: "str", "int range" or "pass|thompson"."""
    return str(param.display_type(ctx)).strip("<>").removeprefix("list[").removesuffix("]")


def text_of(param: TyperArgument | TyperOption, ctx: Any) -> str:
    """Return the text about a parameter, with its choices, its default, its range."""
    _, text = param.get_help_record(ctx) or ("", "")
    about, more = param.help or "", text.removeprefix(param.help or "").strip()
    typed = type_of(param, ctx)
    choices = f"One of {', '.join(typed.split('|'))}." if "|" in typed and param.metavar is None else ""
    return " ".join(part for part in (about, choices, DEFAULT.sub(r"default: \1", more)) if part)


def listing(rows: list[Row], width: int) -> "RenderableType":
    """Return names and texts side by side, or each text below its name where the longest word would be split."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table

    left = width - 4 - max(name.cell_len for name, _ in rows)
    if left >= max(LEAST_TEXT, *(len(word) for _, text in rows for word in text.split())):
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        for name, text in rows:
            table.add_row(name, text)
        return Padding(table, (0, 0, 0, 2))
    return Group(*(Group(Padding(name, (0, 0, 0, 2)), Padding(text, (0, 0, 0, 6))) for name, text in rows))
