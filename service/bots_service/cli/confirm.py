"""Ask before something is lost."""

import sys

import typer

from bots_service.cli.failures import CommandError


def confirm(question: str, *, yes: bool) -> None:
    """Return if the answer is yes.

    Raises:
        CommandError: the answer is no.
        typer.BadParameter: there is nobody to ask.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise typer.BadParameter("there is no terminal to ask on; pass --yes", param_hint="--yes")
    if not typer.confirm(question, err=True):
        raise CommandError("nothing was deleted")
