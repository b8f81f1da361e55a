"""`bots runs`: beliefs about a dataset, each for one model in training."""

from typing import TYPE_CHECKING, Annotated

import typer

from bots_service.cli.confirm import confirm
from bots_service.cli.connection import AsJson, Dataset, Url, connected
from bots_service.cli.output import count, moment, number, plain, sheet, show, table, tasks_told
from bots_service.cli.settings_options import Settings, with_settings

if TYPE_CHECKING:
    from bots_client import Run

app = typer.Typer(help="Make, list, change and delete runs.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="Name of the run.")]


@app.command("list")
def list_(dataset: Dataset, url: Url = None, as_json: AsJson = False) -> None:
    """List the runs of a dataset."""
    with connected(url) as client:
        found = list(client.runs(dataset))
    rows = (
        (one.run, one.settings.strategy, count(one.step), ratio(one), number(one.capability), count(one.leased))
        for one in found
    )
    show({"runs": found}, lambda: table("run  strategy  >step  >ETR  >capability  >leased", rows), as_json=as_json)


@app.command("show")
def show_(dataset: Dataset, run: Name = "default", url: Url = None, as_json: AsJson = False) -> None:
    """Describe a run: settings, step, capability, totals."""
    with connected(url) as client:
        found = client.run(dataset, run)
    show(found, lambda: sheet(described(found)), as_json=as_json)


@app.command()
@with_settings
def create(
    dataset: Dataset,
    run: Annotated[str, typer.Argument(help="Name of the run.", show_default=False)],
    fork: Annotated[str | None, typer.Option(help="Begin with the belief of this run.", metavar="RUN")] = None,
    fork_step: Annotated[int | None, typer.Option(help="As it was after this step.", metavar="STEP")] = None,
    url: Url = None,
    as_json: AsJson = False,
    **settings: Settings,
) -> None:
    """Make a run, or set all settings of one that has seen nothing yet; what is left out takes its default."""
    if fork is None and fork_step is not None:
        raise typer.BadParameter("name the run to fork with --fork", param_hint="--fork-step")
    with connected(url) as client:
        made = client.create_run(dataset, run, fork_run=fork, fork_step=fork_step, **settings)
    show(made, lambda: sheet(described(made)), as_json=as_json)


@app.command("set")
@with_settings
def set_(
    dataset: Dataset, run: Name = "default", url: Url = None, as_json: AsJson = False, **settings: Settings
) -> None:
    """Change settings of a run from the next step on; what is left out stays."""
    if not settings:
        raise typer.BadParameter("pass at least one setting, such as --target 0.5", param_hint="settings")
    with connected(url) as client:
        changed = client.update_run(dataset, run, **settings)
    show(changed, lambda: sheet(described(changed)), as_json=as_json)


@app.command()
def delete(
    dataset: Dataset,
    run: Annotated[str, typer.Argument(help='Name of the run; "default" is emptied.', show_default=False)],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Delete a run with all it learned, for ever."""
    with connected(url) as client:
        found = client.run(dataset, run)
        confirm(f"Delete run {run} of {dataset} at step {count(found.step)}, for ever?", yes=yes)
        client.delete_run(dataset, run)
    show({"dataset": dataset, "deleted": run}, lambda: f"run {run} of {dataset} is deleted", as_json=as_json)


def ratio(run: "Run") -> str:
    """Return a run's effective task ratio, to read."""
    return number(run.totals.effective / run.totals.reported if run.totals.reported else None)


def described(run: "Run") -> dict[str, str]:
    """Return what a run is and has seen, to read."""
    totals, fork = run.totals, run.forked_from
    settings = {
        name: " ".join(map(str, value)) if isinstance(value, list) else "-" if value is None else str(value)
        for name, value in plain(run.settings).items()
    }
    return {
        "run": f"{run.run} of {run.dataset}",
        "created": moment(run.created_at) + (f", from {fork.run} at step {fork.step}" if fork else ""),
        "step": count(run.step) + (f", with {tasks_told(run.pending)} in the open one" if run.pending else ""),
        "epoch": f"{run.epoch}, entry {run.seq} of the journal",
        "capability": number(run.capability),
        "reported": f"{tasks_told(totals.reported)}, {count(totals.effective)} effective (ETR {ratio(run)})",
        "rollouts": f"{count(totals.rollouts)}, {count(totals.successes)} successes",
        "a task": f"{number(run.rollouts_per_task)} rollouts",
        "late": f"{count(totals.late)} outcomes, and {count(totals.expired)} too late",
        "leased": tasks_told(run.leased),
        **({"advice": " ".join(run.advice)} if run.advice else {}),
        "": "",
        **settings,
    }
