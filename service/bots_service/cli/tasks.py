"""`bots tasks`, `task-history`: what a run knows of each task, and what its reports said of one."""

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bots_service.cli.connection import AsJson, Dataset, RunName, Url, connected
from bots_service.cli.output import count, moment, number, plain, show, table

if TYPE_CHECKING:
    from bots_client import TaskBelief


Ids = Annotated[list[str] | None, typer.Argument(help="Only these tasks.", show_default=False)]
Tag = Annotated[str | None, typer.Option(help="Only tasks with this tag.", show_default=False)]
Search = Annotated[
    str | None, typer.Option(help="Only tasks whose ID contains this text, ignoring case.", show_default=False)
]
# As in `core.segments`, whose import would load numpy.
SegmentName = Literal["untried", "aborting", "stuck", "teaching", "solved", "retired"]
OneSegment = Annotated[
    SegmentName | None,
    typer.Option(
        help="Only tasks that were never tried, never succeeded, still teach, are solved, or are retired.",
        show_default="all but retired",
    ),
]
Sort = Annotated[
    str | None,
    typer.Option(
        help="index, mean, distance (to the target), effective, variance, attempts, visits or last_step;"
        " -mean sorts descending.",
        show_default="index",
    ),
]


def tasks(
    dataset: Dataset,
    ids: Ids = None,
    *,
    run: RunName = "default",
    tag: Tag = None,
    search: Search = None,
    segment: OneSegment = None,
    sort: Sort = None,
    limit: Annotated[int, typer.Option(help="Maximum number of tasks.", min=1)] = 100,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Write all matching tasks as CSV to stdout, whatever --limit and --json say.")
    ] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show a run's predicted success rate for each task, and how many tasks each segment has."""
    ids = ids or []
    with connected(url) as client:
        if as_csv:
            sys.stdout.buffer.writelines(
                client.tasks_csv(dataset, run, ids=ids, tag=tag, search=search, segment=segment, sort=sort)
            )
            return
        found = list(
            client.tasks(dataset, run, ids=ids, tag=tag, search=search, segment=segment, sort=sort, limit=limit)
        )
        counts = client.count_tasks(dataset, run, ids=ids, tag=tag, search=search)
    matching = counts.available if segment is None else getattr(counts, segment)
    counted = ", ".join(f"{count(value)} {name}" for name, value in plain(counts).items())
    believed, tried = ">mean  >90 % within  >effective", ">attempts  >successes  >visits  >last step"
    columns = f"task  segment  {believed}  {tried}  tags?"
    caption = f"{count(len(found))} of {count(matching)} tasks; {counted}"
    show(
        {"tasks": found, "matching": matching, "segments": counts},
        lambda: table(columns, map(_task_row, found), caption=caption) if found else f"no task matches; {counted}",
        as_json=as_json,
    )


def _task_row(task: "TaskBelief") -> tuple[str, ...]:
    """Return a task's row of the table."""
    return (
        task.id,
        task.segment,
        number(task.mean),
        " to ".join(number(bound) for bound in task.interval) if task.interval else "-",
        number(task.effective),
        count(task.attempts),
        count(task.successes),
        count(task.visits),
        "-" if task.last_step is None else count(task.last_step),
        ", ".join(task.tags) or "-",
    )


def task_history(
    dataset: Dataset,
    task: Annotated[str, typer.Argument(help="ID of the task.", show_default=False)],
    run: RunName = "default",
    limit: Annotated[int, typer.Option(help="Maximum number of reports.", min=1)] = 50,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show the reports of a task, newest first, including reports undone by a rewind."""
    with connected(url) as client:
        found = list(client.task_history(dataset, task, run, limit=limit))
    rows = (
        (
            count(one.seq),
            count(one.step),
            count(one.successes),
            count(one.trials),
            number(one.mean_reward),
            "yes" if one.effective else "no",
            "yes" * bool(one.late),
            "yes" * one.hidden,
            moment(one.time),
        )
        for one in found
    )
    columns = ">entry  >step  >successes  >rollouts  >mean reward  effective  late  hidden  time"
    nothing = f"no journal entry of run {run} reports {task}"
    show({"history": found}, lambda: table(columns, rows) if found else nothing, as_json=as_json)
