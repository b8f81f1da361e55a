"""The command line, put together."""

from typing import Annotated

import typer

from bots_service import __version__
from bots_service.cli import backups, datasets, keys, runs, service, steps
from bots_service.cli import history as beliefs
from bots_service.cli import history as charts
from bots_service.cli.demo import demo
from bots_service.cli.doctor import doctor
from bots_service.cli.failures import OneLineGroup
from bots_service.cli.history import journal

app = typer.Typer(
    name="bots",
    help="Tells LLM reinforcement-finetuning jobs which tasks to train on next. "
    "BOTS_URL says where the service is, BOTS_API_KEY opens it.",
    cls=OneLineGroup,
    no_args_is_help=True,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def bots(
    *, version: Annotated[bool, typer.Option("--version", help="Show this program's version and leave.")] = False
) -> None:
    """Say the version where it is asked for; else the command that follows does its work."""
    if version:
        typer.echo(f"bots {__version__}")
        raise typer.Exit


app.command()(service.serve)
app.command()(demo)
app.add_typer(datasets.app, name="datasets")
app.add_typer(runs.app, name="runs")
app.command()(steps.select)
app.command()(steps.report)
app.command()(beliefs.tasks)
app.command()(beliefs.history)
app.command()(charts.curve)
app.command()(charts.calibration)
app.command()(journal)
app.command()(beliefs.rewind)
app.command()(beliefs.snapshot)
app.command()(backups.export)
app.command("import")(backups.import_)
app.command()(backups.prune)
app.add_typer(keys.app, name="keys")
app.command()(keys.whoami)
app.command()(service.migrate)
app.command()(doctor)
app.command()(service.version)
