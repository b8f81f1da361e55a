"""`bots runs`: beliefs about a dataset, each for one model in training."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bots_service.cli.connection import Dataset, Yes, command, parsed_by, run_names
from bots_service.cli.output import Result, confirm, count, counted, moment, number, percent, sheet, table, times
from bots_service.core.run_settings import CapabilityRule, StrategyName

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bots_client import Client, Run, RunSummary

app = typer.Typer(no_args_is_help=True, help="Create, list, change and delete runs.")

Name = Annotated[str, typer.Argument(help="Name of the run.", autocompletion=run_names)]


@command(app, "list")
def list_(client: "Client", dataset: Dataset) -> Result:
    """List the runs of a dataset."""
    found = list(summaries_of(client, dataset))
    if not found:
        client.dataset(dataset)  # says if there is no such dataset
    rows = (
        (
            one.run,
            one.verdict.kind.replace("_", " ") if one.verdict else "-",
            one.belief,
            one.strategy,
            count(one.step),
            number(one.effective / one.reported if one.reported else None),
            times(one.gain.factor if one.gain else None),
        )
        for one in found
    )
    return {"runs": found}, table("run  verdict  belief  strategy  >step  >ETR, all steps  >vs uniform", rows)


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
    return found, described(found)


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
    return made, described(made)


@command(app, "set")
@parsed_by(settings_of)
def set_(client: "Client", dataset: Dataset, run: Name = "default", *, settings: dict[str, Any]) -> Result:
    """Change settings of a run from the next step on; omitted settings keep their values."""
    if not settings:
        raise typer.BadParameter("pass at least one setting, such as --target 0.5", param_hint="settings")
    changed = client.update_run(dataset, run, **settings)
    return changed, described(changed)


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


# --- a run as text ---------------------------------------------------------------------------------------------------


def described(run: "Run") -> "RenderableType":
    """Return a run's state and totals, and below them the settings that its kind of belief has, as labelled text."""
    from rich.console import Group

    settings = {
        name.replace("_", " "): written(value)
        for name, value in asdict(run.settings).items()
        if value is not None or name in NONE_AT_0  # others are None if the kind of belief doesn't have them
    }
    return Group(sheet(state_of(run)), "", sheet(settings))


def written(value: Any) -> str:
    """Format the value of a setting; "-" if there is none."""
    if isinstance(value, dict):
        return ", ".join(f"{tag} {weight:g}" for tag, weight in value.items()) or "-"
    return "-" if value is None else str(list(value) if isinstance(value, tuple) else value)


def state_of(run: "Run") -> dict[str, str]:
    """Return a run's state and totals as labelled text, without what there is nothing to say of."""
    totals, fork, found = run.totals, run.forked_from, run.coverage
    ratio = number(totals.effective / totals.reported if totals.reported else None)
    rows = {
        "run": f"{run.run} of {run.dataset}",
        "created": moment(run.created_at) + (f", from {fork.run} at step {fork.step}" if fork else ""),
        "step": count(run.step) + (f", with {counted(run.pending, 'task')} in the open step" if run.pending else ""),
        "epoch": f"{run.epoch}, entry {run.seq} of the journal",
        **{name.replace("_", " "): f"{value:.4g}" for name, value in run.estimates.items()},
        "reported": f"{counted(totals.reported, 'task')}, {count(totals.effective)} effective (ETR {ratio})",
        "coverage": f"{count(found.distinct_tasks)} different ones of {counted(found.available_tasks, 'task')}",
        "visits": f"{number(found.mean_visits, 1)} a task, at most {count(found.most_visits)}" if run.step else "",
        "narrow": found.reason or "",
        "rollouts": f"{count(totals.rollouts)}, {count(totals.successes)} successes",
        "per task": f"{number(run.rollouts_per_task)} rollouts",
        "tokens": count(totals.tokens) if totals.tokens else "",
        "GPU hours": number(totals.seconds / 3600) if totals.seconds else "",
        "late": f"{count(totals.late)} outcomes, {count(totals.expired)} more too late to count",
        "leased": counted(run.leased, "task"),
        "in parts": f"{count(run.unfinished_groups)} groups wait for rollouts" if run.unfinished_groups else "",
        "aborting": f"{counted(run.aborting_tasks, 'task')} always abort" if run.aborting_tasks else "",
        "alarms": "; ".join(
            f"all rollouts{f' of {one.tag}' if one.tag else ''} {one.outcome} since step {count(one.since_step)}"
            f" ({count(one.groups)} groups)"
            for one in run.alarms
        ),
        "shares": "; ".join(
            f"{one.tag} {percent(one.share)} (owed {number(one.owed, 1)}, given {count(one.given)})" for one in run.mix
        ),
        "advice": " ".join(run.advice),
    }
    return {name: text for name, text in rows.items() if text}
