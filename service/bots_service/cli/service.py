"""`bots serve`, `bots migrate`, `bots version`: start the service, migrate its database, show versions."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bots_service.cli.connection import AsJson, Url, connected
from bots_service.cli.failures import CommandError
from bots_service.cli.output import sheet, show

if TYPE_CHECKING:
    from bots_service.settings import Settings

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        help="sqlite:///PATH or postgresql://...; default: BOTS_DATABASE_URL, then a file in ./data. "
        "Put a password into the variable: other users of this machine can see options.",
    ),
]


def serve(
    *,
    host: Annotated[str | None, typer.Option(help="Address to listen on.", show_default="127.0.0.1")] = None,
    port: Annotated[int | None, typer.Option(help="Port; 0 picks a free one.", show_default="8000")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Folder of the database file, if no database URL is set.", show_default="data")
    ] = None,
    database_url: DatabaseUrl = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Number of processes; more than one needs PostgreSQL and Redis (BOTS_REDIS_URL).", show_default="1"
        ),
    ] = None,
    insecure: Annotated[
        bool | None, typer.Option("--insecure", help="Allow other machines to connect although there are no API keys.")
    ] = None,
    log_format: Annotated[
        Literal["console", "json"] | None, typer.Option(help="Log format.", show_default="console")
    ] = None,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"] | None,
        typer.Option(help="Minimum log level.", show_default="info"),
    ] = None,
) -> None:
    """Start the service.

    Options that you omit come from the environment: BOTS_HOST, BOTS_PORT, BOTS_DATA_DIR and so on.
    """
    settings = settings_with(
        host=host,
        port=port,
        data_dir=data_dir,
        database_url=database_url,
        workers=workers,
        insecure=insecure,
        log_format=log_format,
        log_level=log_level,
    )
    database_file(settings)
    from bots_service.serving import serve as serve_with

    serve_with(settings)


def migrate(
    database_url: DatabaseUrl = None,
    check: Annotated[bool, typer.Option("--check", help="Fail if a migration is pending; change nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Migrate the database to the newest revision."""
    settings = settings_with(database_url=database_url)
    file = database_file(settings)
    from bots_service.storage.sql.migrate import current, head, is_new_enough, upgrade

    if check:
        before = None if file is not None and not file.exists() else current(settings.sql_url)
        newest = head()
    else:
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
        before, newest = upgrade(settings.sql_url)
    found = {"before": before, "newest": newest, "changed": before != newest and not check}
    if check and not is_new_enough(before):
        raise CommandError(f"the tables are at revision {before or 'none'}, not {newest}; run `bots migrate`")
    line = f"migrated from {before or 'nothing'} to {newest}" if found["changed"] else f"up to date: {before}"
    show(found, lambda: line, as_json=as_json)


def version(url: Url = None, as_json: AsJson = False) -> None:
    """Show the versions of this program and of the service."""
    from bots_client import UnreachableError, __version__

    service, address = None, None
    try:
        with connected(url, attempts=1) as client:
            address = client.url
            service = client.version()
    except (CommandError, UnreachableError):
        pass
    found = {"client": __version__, "url": address, "service": service}
    rows = {"this program": __version__}
    if service is None:
        rows["the service"] = f"no answer at {address}"
    else:
        rows["the service"] = f"{service.version} at {address}"
        rows["runs on"] = f"Python {service.python}, numpy {service.numpy}"
        rows["tables"] = f"revision {service.schema}"
    show(found, lambda: sheet(rows), as_json=as_json)


def database_file(settings: "Settings") -> Path | None:
    """Return the file of an SQLite database; None for a database server."""
    from bots_service.errors import StorageUnavailableError
    from bots_service.storage.sql.url import sql_url

    try:
        url = sql_url(settings.sql_url)
    except StorageUnavailableError as error:
        raise typer.BadParameter(str(error), param_hint="the database's URL") from error
    if url.get_backend_name() != "sqlite":
        return None
    if not url.database:
        raise typer.BadParameter("sqlite:/// needs the path of a file after it", param_hint="the database's URL")
    return Path(url.database)


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
