"""`bots select`, `report`, `tasks`, `history`, `rewind`, `compare-beliefs`: training by hand, and what came of it."""

import asyncio
import math
from collections.abc import AsyncIterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bots_service.cli.connection import Dataset, RunName
from bots_service.cli.output import Result, count, counted, number, table

if TYPE_CHECKING:
    from bots_client import Client, Outcome, Receipt
    from bots_service.core.comparison import BeliefComparison

TaskCount = Annotated[
    int | None, typer.Argument(metavar="COUNT", help="Number of tasks; leave it out with --want-effective.", min=1)
]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="Only tasks with one of these tags.")]
Wanted = Annotated[
    int | None, typer.Option(help="Select enough tasks for so many effective groups, in place of COUNT.", min=1)
]


def select(
    client: "Client",
    dataset: Dataset,
    number_of_tasks: TaskCount = None,
    run: RunName = "default",
    tag: Tags = None,
    want_effective: Wanted = None,
) -> Result:
    """Select the tasks to train on next."""
    from rich.console import Group

    if (number_of_tasks is None) == (want_effective is None):
        raise typer.BadParameter("pass either COUNT or --want-effective")
    found = client.select(dataset, number_of_tasks, run=run, tags=tag, want_effective=want_effective)
    line = f"selection {found.selection_id} at step {count(found.step)}"
    if found.expected_effective is not None:
        line += f"; {number(found.expected_effective)} effective groups expected"
    if found.reused:
        line += f"; {count(found.reused)} of them are also in another selection"
    return found, Group(table("task=id  draw  mean  effective", found.tasks), line)


FORMS = "TASK=SUCCESSES/TRIALS, TASK=REWARD,REWARD,..., TASK=SUCCESSES/TRIALS:REWARD,REWARD,... or TASK=aborted"
FLAGS = {":effective": True, ":ineffective": False}
Outcomes = Annotated[
    list[str] | None, typer.Argument(help="math-17=7/16, math-4=0,1,0.5, math-5=1/3:1.2,0.2,0 or math-9=aborted")
]
OfSelection = Annotated[str | None, typer.Option(help="ID of the selection that these tasks belong to.")]
Close = Annotated[
    bool | None,
    typer.Option(
        "--close/--keep-open", help="Close the training step or not.", show_default="as the run's settings say"
    ),
]


def report(
    client: "Client",
    dataset: Dataset,
    outcome: Outcomes = None,
    run: RunName = "default",
    selection: OfSelection = None,
    close: Close = None,
) -> Result:
    """Report rollout outcomes."""
    outcomes = [outcome_of(text) for text in outcome or ()]
    if not outcomes and close is not True:
        raise typer.BadParameter(f"pass {FORMS}, or --close", param_hint="OUTCOME")
    receipt = client.report(dataset, outcomes, run=run, selection=selection, close_step=close)
    return receipt, receipt_text(receipt)


def outcome_of(text: str) -> "Outcome":
    """Return the outcome in an argument.

    Counts are `math-17=7/16`, rewards are `math-4=0,1,0.5`, both are `math-5=1/3:1.2,0.2,0`. A task whose rollouts did
    not finish is `math-9=aborted`. `:effective` or `:ineffective` at the end says whether the group gives a gradient.

    Raises:
        typer.BadParameter: the argument has none of these forms.
    """
    from bots_client import InvalidRequestError, Outcome

    task, equals, result = text.rpartition("=")  # a task's id may hold an equals sign, its result can't
    flag = next((flag for flag in FLAGS if result.endswith(flag)), "")
    effective = FLAGS.get(flag)
    first, colon, second = result.removesuffix(flag).partition(":")
    successes, slash, trials = first.partition("/")
    try:
        if not (equals and task):
            raise ValueError(text)
        if result == "aborted":
            return Outcome.aborted(task)
        if not slash:
            return Outcome.rewards(task, _numbers(first), effective=effective)
        rewards = _numbers(second) if colon else None
        return Outcome.counts(task, float(successes), float(trials), rewards=rewards, effective=effective)
    except (ValueError, InvalidRequestError) as error:
        raise typer.BadParameter(f"{text!r} is not one of {FORMS}", param_hint="OUTCOME") from error


def _numbers(text: str) -> list[float]:
    numbers = [float(number) for number in text.split(",")]
    if not all(map(math.isfinite, numbers)):
        raise ValueError(text)
    return numbers


def receipt_text(receipt: "Receipt") -> str:
    """Describe a receipt in words."""
    if receipt.duplicate:
        return f"already counted as entry {receipt.seq}; nothing changed"
    which = f"step {receipt.step} is closed" if receipt.closed else f"the step after {receipt.step} is open"
    tasks = f"{counted(receipt.reported, 'task')}, {receipt.new_tasks} new, {receipt.effective} effective"
    late = f"; {receipt.late} late, {receipt.expired} too late to count" if receipt.late or receipt.expired else ""
    return f"{which}: {tasks} (ETR {number(receipt.effective_task_ratio)}){late}"


