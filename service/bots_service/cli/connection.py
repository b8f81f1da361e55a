"""Commands that speak to the service: their shared options, their connection, and what Tab completes from it."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import typer

from bots_service.cli.output import CommandError, Result, show

if TYPE_CHECKING:
    from bots_client import Client

COMPLETION_S = 3.0  # for a request: a person has pressed Tab and waits
MOST_NAMES = 1000  # looked through: a shell can't show more
ATTEMPTS = 3  # a person waits: a missing service is reported within half a second


def dataset_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of datasets that begin with the text."""
    return _beginning_with(incomplete, ctx, lambda client: (one.name for one in client.datasets()))


def run_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the names of runs of the command's dataset that begin with the text."""
    # Behind an option without its value yet, nothing was parsed; the dataset is every command's first argument.
    dataset = ctx.params.get("dataset") or next(iter(ctx.args), "")
    return _beginning_with(incomplete, ctx, lambda client: (one.run for one in client.runs(dataset, limit=MOST_NAMES)))


def _beginning_with(text: str, ctx: typer.Context, names_of: "Callable[[Client], Iterable[str]]") -> list[str]:
    from bots_client import BotsClientError, Client, Retries

    try:
        with Client(ctx.params.get("url"), retries=Retries(attempts=1), deadline_s=COMPLETION_S) as client:
            return [name for name in islice(names_of(client), MOST_NAMES) if name.startswith(text)]
    except (BotsClientError, ValueError):
        return []


Url = Annotated[
    str | None,
    typer.Option(
        "--url", envvar="BOTS_URL", help="Address of the service; default http://127.0.0.1:8000.", metavar="URL"
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Yes = Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")]
Dataset = Annotated[str, typer.Argument(help="Name of the dataset.", autocompletion=dataset_names)]
RunName = Annotated[str, typer.Option("--run", help="Name of the run.", metavar="NAME", autocompletion=run_names)]


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


Function = TypeVar("Function", bound="Callable[..., Result]")
KEYWORD = inspect.Parameter.KEYWORD_ONLY


def command(app: typer.Typer, name: str | None = None) -> Callable[[Function], Function]:
    """Add a function as a command that speaks to the service, with the options --url and --json.

    The function gets the connected client before its own arguments. It returns its result twice: as dataclasses and
    plain values, which --json prints, and as text for people.
    """

    def add(function: Function) -> Function:
        @wraps(function)
        def run(*, url: str | None, as_json: bool, **arguments: Any) -> None:
            with connected(url) as client:
                show(*function(client, **arguments), as_json=as_json)

        _, *parameters = inspect.signature(function).parameters.values()
        parameters.append(inspect.Parameter("url", KEYWORD, annotation=Url, default=None))
        parameters.append(inspect.Parameter("as_json", KEYWORD, annotation=AsJson, default=False))
        _give_typer_parameters(run, parameters)
        app.command(name)(run)
        return function

    return add


def parsed_by(parser: Callable[..., Any]) -> Callable[[Function], Function]:
    """Give a command the parser's parameters in place of its own last one, which is what the parser makes of them."""

    def replace(function: Function) -> Function:
        *own, last = inspect.signature(function).parameters.values()
        others = inspect.signature(parser).parameters

        @wraps(function)
        def run(client: "Client", **arguments: Any) -> Result:
            made = parser(**{name: arguments.pop(name) for name in others})
            return function(client, **arguments, **{last.name: made})

        _give_typer_parameters(run, [*own, *others.values()])
        return cast(Function, run)

    return replace


AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])


def with_options(options: Mapping[str, tuple[Any, str]]) -> Callable[[AnyFunction], AnyFunction]:
    """Give a function of any keyword arguments some options by name, each with its type and help; None: not given."""

    def give(function: AnyFunction) -> AnyFunction:
        annotations = {name: Annotated[kind | None, typer.Option(help=text)] for name, (kind, text) in options.items()}
        parameters = [inspect.Parameter(name, KEYWORD, default=None, annotation=annotations[name]) for name in options]
        _give_typer_parameters(function, parameters)
        return function

    return give


def _give_typer_parameters(function: Callable[..., Any], parameters: Iterable[inspect.Parameter]) -> None:
    """Let typer see these parameters in place of a function's own."""
    seen = [parameter.replace(kind=KEYWORD) for parameter in parameters]
    function.__signature__ = inspect.Signature(seen)  # type: ignore[attr-defined]  # inspect and typer look there
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in seen}
