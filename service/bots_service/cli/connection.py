"""Commands that speak to the service: their shared options, and their connection."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from bots_service.cli.output import CommandError, Result, client_message, show
from bots_service.errors import meant

if TYPE_CHECKING:
    from bots_client import Client

ATTEMPTS = 3  # a person waits: a missing service is reported within half a second
LOOKED_AT = 1000  # names that one that is missing is compared with

Url = Annotated[
    str | None,
    typer.Option(
        "--url", envvar="BOTS_URL", help="Address of the service; default http://127.0.0.1:8765.", metavar="URL"
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Yes = Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")]
Dataset = Annotated[str, typer.Argument(help="Name of the dataset.")]
RunName = Annotated[str, typer.Option("--run", help="Name of the run.", metavar="NAME")]


@contextmanager
def connected(url: str | None) -> Iterator["Client"]:
    """Connect to the service; the API key comes from BOTS_API_KEY."""
    import httpx

    from bots_client import Client, Retries, UnreachableError

    try:
        client = Client(url, retries=Retries(attempts=ATTEMPTS))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    with client:
        try:
            yield client
        except UnreachableError as error:
            if not isinstance(error.__cause__, httpx.ConnectError):
                raise
            problem = f"no BOTS service at {client.url} ({error.__cause__})"
            raise CommandError(f"{problem}; start one with `bots serve`, or pass its address with --url") from error


@contextmanager
def _similar_names(client: "Client", dataset: str = "", run: str = "", **_: Any) -> Iterator[None]:
    """Where the block finds no dataset or run of this name, ask for the nearest one."""
    from bots_client import BotsClientError, NotFoundError

    try:
        yield
    except NotFoundError as error:
        similar = ""
        with suppress(BotsClientError):  # the key may not list names
            if error.type.endswith(":unknown-dataset"):
                similar = meant(dataset, (one.name for one in client.datasets(limit=LOOKED_AT)))
            elif error.type.endswith(":unknown-run"):
                similar = meant(run, (one.run for one in client.runs(dataset, limit=LOOKED_AT)))
        raise CommandError(client_message(error) + similar) from error


Function = TypeVar("Function", bound="Callable[..., Result]")
KEYWORD = inspect.Parameter.KEYWORD_ONLY


def command(
    app: typer.Typer, name: str | None = None, *, parser: Callable[..., Any] | None = None
) -> Callable[[Function], Function]:
    """Add a function as a command that speaks to the service, with the options --url and --json.

    The function gets the connected client before its own arguments. It returns its result twice: as dataclasses and
    plain values, which --json prints, and as text for people.

    parser: its parameters are the command's, in place of the function's last one, which is what it makes of them.
    """

    def add(function: Function) -> Function:
        _, *parameters = inspect.signature(function).parameters.values()
        parsed = inspect.signature(parser).parameters if parser else {}
        made = parameters.pop().name if parser else ""

        @wraps(function)
        def run(*, url: str | None, as_json: bool, **arguments: Any) -> None:
            if parser:
                arguments[made] = parser(**{each: arguments.pop(each) for each in parsed})
            with connected(url) as client, _similar_names(client, **arguments):
                show(*function(client, **arguments), as_json=as_json)

        parameters += parsed.values()
        parameters.append(inspect.Parameter("url", KEYWORD, annotation=Url, default=None))
        parameters.append(inspect.Parameter("as_json", KEYWORD, annotation=AsJson, default=False))
        seen = [parameter.replace(kind=KEYWORD) for parameter in parameters]
        run.__signature__ = inspect.Signature(seen)  # type: ignore[attr-defined]  # typer looks there
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in seen}
        app.command(name)(run)
        return function

    return add
