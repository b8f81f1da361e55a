"""Failures: one line on stderr that says what to do, and an exit code: 2 for wrong usage, 1 for everything else."""

import os
import sys
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from bots_service.errors import BotsError

ERRORS_SHOWN = 3
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
        sys.exit(exit_code_of(lambda: super(OneLineGroup, self).main(*args, **kwargs)))


def exit_code_of(command: Callable[[], Any]) -> int:
    """Run a command, print its failure if there is one, and return the exit code."""
    try:
        return command() or 0
    except typer.TyperException as error:
        return print_error(usage_message(error), error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except Exception as error:
        if os.environ.get("BOTS_TRACEBACK"):
            raise
        return print_error(message_of(error), 1)


def print_error(message: str, code: int) -> int:
    """Print the message on one line of stderr, and return the exit code."""
    sys.stderr.write(f"bots: {' '.join(message.split())}\n")
    return code


def usage_message(error: typer.TyperException) -> str:
    """Return what is wrong with the arguments, and how to show the command's help."""
    context = getattr(error, "ctx", None)
    help_ = f' (see "{context.command_path} --help")' if context is not None else ""
    # There is no message if no command was named: then the help was printed.
    message = error.format_message().replace("Value error, ", "") or "name a command"
    return message.rstrip(". ") + help_


def message_of(error: Exception) -> str:
    """Return what happened, and what to do."""
    from bots_client import BotsClientError

    if isinstance(error, BotsClientError):
        return client_message(error)
    if isinstance(error, BotsError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
    return f"{type(error).__name__}: {error}; this is a bug in `bots`; set BOTS_TRACEBACK=1 to see the traceback"


def client_message(error: Any) -> str:
    """Return the message of an error of the client, with a hint what to do."""
    if error.status is None:
        return str(error)
    message = error.detail or error.title
    if error.errors:
        shown = [str(each).removeprefix("body.") for each in error.errors[:ERRORS_SHOWN]]
        more = len(error.errors) - len(shown)
        message += ": " + "; ".join(shown) + (f"; and {more} more" if more else "")
    if error.status >= 500:
        message = f"the service failed with status {error.status}: {message}" + (
            f" (see request {error.request_id} in its log)" if error.request_id else ""
        )
    hint = KEY_HINTS.get(error.status) or HINTS.get(error.type.rpartition(":")[2])
    if not error.type.startswith("urn:bots:"):
        hint = NO_SERVICE_OF_OURS
    return f"{message.rstrip('.')}; {hint}" if hint else message
