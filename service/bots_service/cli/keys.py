"""`bots keys`, `bots whoami`: API keys and what they may do."""

import re
from typing import TYPE_CHECKING, Annotated

import typer

from bots_service.cli.connection import command
from bots_service.cli.failures import CommandError
from bots_service.cli.output import Result, details, table
from bots_service.keys import Scope

if TYPE_CHECKING:
    from bots_client import Client

app = typer.Typer(no_args_is_help=True, help="Create, list and revoke API keys.")


SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhd])")


def parse_duration(text: str) -> float:
    """Return a duration such as 30d or 12h in seconds. Raises typer.BadParameter: the text is not a duration."""
    found = DURATION.fullmatch(text)
    if found is None or float(found[1]) == 0:
        raise typer.BadParameter(f"{text!r} is not a duration; write, for example, 30d, 12h, 15m or 90s")
    return float(found[1]) * SECONDS[found[2]]


@command(app)
def create(
    client: "Client",
    name: Annotated[str, typer.Argument(help="Name of the key.")],
    scope: Annotated[list[Scope], typer.Option("--scope", help="Scope of the key; may be repeated.")],
    dataset: Annotated[
        list[str],
        typer.Option(
            "--dataset",
            help="Datasets it gives access to, such as guru-*, or runs, such as guru/alice-*; may be repeated.",
            metavar="PATTERN",
        ),
    ],
    expires_in: Annotated[
        float | None,
        typer.Option(help="Lifetime, such as 30d or 12h.", parser=parse_duration, metavar="TIME", show_default="never"),
    ] = None,
) -> Result:
    """Create an API key and show it once; the service stores only its digest."""
    made = client.create_key(name, scopes=scope, datasets=dataset, expires_in_s=expires_in)
    from rich.console import Group

    if made.key is None:
        raise CommandError(
            f"the key was created, but the response was lost; run `bots keys revoke {made.id}` and create another"
        )
    return made, Group(details(made), "the key is not shown again")


@command(app, "list")
def list_(client: "Client") -> Result:
    """List the API keys, oldest first, without their secrets."""
    found = sorted(client.keys(), key=lambda one: (one.created_at, one.id))
    nothing = "no keys yet: anyone who reaches the service may do everything"
    return {"keys": found}, table(
        "id  name  scopes  datasets  created_at  expires_at  revoked_at", found
    ) if found else nothing


@command(app)
def revoke(
    client: "Client", key_id: Annotated[str, typer.Argument(metavar="ID", help="Key ID, as shown by `bots keys list`.")]
) -> Result:
    """Revoke an API key; it stops working within 5 seconds."""
    client.revoke_key(key_id)
    return {"revoked": key_id}, f"key {key_id} is revoked"


def whoami(client: "Client") -> Result:
    """Show the name, scopes and datasets of the key in BOTS_API_KEY."""
    found = client.whoami()
    if not found.guarded:
        return found, "the service has no keys: anyone who reaches it may do everything"
    return found, details(found)
