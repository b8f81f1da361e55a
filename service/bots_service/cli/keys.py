"""`bots keys`, `bots whoami`: API keys and what they may do."""

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from bots_service.cli.connection import AsJson, Url, connected
from bots_service.cli.failures import CommandError
from bots_service.cli.output import moment, sheet, show, table

if TYPE_CHECKING:
    from bots_client import ApiKey

app = typer.Typer(no_args_is_help=True, help="Create, list and revoke API keys.")


class KeyScope(StrEnum):
    """What a key may do; the same values as in `ports.keys`, whose import would load numpy."""

    READ = "read"
    SELECT = "select"
    REPORT = "report"
    ADMIN = "admin"


SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhd])")


def parse_duration(text: str) -> float:
    """Return a duration such as 30d or 12h in seconds.

    Raises:
        typer.BadParameter: the text is not a duration.
    """
    found = DURATION.fullmatch(text)
    if found is None or float(found[1]) == 0:
        raise typer.BadParameter(f"{text!r} is not a duration; write, for example, 30d, 12h, 15m or 90s")
    return float(found[1]) * SECONDS[found[2]]


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Name of the key.", show_default=False)],
    scope: Annotated[
        list[KeyScope],
        typer.Option("--scope", help="Scope of the key; may be repeated.", show_default=False),
    ],
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
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Create an API key and show it once; the service stores only its digest."""
    with connected(url) as client:
        made = client.create_key(name, scopes=scope, datasets=dataset, expires_in_s=expires_in)
    if made.key is None:
        raise CommandError(
            f"the key was created, but the response was lost; run `bots keys revoke {made.id}` and create another"
        )
    show(made, lambda: sheet({"key": made.key or "", "": "not shown again", **described(made)}), as_json=as_json)


@app.command("list")
def list_(url: Url = None, as_json: AsJson = False) -> None:
    """List the API keys, oldest first, without their secrets."""
    with connected(url) as client:
        found = sorted(client.keys(), key=lambda one: (one.created_at, one.id))
    rows = (described(one).values() for one in found)
    nothing = "no keys yet: anyone who reaches the service may do everything"
    show(
        {"keys": found},
        lambda: table("id  name  scopes  datasets  created  state", rows) if found else nothing,
        as_json=as_json,
    )


@app.command()
def revoke(
    id_: Annotated[str, typer.Argument(metavar="ID", help="Key ID, as shown by `bots keys list`.", show_default=False)],
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Revoke an API key; it stops working within 5 seconds."""
    with connected(url) as client:
        client.revoke_key(id_)
    show({"revoked": id_}, lambda: f"key {id_} is revoked", as_json=as_json)


def whoami(url: Url = None, as_json: AsJson = False) -> None:
    """Show the name, scopes and datasets of the key in BOTS_API_KEY."""
    with connected(url) as client:
        found = client.whoami()
    rows = {
        "name": found.name or "-",
        "scopes": ", ".join(found.scopes),
        "datasets": ", ".join(found.datasets),
        "valid until": moment(found.expires_at),
    }
    nothing = "the service has no keys: anyone who reaches it may do everything"
    show(found, lambda: sheet(rows) if found.guarded else nothing, as_json=as_json)


def described(key: "ApiKey") -> dict[str, str]:
    """Return a key's fields as labelled text."""
    return {
        "id": key.id,
        "name": key.name,
        "scopes": ", ".join(key.scopes),
        "datasets": ", ".join(key.datasets),
        "created": moment(key.created_at),
        "state": state_of(key, datetime.now(UTC)),
    }


def state_of(key: "ApiKey", now: datetime) -> str:
    """Return whether a key is valid, and until when."""
    if key.revoked_at is not None:
        return f"revoked {moment(key.revoked_at)}"
    if key.expires_at is None:
        return "valid"
    return f"{'valid until' if key.expires_at > now else 'expired'} {moment(key.expires_at)}"
