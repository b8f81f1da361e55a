"""The `bots` command: all its subcommands in one Typer application."""

from typing import Annotated

import typer

from bots_service import __version__
from bots_service.cli import datasets, runs, service
from bots_service.cli.connection import command
from bots_service.cli.demo import demo
from bots_service.cli.output import OneLineGroup

app = typer.Typer(
    name="bots",
    help="Select the RL tasks that a model can learn from right now. "
    "BOTS_URL is the service's address, BOTS_API_KEY your API key.",
    cls=OneLineGroup,
    invoke_without_command=True,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def bots(*, version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False) -> None:
    """Print the version if --version is given."""
    if version:
        typer.echo(f"bots {__version__}")
        raise typer.Exit


app.command()(service.serve)
app.command()(demo)
app.add_typer(datasets.app, name="datasets")
app.add_typer(runs.app, name="runs")
for function in (runs.select, runs.report, runs.tasks, runs.history, runs.rewind, runs.export):
    command(app)(function)
command(app, "import")(runs.import_)
app.add_typer(service.keys, name="keys")
command(app)(service.whoami)
app.command()(service.migrate)
app.command()(service.doctor)
