"""Every failure as one line on stderr, with what to do about it, and an exit code: 2 for usage, 1 for all else."""

import os
import sys
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

FLAWS_SHOWN = 3
INTERRUPTED = 130  # what shells expect after Ctrl-C
HINTS = {
    "unknown-dataset": "`bots datasets list` shows those there are",
    "unknown-run": "`bots runs list DATASET` shows those there are",
    "unknown-step": "`bots history DATASET` shows those there are",
    "task-exists": "leave out the tasks that are there already",
    "run-has-history": "`bots runs set` changes the settings of a run with history",
    "stale-epoch": "select again",
    "unknown-api-key": "`bots keys list` shows those there are",
    "stranger": "is that the service? --url and BOTS_URL say where it is",
}
KEY_HINTS = {
    401: "set BOTS_API_KEY to a key that the service knows",
    403: "set BOTS_API_KEY to a key that may, or ask who made this one",
}


class CommandError(Exception):
    """A command cannot do what it was asked; the message says why and what to do."""


class OneLineGroup(TyperGroup):
    """The commands, with every failure told in one line."""

    def main(self, *args: Any, **kwargs: Any) -> None:
        """Run a command and leave with its exit code."""
        kwargs |= {"standalone_mode": False, "prog_name": "bots"}
        sys.exit(exit_code_of(lambda: super(OneLineGroup, self).main(*args, **kwargs)))


def exit_code_of(command: Callable[[], Any]) -> int:
    """Run a command; return its exit code, once any failure is told."""
    try:
        return command() or 0
    except typer.TyperException as error:
        return tell(usage_line(error), error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except Exception as error:
        if os.environ.get("BOTS_TRACEBACK"):
            raise
        return tell(line_of(error), 1)


def tell(line: str, code: int) -> int:
    """Write the line and return the exit code."""
    sys.stderr.write(f"bots: {' '.join(line.split())}\n")
    return code


def usage_line(error: typer.TyperException) -> str:
    """Return what is wrong with the command's arguments, and where its help is."""
    context = getattr(error, "ctx", None)
    help_ = f' (see "{context.command_path} --help")' if context is not None else ""
    # Without a message the help itself was shown, as no command was named.
    said = error.format_message().replace("Value error, ", "") or "name a command"
    return said.rstrip(". ") + help_


def line_of(error: Exception) -> str:
    """Return what happened, and what to do."""
    from bots_client import BotsClientError
    from bots_service.demo.own_service import OwnServiceError
    from bots_service.errors import BotsError

    if isinstance(error, BotsClientError):
        return client_line(error)
    if isinstance(error, CommandError | BotsError | OwnServiceError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
    return f"{type(error).__name__}: {error}; this is a defect of `bots`: BOTS_TRACEBACK=1 shows where it is"


def client_line(error: Any) -> str:
    """Return what the service or the way to it had to say."""
    if error.status is None:
        return str(error)
    kind = error.type.rpartition(":")[2]
    said = error.detail or error.title
    if error.errors:
        flaws = [str(flaw).removeprefix("body.") for flaw in error.errors[:FLAWS_SHOWN]]
        more = len(error.errors) - len(flaws)
        said += ": " + "; ".join(flaws) + (f"; and {more} more" if more else "")
    if error.status >= 500:
        said = f"the service failed with status {error.status}: {said}" + (
            f" (its log tells more under request {error.request_id})" if error.request_id else ""
        )
    if not error.type.startswith("urn:bots:"):
        kind = "stranger"
    hint = KEY_HINTS.get(error.status) or HINTS.get(kind)
    return f"{said.rstrip('.')}; {hint}" if hint else said
