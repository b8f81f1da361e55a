"""`bots select` and `bots report`: one training step by hand."""

import re
from typing import TYPE_CHECKING, Annotated, Any

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

MinMean = Annotated[
    float | None,
    typer.Option(help="Smallest expected success probability, while enough tasks are free.", min=0, max=1),
]
MaxMean = Annotated[
    float | None, typer.Option(help="Largest expected success probability, while enough tasks are free.", min=0, max=1)
]


TaskCount = Annotated[
    int | None,
    typer.Argument(
        metavar="COUNT", help="Number of tasks; leave it out with --want-effective.", min=1, show_default=False
    ),
]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="Only tasks with one of these tags.")]
Quotas = Annotated[
    list[str] | None,
    typer.Option("--quota", help="Number (math=24) or share (math=0.75) of tasks with a tag.", metavar="TAG=COUNT"),
]
Excluded = Annotated[list[str] | None, typer.Option(help="Task ID to exclude.", metavar="TASK")]
UniformShare = Annotated[float | None, typer.Option(help="Share of tasks selected uniformly at random.", min=0, max=1)]
Budget = Annotated[int | None, typer.Option(help="Rollouts of all tasks together, shared out among them.", min=1)]
LeastRollouts = Annotated[int | None, typer.Option(help="Of each task, with a budget (2).", min=1)]
MostRollouts = Annotated[int | None, typer.Option(help="Of each task, with a budget (four times the mean).", min=1)]
Wanted = Annotated[
    int | None, typer.Option(help="Select enough tasks for so many effective groups, in place of COUNT.", min=1)
]
Confidence = Annotated[
    float | None, typer.Option(help="With which probability they are enough (0.9).", min=0.5, max=0.999)
]
MostTasks = Annotated[
    int | None, typer.Option(help="The most tasks for --want-effective (eight times as many).", min=1)
]


def select(
    dataset: Dataset,
    number_of_tasks: TaskCount = None,
    *,
    run: RunName = "default",
    tag: Tags = None,
    quota: Quotas = None,
    exclude: Excluded = None,
    uniform_share: UniformShare = None,
    min_mean: MinMean = None,
    max_mean: MaxMean = None,
    rollouts_budget: Budget = None,
    min_rollouts: LeastRollouts = None,
    max_rollouts: MostRollouts = None,
    want_effective: Wanted = None,
    confidence: Confidence = None,
    max_count: MostTasks = None,
    key: Key = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Select the tasks to train on next."""
    budget, wanted = (rollouts_budget, min_rollouts, max_rollouts), (want_effective, confidence, max_count)
    wishes = wishes_of(number_of_tasks, budget=budget, wanted=wanted)
    with connected(url) as client:
        selection = client.select(
            dataset,
            run=run,
            tags=tag,
            quotas=dict(map(quota_of, quota)) if quota else None,
            exclude=exclude,
            uniform_share=uniform_share,
            min_mean=min_mean,
            max_mean=max_mean,
            idempotency_key=key,
            **wishes,
        )
    show(selection, lambda: readable(selection), as_json=as_json)


def wishes_of(
    count: int | None,
    *,
    budget: tuple[int | None, int | None, int | None],
    wanted: tuple[int | None, float | None, int | None],
) -> dict[str, Any]:
    """Return the number of tasks, and what was asked of their groups, as arguments of `Client.select`.

    Args:
        count: number of tasks.
        budget: rollouts in all, least and most of a task.
        wanted: effective groups, confidence, largest number of tasks.
    """
    from bots_client import EffectiveGroups, RolloutsBudget

    (total, least, most), (groups, confidence, max_count) = budget, wanted
    if (count is None) == (groups is None):
        raise typer.BadParameter("pass either COUNT or --want-effective")
    if total is None and (least, most) != (None, None):
        raise typer.BadParameter("--min-rollouts and --max-rollouts need --rollouts-budget")
    if groups is None and (confidence, max_count) != (None, None):
        raise typer.BadParameter("--confidence and --max-count need --want-effective")
    return {
        "count": count,
        "rollouts_budget": None if total is None else RolloutsBudget(total, least, most),
        "want_effective": None if groups is None else EffectiveGroups(groups, confidence, max_count),
    }


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


def quota_of(text: str) -> tuple[str, int | float]:
    """Return the tag with its count (`math=24`) or its share (`math=0.75`)."""
    tag, equals, wanted = text.rpartition("=")
    if equals and wanted.isdecimal():
        return tag, int(wanted)
    if equals and re.fullmatch(r"[01]\.\d+", wanted):
        return tag, float(wanted)
    raise typer.BadParameter(f"{text!r} is not TAG=COUNT, as in math=24 or math=0.75", param_hint="--quota")


def readable(selection: "Selection") -> "RenderableType":
    """Return a selection as a table."""
    from rich.console import Group

    has_rollouts = any(task.rollouts is not None for task in selection.tasks)
    rows = (
        (
            task.id,
            number(task.draw),
            number(task.mean),
            number(task.effective),
            *([count(task.rollouts)] * has_rollouts),
        )
        for task in selection.tasks
    )
    reused = f"; {count(selection.reused)} of them are also in another selection" if selection.reused else ""
    expected = selection.expected_effective
    wish = "" if expected is None else f"; {number(expected)} effective groups expected"
    line = f"selection {selection.selection_id} at step {count(selection.step)}{wish}{reused}"
    columns = "task  >draw  >mean  >effective" + "  >rollouts" * has_rollouts
    return Group(table(columns, rows), line)


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
