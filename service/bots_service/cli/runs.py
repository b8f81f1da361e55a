"""`bots runs`: beliefs about a dataset, each for one model in training."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bots_service.cli.connection import Dataset, Yes, command, parsed_by, run_names
from bots_service.cli.output import Result, confirm, count, details, table
from bots_service.core.run_settings import CapabilityRule, StrategyName

if TYPE_CHECKING:
    from bots_client import Client, RunSummary

app = typer.Typer(no_args_is_help=True, help="Create, list, change and delete runs.")

Name = Annotated[str, typer.Argument(help="Name of the run.", autocompletion=run_names)]


@command(app, "list")
def list_(client: "Client", dataset: Dataset) -> Result:
    """List the runs of a dataset."""
    found = list(summaries_of(client, dataset))
    if not found:
        client.dataset(dataset)  # says if there is no such dataset
    columns = (
        "run  verdict=verdict.kind  belief  strategy  step  recent ETR=effective_task_ratio  vs uniform=gain.factor"
    )
    return {"runs": found}, table(columns, found)


def summaries_of(client: "Client", dataset: str) -> Iterator["RunSummary"]:
    """Yield the summaries of a dataset's runs."""
    cursor, is_done = None, False
    while not is_done:
        page = client.overview(dataset=dataset, sort="name", limit=1000, cursor=cursor)
        yield from page.runs
        cursor, is_done = page.next_cursor, page.next_cursor is None


@command(app, "show")
def show_(client: "Client", dataset: Dataset, run: Name = "default") -> Result:
    """Describe a run: step, estimates, totals, coverage, settings."""
    found = client.run(dataset, run)
    return found, details(found)


# --- settings --------------------------------------------------------------------------------------------------------

NONE_AT_0 = ("rollouts_per_task", "tasks_per_step")


def settings_of(
    *,
    belief: Annotated[str | None, typer.Option(help="Kind of belief: tracker (default) or bots.")] = None,
    forgetting: Annotated[
        float | None, typer.Option(help="With bots: share of past evidence that each step drops (lambda).")
    ] = None,
    implicit_weight: Annotated[
        float | None, typer.Option(help="With bots: weight of evidence implied by other tasks (rho).")
    ] = None,
    rollouts_per_task: Annotated[
        float | None,
        typer.Option(help="Rollouts m that one implied observation counts for; 0: learned from reports.", min=0),
    ] = None,
    target: Annotated[float | None, typer.Option(help="Target success rate.")] = None,
    prior: Annotated[
        tuple[float, float] | None, typer.Option(help="With bots: prior of every task.", metavar="ALPHA BETA")
    ] = None,
    capability: Annotated[
        CapabilityRule | None, typer.Option(help="With bots: how the capability is estimated.")
    ] = None,
    capability_momentum: Annotated[
        float | None, typer.Option(help="With bots: momentum of the capability (gamma).")
    ] = None,
    strategy: Annotated[
        StrategyName | None, typer.Option(help="Strategy; default: pass, or thompson with bots.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed.")] = None,
    tasks_per_step: Annotated[
        int | None, typer.Option(help="Close a step after this many reported tasks; 0: after each report.", min=0)
    ] = None,
    reward_range: Annotated[
        tuple[float, float] | None, typer.Option(help="Lowest and highest possible reward.", metavar="LOW HIGH")
    ] = None,
    lease_seconds: Annotated[
        float | None,
        typer.Option(help="Lease in seconds: a selected task is not selected again until it expires or is reported."),
    ] = None,
    mix: Annotated[
        list[str] | None,
        typer.Option(help='Weight of a tag; repeat for each. "none" ends the mix.', metavar="TAG=WEIGHT"),
    ] = None,
) -> dict[str, Any]:
    """Return the settings that are given."""
    given = {name: value for name, value in locals().items() if value is not None}
    given |= {name: None for name in NONE_AT_0 if given.get(name) == 0}
    return given if mix is None else {**given, "mix": mix_of(mix)}


def mix_of(options: list[str]) -> dict[str, float]:
    """Return the mix that options such as "math=3" describe; "none" is an empty one."""
    if options == ["none"]:
        return {}
    mix: dict[str, float] = {}
    for option in options:
        tag, _, weight = option.rpartition("=")
        try:
            mix[tag] = float(weight)
        except ValueError:
            tag = ""
        if not tag:
            raise typer.BadParameter(f"{option!r} is not like math=3", param_hint="--mix")
    return mix


@command(app)
@parsed_by(settings_of)
def create(
    client: "Client",
    dataset: Dataset,
    run: Annotated[str, typer.Argument(help="Name of the run.")],
    fork: Annotated[
        str | None, typer.Option(help="Continue this run.", metavar="RUN", autocompletion=run_names)
    ] = None,
    fork_step: Annotated[int | None, typer.Option(help="Step of the forked run to start from.", metavar="STEP")] = None,
    *,
    settings: dict[str, Any],
) -> Result:
    """Create a run, or replace the settings of an empty run; omitted settings take their defaults."""
    if fork is None and fork_step is not None:
        raise typer.BadParameter("name the run with --fork", param_hint="--fork-step")
    made = client.create_run(dataset, run, fork_run=fork, fork_step=fork_step, **settings)
    return made, details(made)


@command(app, "set")
@parsed_by(settings_of)
def set_(client: "Client", dataset: Dataset, run: Name = "default", *, settings: dict[str, Any]) -> Result:
    """Change settings of a run from the next step on; omitted settings keep their values."""
    if not settings:
        raise typer.BadParameter("pass at least one setting, such as --target 0.5", param_hint="settings")
    changed = client.update_run(dataset, run, **settings)
    return changed, details(changed)


Deleted = Annotated[str, typer.Argument(help='Name of the run; "default" is emptied.', autocompletion=run_names)]


@command(app)
def delete(client: "Client", dataset: Dataset, run: Deleted, yes: Yes = False) -> Result:
    """Permanently delete a run and its history."""
    step = client.run(dataset, run).step
    confirm(f"Permanently delete run {run} of {dataset} at step {count(step)}?", yes=yes)
    client.delete_run(dataset, run)
    return {"dataset": dataset, "deleted": run}, f"run {run} of {dataset} is deleted"


@command(app, "as-predictions")
def as_predictions(
    client: "Client",
    dataset: Dataset,
    run: Name = "default",
    name: Annotated[str | None, typer.Option(help="Name of the predictions.", show_default="the run's name")] = None,
    step: Annotated[int | None, typer.Option(help="Step after which the run believes so.", show_default="last")] = None,
) -> Result:
    """Make predictions of what a run believes of the tasks that it tried; new runs learn how far to trust them."""
    from bots_service.cli.datasets import predicted

    found = client.predict_from_run(dataset, run, name or run, step=step)
    return found, predicted(found, name or run)
