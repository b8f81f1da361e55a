"""`bots runs`: beliefs about a dataset, each for one model in training."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bots_service.cli.connection import AsJson, Dataset, Url, connected, run_names
from bots_service.cli.output import (
    confirm,
    count,
    moment,
    number,
    percent,
    plain,
    sheet,
    short,
    show,
    table,
    task_count,
)
from bots_service.cli.run_options import NONE_AT_0, Settings, with_settings

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bots_client import Client, MixShare, Run, RunSummary, VerifierAlarm


app = typer.Typer(no_args_is_help=True, help="Create, list, change and delete runs.")

Name = Annotated[str, typer.Argument(help="Name of the run.", autocompletion=run_names)]


@app.command("list")
def list_(dataset: Dataset, url: Url = None, as_json: AsJson = False) -> None:
    """List the runs of a dataset."""
    with connected(url) as client:
        found = list(client.runs(dataset))
        verdicts = {one.run: one.verdict for one in summaries_of(client, dataset)}
    rows = (
        (
            one.run,
            "-" if (verdict := verdicts.get(one.run)) is None else verdict.kind.replace("_", " "),
            one.settings.belief,
            one.settings.strategy,
            count(one.step),
            ratio(one),
            standing(one),
            count(one.leased),
        )
        for one in found
    )
    columns = "run  verdict  belief  strategy  >step  >ETR, all steps  >estimate  >leased"
    document = {"runs": [{**plain(one), "verdict": plain(verdicts.get(one.run))} for one in found]}
    show(document, lambda: table(columns, rows), as_json=as_json)


def summaries_of(client: "Client", dataset: str) -> Iterator["RunSummary"]:
    """Yield the summaries of a dataset's runs."""
    cursor, is_done = None, False
    while not is_done:
        page = client.overview(dataset=dataset, sort="name", limit=1000, cursor=cursor)
        yield from page.runs
        cursor, is_done = page.next_cursor, page.next_cursor is None


@app.command("show")
def show_(dataset: Dataset, run: Name = "default", url: Url = None, as_json: AsJson = False) -> None:
    """Describe a run: step, estimates, totals, coverage, settings."""
    with connected(url) as client:
        found = client.run(dataset, run)
    show(found, lambda: described(found), as_json=as_json)


Fork = Annotated[str | None, typer.Option(help="Continue this run.", metavar="RUN", autocompletion=run_names)]
ForkStep = Annotated[int | None, typer.Option(help="Step of the forked run to start from.", metavar="STEP")]


@app.command()
@with_settings
def create(
    dataset: Dataset,
    run: Annotated[str, typer.Argument(help="Name of the run.", show_default=False)],
    *,
    fork: Fork = None,
    fork_step: ForkStep = None,
    url: Url = None,
    as_json: AsJson = False,
    **settings: Settings,
) -> None:
    """Create a run, or replace the settings of an empty run; omitted settings take their defaults."""
    if fork is None and fork_step is not None:
        raise typer.BadParameter("name the run with --fork", param_hint="--fork-step")
    with connected(url) as client:
        made = client.create_run(dataset, run, fork_run=fork, fork_step=fork_step, **settings)
    show(made, lambda: described(made), as_json=as_json)


@app.command("set")
@with_settings
def set_(
    dataset: Dataset, run: Name = "default", url: Url = None, as_json: AsJson = False, **settings: Settings
) -> None:
    """Change settings of a run from the next step on; omitted settings keep their values."""
    if not settings:
        raise typer.BadParameter("pass at least one setting, such as --target 0.5", param_hint="settings")
    with connected(url) as client:
        changed = client.update_run(dataset, run, **settings)
    show(changed, lambda: described(changed), as_json=as_json)


