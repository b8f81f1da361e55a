"""`bots serve`, `migrate`, `doctor`: the service itself; `bots keys`, `whoami`: who may do what there."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bots_service.cli.connection import AsJson, Url, command, connected
from bots_service.cli.output import CommandError, Result, client_message, counted, details, sheet, show, table
from bots_service.keys import Scope
from bots_service.retention import DAY_S

if TYPE_CHECKING:
    from bots_client import Client, Version
    from bots_service.doctor import Finding
    from bots_service.settings import Settings

DATABASE = (
    "sqlite:///PATH or postgresql://...; default: BOTS_DATABASE_URL, then a file in ./data. "
    "Put a password into the variable: other users of this machine can see options."
)


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on; default 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="Port, 8765 by default; 0 picks a free one.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the database file; default ./data.")] = None,
    database_url: Annotated[str | None, typer.Option(help=DATABASE)] = None,
    insecure: Annotated[bool | None, typer.Option(help="Let others connect although there are no API keys.")] = None,
    log_format: Annotated[Literal["console", "json"] | None, typer.Option(help="Default console.")] = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None, typer.Option(help="Minimum log level; default info.")
    ] = None,
) -> None:
    """Start the service.

    Options that you omit come from the environment: BOTS_HOST, BOTS_PORT, BOTS_DATA_DIR and so on.
    """
    settings = settings_with(**locals())
    from bots_service.serving.server import serve as serve_with

    serve_with(settings)


def migrate(database_url: Annotated[str | None, typer.Option(help=DATABASE)] = None, as_json: AsJson = False) -> None:
    """Migrate the database to the newest revision."""
    url = settings_with(database_url=database_url).sql_url
    from bots_service.storage.sql.migrate import upgrade

    before, newest = upgrade(url)
    line = f"migrated from {before or 'nothing'} to {newest}" if before != newest else f"up to date: {before}"
    show({"before": before, "newest": newest, "changed": before != newest}, line, as_json=as_json)


def doctor(url: Url = None, as_json: AsJson = False) -> None:
    """Check the configuration and suggest fixes; exit code 1 if there is a problem.

    Checks the settings (BOTS_...), the database and Redis; with --url or BOTS_URL also the service.
    It changes nothing. Run it where the service runs, with the same environment and as the same user.
    """
    settings = settings_with()
    from rich.console import Group

    from bots_service.doctor import examine

    findings = [*examine(settings), *(_service_findings(url) if url else ())]
    problems, warnings = (sum(each.grade == grade for each in findings) for grade in ("problem", "warning"))
    lines = sheet((one.grade, "; ".join(filter(None, (f"{one.about}: {one.said}", one.advice)))) for one in findings)
    found = Group(lines, f"{counted(problems, 'problem')}, {counted(warnings, 'warning')}")
    show({"problems": problems, "warnings": warnings, "checks": findings}, found, as_json=as_json)
    if problems:
        raise typer.Exit(1)


def _service_findings(url: str) -> "Iterator[Finding]":
    from bots_client import BotsClientError
    from bots_service.doctor import judge

    try:
        with connected(url) as client:
            yield version_finding(client.version(), where=client.url)
            is_ready = client.is_ready()
    except CommandError as error:
        yield judge("service", str(error), problem=True)
    except BotsClientError as error:
        is_locked = error.status in (401, 403)  # the key is wrong; the service may be fine
        advice = "" if is_locked else "check the address in --url or BOTS_URL: is it a BOTS service?"
        yield judge("service", client_message(error), advice, problem=not is_locked, warning=is_locked)
    else:
        said, advice = "ready" if is_ready else "not ready", f"{client.url}/readyz says why; see docs/operations.md"
        yield judge("service readiness", said, advice, problem=not is_ready)


def version_finding(theirs: "Version", *, where: str) -> "Finding":
    """Return how the versions of a running service differ from those of this program."""
    import numpy as np

    from bots_service import __version__
    from bots_service.doctor import judge
    from bots_service.storage.sql.migrate import head

    said = f"version {theirs.version} with tables {theirs.schema} and numpy {theirs.numpy} at {where}"
    is_same = (theirs.version, theirs.schema, theirs.numpy) == (__version__, head(), np.__version__)
    advice = f"here {__version__} with {head()} and numpy {np.__version__}; run the same everywhere"
    return judge("service", said, advice, warning=not is_same)


def settings_with(**given: Any) -> "Settings":
    """Return the environment's settings, overridden by the given values that are not None."""
    from pydantic import ValidationError

    from bots_service.settings import Settings

    try:
        return Settings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        where = f"--{name.replace('_', '-')}" if given.get(name) is not None else f"BOTS_{name.upper()}"
        raise typer.BadParameter(first["msg"], param_hint=where) from error


# --- keys -------------------------------------------------------------------------------------------------------------

keys = typer.Typer(no_args_is_help=True, help="Create, list and revoke API keys.")


@command(keys)
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
    days: Annotated[float | None, typer.Option(help="Lifetime in days.", show_default="unlimited")] = None,
) -> Result:
    """Create an API key and show it once; the service stores only its digest."""
    from rich.console import Group

    made = client.create_key(name, scopes=scope, datasets=dataset, expires_in_s=None if days is None else days * DAY_S)
    if made.key is None:
        said = "the key was created, but the response was lost"
        raise CommandError(f"{said}; run `bots keys revoke {made.id}` and create another")
    return made, Group(details(made), "the key is not shown again")


@command(keys, "list")
def list_(client: "Client") -> Result:
    """List the API keys, oldest first, without their secrets."""
    found = sorted(client.keys(), key=lambda one: (one.created_at, one.id))
    nothing = "no keys yet: anyone who reaches the service may do everything"
    columns = "id  name  scopes  datasets  created_at  expires_at  revoked_at"
    return {"keys": found}, table(columns, found, nothing=nothing)


@command(keys)
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
