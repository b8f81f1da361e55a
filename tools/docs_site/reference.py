"""Reference pages made from the code: the client's docstrings, and the `--help` of every command."""

import subprocess
import sys

import bots_client

CLIENT = (
    ("Training jobs", ("ResilientClient", "Selector", "AsyncSelector", "TaskColumns", "Health")),
    ("Clients", ("Client", "Retries", "Listing")),
    ("What you send", ("Task", "Outcome", "GivenSettings")),
)
CLIENT_HEAD = """# Python client: reference

Made from the docstrings of `bots_client`. [The guide](README.md) shows how to use it.
"""


def client() -> str:
    """Return the page of everything that `bots_client` exports, as instructions for mkdocstrings."""
    named = [name for _, names in CLIENT for name in names]
    others = [name for name in bots_client.__all__ if name not in named and name != "__version__"]
    errors = [name for name in others if name.endswith("Error")]
    answers = [name for name in others if name not in errors]
    sections = [*CLIENT, ("What you get", answers), ("Errors", errors)]
    parts = [f"## {title}\n\n" + "".join(f"::: bots_client.{name}\n\n" for name in names) for title, names in sections]
    return "\n".join([CLIENT_HEAD, *parts])


def command_line() -> str:
    """Return the page of every command with its arguments and options, as typer writes it."""
    command = [sys.executable, "-m", "typer", "bots_service.cli.app", "utils", "docs", "--name", "bots"]
    titled = [*command, "--title", "Command line: reference"]
    return subprocess.run(titled, check=True, capture_output=True, text=True).stdout  # noqa: S603 - our own command