Ids = Annotated[list[str] | None, typer.Argument(help="Task IDs; all tasks if there are none.")]
Tag = Annotated[str | None, typer.Option(help="Only tasks with this tag.")]
Search = Annotated[str | None, typer.Option(help="Only tasks whose ID contains this text, ignoring case.")]
# As in `core.task_table`, whose import would load numpy.
OneSegment = Annotated[
    Literal["untried", "aborting", "stuck", "teaching", "solved", "retired"] | None,
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
    client: "Client",
    dataset: Dataset,
    ids: Ids = None,
    *,
    run: RunName = "default",
    tag: Tag = None,
    search: Search = None,
    segment: OneSegment = None,
    sort: Sort = None,
    limit: Annotated[int, typer.Option(help="Maximum number of tasks.", min=1)] = 100,
) -> Result:
    """Show a run's predicted success rate for each task, and how many tasks each segment has."""
    ids = ids or []
    found = list(client.tasks(dataset, run, ids=ids, tag=tag, search=search, segment=segment, sort=sort, limit=limit))
    counts = client.count_tasks(dataset, run, ids=ids, tag=tag, search=search)
    matching = counts.available if segment is None else getattr(counts, segment)
    each = ", ".join(f"{count(value)} {name}" for name, value in asdict(counts).items())
    columns = "task=id  segment  mean  90 % within=interval  effective  attempts  successes  visits  last_step  tags"
    shown = table(columns, found, caption=f"{count(len(found))} of {count(matching)} tasks; {each}")
    return {"tasks": found, "matching": matching, "segments": counts}, shown if found else f"no task matches; {each}"


def history(
    client: "Client",
    dataset: Dataset,
    run: RunName = "default",
    limit: Annotated[int, typer.Option(help="Maximum number of steps.", min=1)] = 20,
) -> Result:
    """Show the last closed steps of a run."""
    found = list(client.history(dataset, run, after_step=max(client.run(dataset, run).step - limit, 0), limit=limit))
    columns = (
        "step  reported  new_tasks  ETR=effective_task_ratio  mean_pass_rate  capability  brier  tokens  seconds  time"
    )
    return {"history": found}, table(columns, found) if found else f"run {run} has no closed steps"


def rewind(
    client: "Client",
    dataset: Dataset,
    step: Annotated[int, typer.Argument(help="Step to go back to.", min=0)],
    run: RunName = "default",
) -> Result:
    """Rewind a run to a step, for example to a trainer's checkpoint.

    Its journal is kept. Reports for selections made before the rewind are rejected.
    """
    found = client.rewind(dataset, step, run)
    return found, f"run {run} of {dataset} is back at step {count(found.step)}, in epoch {found.epoch}"


def compare_beliefs(client: "Client", dataset: Dataset, run: RunName = "default") -> Result:
    """Fold a run's journal here under each belief, and show how wrong its predictions would have been.

    Smaller errors are better. Predictions from elsewhere are left out.
    """
    journal, tasks = b"".join(client.export_run(dataset, run)), b"".join(client.download_tasks(dataset))
    found = asyncio.run(comparison_of(journal, tasks))
    caption = f"steps with outcomes: {count(found.steps)}, rollouts: {count(found.rollouts)}"
    return asdict(found), table("belief  log_loss  brier", found.beliefs, caption=caption)


async def comparison_of(journal: bytes, tasks: bytes) -> "BeliefComparison":
    """Return the comparison for an exported run and its dataset's tasks as NDJSON."""
    from bots_service.api.task_formats.text import read_ndjson
    from bots_service.core.comparison import compared
    from bots_service.core.run_settings import RunSettings, settings_from
    from bots_service.datasets import DatasetBuilder, DatasetHeader
    from bots_service.moving import read_entry, read_header
    from bots_service.records import DatasetFacts
    from bots_service.storage.sql.journal import entry_of

    async def chunks() -> AsyncIterator[bytes]:
        yield tasks

    first, *lines = journal.splitlines()
    header, file = read_header(first), await read_ndjson(chunks())
    models, chosen = file.header.reference_models or (), header.tasks
    builder = DatasetBuilder(DatasetHeader(models))
    async for block in file.blocks(len(models)):
        builder.add(block)
    pool = builder.build(DatasetFacts("", models, chosen.reference_order, chosen.offset_tags, 0, 0, {}, ""))[2]
    entries = []
    for place, line in enumerate(lines, 2):
        saved = read_entry(line, place)
        # Predictions tell other profiles apart: without them, all are known from the start.
        profiles = pool.profiles if header.predictions else saved.profiles
        entries.append(replace(entry_of(saved), profiles=profiles))
    others = {"tracker": RunSettings(), "bots": settings_from({"belief": "bots"})}
    return compared(entries, settings_from(header.settings), others, pool)
