"""`bots tasks`, `bots history`, `bots rewind`, `bots snapshot`: what a run believes, and how it came to that."""

from typing import TYPE_CHECKING, Annotated

import typer

from bots_service.cli.connection import AsJson, Dataset, RunName, Url, connected
from bots_service.cli.output import count, moment, number, show, table

if TYPE_CHECKING:
    from bots_client import TaskBelief

STEPS_SHOWN = 20


def tasks(
    dataset: Dataset,
    ids: Annotated[list[str] | None, typer.Argument(help="Only these tasks.", show_default=False)] = None,
    *,
    run: RunName = "default",
    tag: Annotated[str | None, typer.Option(help="Only tasks that bear it.", show_default=False)] = None,
    search: Annotated[
        str | None, typer.Option(help="Only tasks whose id contains it; a and A are the same.", show_default=False)
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(
            help="index, mean, distance (to the target), evidence or last_step; -mean descends.", show_default="index"
        ),
    ] = None,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1)] = 100,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show what a run believes about its tasks."""
    with connected(url) as client:
        found = list(client.tasks(dataset, run, ids=ids or (), tag=tag, search=search, sort=sort, limit=limit))
        matching = len(found)
        if matching == limit:  # there may be more than are shown
            matching = client.count_tasks(dataset, run, ids=ids or (), tag=tag, search=search)
    rows = map(_believed, found)
    columns = "task  >mean  >90 % within  >evidence  >last step  tags"
    caption = f"{count(len(found))} of {count(matching)} tasks"
    show(
        {"tasks": found, "matching": matching},
        lambda: table(columns, rows, caption=caption) if found else "no such task",
        as_json=as_json,
    )


def _believed(task: "TaskBelief") -> tuple[str, ...]:
    """Return the row of a task."""
    return (
        task.id,
        number(task.mean),
        " to ".join(number(bound) for bound in task.interval) if task.interval else "-",
        number(task.evidence, 1),
        "-" if task.last_step is None else count(task.last_step),
        ", ".join(task.tags),
    )


def history(
    dataset: Dataset,
    run: RunName = "default",
    after_step: Annotated[int | None, typer.Option(help="Only later steps.", min=0, show_default=False)] = None,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1)] = STEPS_SHOWN,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show the closed steps of a run, the last ones unless told otherwise."""
    with connected(url) as client:
        if after_step is None:
            after_step = max(client.run(dataset, run).step - limit, 0)
        found = list(client.history(dataset, run, after_step=after_step, limit=limit))
    rows = (
        (
            count(one.step),
            count(one.reported),
            number(one.effective_task_ratio),
            number(one.mean_pass_rate),
            number(one.capability),
            number(one.brier),
            moment(one.time),
        )
        for one in found
    )
    columns = ">step  >tasks  >ETR  >pass rate  >capability  >Brier  time"
    nothing = f"no step of run {run} is closed after step {after_step}"
    show({"history": found}, lambda: table(columns, rows) if found else nothing, as_json=as_json)


def rewind(
    dataset: Dataset,
    step: Annotated[int, typer.Argument(help="The step to go back to.", min=0, show_default=False)],
    run: RunName = "default",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Take a run back to a step, as a trainer to its checkpoint.

    Its history stays. What was selected before counts for nothing afterwards.
    """
    with connected(url) as client:
        found = client.rewind(dataset, step, run)
    said = f"run {run} of {dataset} stands at step {count(found.step)} again; its epoch is {found.epoch}"
    show(found, lambda: said, as_json=as_json)


def snapshot(
    dataset: Dataset,
    run: RunName = "default",
    list_: Annotated[bool, typer.Option("--list", help="List what is stored; store nothing.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Store the state of a run, so recovery has less to do."""
    with connected(url) as client:
        found = list(client.snapshots(dataset, run)) if list_ else [client.snapshot(dataset, run)]
    rows = (
        (count(one.step), count(one.epoch), count(one.seq), count(one.bytes), one.checksum, moment(one.created_at))
        for one in found
    )
    nothing = f"no snapshot of run {run} yet"
    show(
        {"snapshots": found} if list_ else found[0],
        lambda: table(">step  >epoch  >entry  >bytes  checksum  stored", rows) if found else nothing,
        as_json=as_json,
    )
