"""The `bots` command: all its subcommands in one Typer application."""

from typing import Annotated

import typer

from bots_service import __version__
from bots_service.cli import datasets, keys, runs, service, steps, transfer
from bots_service.cli.connection import command
from bots_service.cli.demo import demo
from bots_service.cli.failures import OneLineGroup

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
for function in (steps.select, steps.report, steps.tasks, steps.history, steps.rewind, steps.compare_beliefs):
    command(app)(function)
command(app)(transfer.export)
command(app, "import")(transfer.import_)
command(app)(transfer.prune)
app.add_typer(keys.app, name="keys")
command(app)(keys.whoami)
app.command()(service.migrate)
app.command()(service.doctor)
app.command()(service.version)