@app.command()
def delete(
    dataset: Dataset,
    run: Annotated[
        str,
        typer.Argument(help='Name of the run; "default" is emptied.', show_default=False, autocompletion=run_names),
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Permanently delete a run and its history."""
    with connected(url) as client:
        found = client.run(dataset, run)
        confirm(f"Permanently delete run {run} of {dataset} at step {count(found.step)}?", yes=yes)
        client.delete_run(dataset, run)
    show({"dataset": dataset, "deleted": run}, lambda: f"run {run} of {dataset} is deleted", as_json=as_json)


@app.command("as-predictions")
def as_predictions(
    dataset: Dataset,
    run: Name = "default",
    *,
    name: Annotated[str | None, typer.Option(help="Name of the predictions.", show_default="the run's name")] = None,
    step: Annotated[int | None, typer.Option(help="Step after which the run believes so.", show_default="last")] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Make predictions of what a run believes of the tasks that it tried; new runs learn how far to trust them."""
    from bots_service.cli.datasets import predicted

    with connected(url) as client:
        found = client.predict_from_run(dataset, run, name or run, step=step)
    show(found, lambda: predicted(found, name or run), as_json=as_json)


def ratio(run: "Run") -> str:
    """Format a run's effective task ratio over all steps."""
    return number(run.totals.effective / run.totals.reported if run.totals.reported else None)


def standing(run: "Run") -> str:
    """Format the estimate that tells where the model stands, such as "ability 0.412"; "-" if there is none yet."""
    return next((f"{name} {number(value)}" for name, value in run.estimates.items()), "-")


def covered(run: "Run") -> dict[str, str]:
    """Return how a run's visits spread over its pool as labelled text."""
    found = run.coverage
    lines = {"coverage": f"{count(found.distinct_tasks)} different ones of {task_count(found.available_tasks)}"}
    if found.most_visits is not None:
        lines["visits"] = (
            f"{number(found.mean_visits, 1)} a task, at most {count(found.most_visits)};"
            f" {percent(found.top_tenth_share)} of all for a tenth of the tasks"
        )
    if found.unmet_share is not None:
        lines["not met"] = f"{percent(found.unmet_share)} of the tasks in the last {count(found.pass_steps)} steps"
    if found.passes_done is not None:
        lines["passes"] = f"{count(found.passes_done)}, and {percent(found.pass_share)} of the next"
    return lines | ({"narrow": found.reason} if found.reason else {})


def described(run: "Run") -> "RenderableType":
    """Return a run's state and totals, and below them its settings, as labelled text."""
    from rich.console import Group

    return Group(sheet(state_of(run)), "", sheet(settings_of(run)))


def settings_of(run: "Run") -> dict[str, str]:
    """Return the settings that the run's kind of belief has as labelled text."""
    return {
        name.replace("_", " "): written(value)
        for name, value in plain(run.settings).items()
        if value is not None or name in NONE_AT_0  # others are None if the kind of belief doesn't have them
    }


def written(value: Any) -> str:
    """Format the value of a setting; "-" if there is none."""
    if isinstance(value, dict):
        return ", ".join(f"{tag} {weight:g}" for tag, weight in value.items()) or "-"
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "-" if value is None else str(value)


def state_of(run: "Run") -> dict[str, str]:
    """Return a run's state and totals as labelled text."""
    totals, fork = run.totals, run.forked_from
    return {
        "run": f"{run.run} of {run.dataset}",
        "created": moment(run.created_at) + (f", from {fork.run} at step {fork.step}" if fork else ""),
        "step": count(run.step) + (f", with {task_count(run.pending)} in the open step" if run.pending else ""),
        "epoch": f"{run.epoch}, entry {run.seq} of the journal",
        **{name.replace("_", " "): f"{value:.4g}" for name, value in run.estimates.items()},
        "reported": f"{task_count(totals.reported)}, {count(totals.effective)} effective (ETR {ratio(run)})",
        **covered(run),
        "rollouts": f"{count(totals.rollouts)}, {count(totals.successes)} successes",
        "per task": f"{number(run.rollouts_per_task)} rollouts",
        **spent(run),
        "late": f"{count(totals.late)} outcomes, {count(totals.expired)} more too late to count",
        "leased": task_count(run.leased),
        **({"in parts": f"{count(run.unfinished_groups)} groups wait for rollouts"} if run.unfinished_groups else {}),
        **({"aborting": f"{task_count(run.aborting_tasks)} always abort"} if run.aborting_tasks else {}),
        **({"alarms": "; ".join(map(alarmed, run.alarms))} if run.alarms else {}),
        **({"shares": "; ".join(map(mixed, run.mix))} if run.mix else {}),
        **({"advice": " ".join(run.advice)} if run.advice else {}),
    }


def alarmed(one: "VerifierAlarm") -> str:
    """Describe an alarm, such as "all rollouts of math failed since step 41 (12 groups)"."""
    whose = "all rollouts" if one.tag is None else f"all rollouts of {one.tag}"
    return f"{whose} {one.outcome} since step {count(one.since_step)} ({count(one.groups)} groups)"


def mixed(tag: "MixShare") -> str:
    """Describe a tag of a mix, such as "math 75% (owed 24.0, given 24)"."""
    return f"{tag.tag} {percent(tag.share)} (owed {number(tag.owed, 1)}, given {count(tag.given)})"


def spent(run: "Run") -> dict[str, str]:
    """Return what a run's rollouts cost as labelled text: nothing where no outcome said it."""
    costs = (("tokens", run.totals.tokens), ("GPU hours", run.totals.seconds / 3600))
    return {name: short(cost) for name, cost in costs if cost}
