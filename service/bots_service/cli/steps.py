"""`bots select` and `bots report`: one training step by hand."""

from typing import TYPE_CHECKING, Annotated

import typer

from bots_service.cli.connection import AsJson, Dataset, RunName, Url, connected
from bots_service.cli.output import count, number, show, table, task_count

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bots_client import Receipt, Selection


Key = Annotated[
    str | None,
    typer.Option(
        "--key", help="Idempotency key: repeating the request with it has no further effect.", show_default=False
    ),
]

TaskCount = Annotated[
    int | None,
    typer.Argument(
        metavar="COUNT", help="Number of tasks; leave it out with --want-effective.", min=1, show_default=False
    ),
]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="Only tasks with one of these tags.")]
Excluded = Annotated[list[str] | None, typer.Option(help="Task ID to exclude.", metavar="TASK")]
Wanted = Annotated[
    int | None, typer.Option(help="Select enough tasks for so many effective groups, in place of COUNT.", min=1)
]


def select(
    dataset: Dataset,
    number_of_tasks: TaskCount = None,
    *,
    run: RunName = "default",
    tag: Tags = None,
    exclude: Excluded = None,
    want_effective: Wanted = None,
    key: Key = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Select the tasks to train on next."""
    if (number_of_tasks is None) == (want_effective is None):
        raise typer.BadParameter("pass either COUNT or --want-effective")
    with connected(url) as client:
        selection = client.select(
            dataset,
            number_of_tasks,
            run=run,
            tags=tag,
            exclude=exclude,
            want_effective=want_effective,
            idempotency_key=key,
        )
    show(selection, lambda: readable(selection), as_json=as_json)


def report(
    dataset: Dataset,
    outcome: Annotated[
        list[str] | None,
        typer.Argument(help="math-17=7/16, math-4=0,1,0.5, math-5=1/3:1.2,0.2,0 or math-9=aborted", show_default=False),
    ] = None,
    *,
    file: Annotated[
        str | None,
        typer.Option("--from", metavar="FILE", help='JSON file with outcomes; "-" reads stdin.', show_default=False),
    ] = None,
    run: RunName = "default",
    selection: Annotated[
        str | None, typer.Option(help="ID of the selection that these tasks belong to.", show_default=False)
    ] = None,
    close: Annotated[
        bool | None,
        typer.Option(
            "--close/--keep-open", help="Close the training step or not.", show_default="as the run's settings say"
        ),
    ] = None,
    key: Key = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Report rollout outcomes."""
    from bots_service.cli.outcomes import FORMS, outcome_of, read_report

    outcomes = [outcome_of(text) for text in outcome or ()]
    if file is not None:
        read, selection_of_file = read_report(file)
        outcomes += read
        selection = selection or selection_of_file
    if not outcomes and close is not True:
        raise typer.BadParameter(f"pass {FORMS}, a file with --from, or --close", param_hint="OUTCOME")
    with connected(url) as client:
        receipt = client.report(dataset, outcomes, run=run, selection=selection, close_step=close, idempotency_key=key)
    show(receipt, lambda: receipt_text(receipt), as_json=as_json)


def readable(selection: "Selection") -> "RenderableType":
    """Return a selection as a table."""
    from rich.console import Group

    rows = ((task.id, number(task.draw), number(task.mean), number(task.effective)) for task in selection.tasks)
    reused = f"; {count(selection.reused)} of them are also in another selection" if selection.reused else ""
    expected = selection.expected_effective
    wish = "" if expected is None else f"; {number(expected)} effective groups expected"
    line = f"selection {selection.selection_id} at step {count(selection.step)}{wish}{reused}"
    return Group(table("task  >draw  >mean  >effective", rows), line)


def receipt_text(receipt: "Receipt") -> str:
    """Describe a receipt in words."""
    if receipt.duplicate:
        return f"already counted as entry {receipt.seq}; nothing changed"
    after = count(receipt.step)
    line = f"step {after} is closed: " if receipt.closed else f"the step after {after} is open: "
    line += f"{task_count(receipt.reported)}, {count(receipt.new_tasks)} new, {count(receipt.effective)} effective"
    line += f" (ETR {number(receipt.effective_task_ratio)})"
    line += "" if receipt.capability is None else f", capability {number(receipt.capability)}"
    if receipt.late or receipt.expired:
        line += f"; {count(receipt.late)} late, {count(receipt.expired)} too late to count"
    return line
