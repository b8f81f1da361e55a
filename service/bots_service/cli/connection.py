"""The connection to the service, and the options that all commands share."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from bots_service.cli.failures import CommandError

if TYPE_CHECKING:
    from bots_client import Client

Url = Annotated[
    str | None,
    typer.Option(
        "--url", envvar="BOTS_URL", help="Address of the service; default http://127.0.0.1:8000.", show_default=False
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Dataset = Annotated[str, typer.Argument(help="Name of the dataset.", show_default=False)]
RunName = Annotated[str, typer.Option("--run", help="Name of the run.")]

ATTEMPTS = 3  # a person waits: a missing service is reported within half a second


@contextmanager
def connected(url: str | None, *, attempts: int = ATTEMPTS) -> Iterator["Client"]:
    """Connect to the service; the API key comes from BOTS_API_KEY."""
    import httpx

    from bots_client import Client, Retries, UnreachableError

    try:
        client = Client(url, retries=Retries(attempts=attempts))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--url or BOTS_API_KEY") from error
    with client:
        try:
            yield client
        except UnreachableError as error:
            if not isinstance(error.__cause__, httpx.ConnectError):
                raise
            problem = f"no BOTS service at {client.url} ({error.__cause__})"
            raise CommandError(f"{problem}; start one with `bots serve`, or pass its address with --url") from error
