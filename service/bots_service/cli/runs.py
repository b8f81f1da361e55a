"""`bots runs`, and what is done with one run: `bots select`, `report`, `tasks`, `history`, `rewind`, `export` etc."""

import json
import math
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bots_service.cli.connection import Dataset, RunName, Yes, command
from bots_service.cli.output import CommandError, Result, confirm, counted, details, progress_line, table, written
from bots_service.core.rounding import half_up
from bots_service.core.run_settings import CapabilityRule, StrategyName

if TYPE_CHECKING:
    from bots_client import Client, Outcome

app = typer.Typer(no_args_is_help=True, help="Create, list, change and delete runs.")

Name = Annotated[str, typer.Argument(help="Name of the run.")]


@command(app, "list")
def list_(
    client: "Client", dataset: Annotated[str | None, typer.Argument(help="Only the runs of this dataset.")] = None
) -> Result:
    """List runs."""
    found = list(client.runs(dataset))
    if dataset and not found:
        client.dataset(dataset)  # says if there is no such dataset
    columns = "" if dataset else "dataset  "
    columns += "run  status  verdict=verdict.kind  belief  strategy  step  recent ETR=effective_task_ratio"
    columns += "  vs uniform=gain.factor"
    if any(one.evaluation for one in found):
        columns += "  measured=evaluation.name  value=evaluation.value  vs baseline=evaluation.difference"
    return {"runs": found}, table(columns, found)


@command(app, "show")
def show_(client: "Client", dataset: Dataset, run: Name = "default") -> Result:
    """Describe a run: step, status, last evaluation, estimates, totals, coverage, settings."""
    found, summary = client.run(dataset, run), client.summary(dataset, run)
    known = {one.name: getattr(found, one.name) for one in fields(found)}
    known |= {"status": summary.status, "evaluation": summary.evaluation}
    shown = details({name.replace("_", " "): value for name, value in known.items()})
    return {**known, "evaluations": summary.evaluations}, shown


def settings_of(
    *,
    belief: Annotated[str | None, typer.Option(help="Kind of belief: tracker (default) or bots.")] = None,
    forgetting: Annotated[float | None, typer.Option(help="With bots: past evidence a step drops (lambda).")] = None,
    implicit_weight: Annotated[float | None, typer.Option(help="With bots: weight of implied evidence (rho).")] = None,
    rollouts_per_task: Annotated[
        float | None, typer.Option(help="Rollouts that one implied observation counts for; 0: learned from reports.")
    ] = None,
    target: Annotated[float | None, typer.Option(help="Target success rate.")] = None,
    prior: Annotated[tuple[float, float] | None, typer.Option(help="With bots: every task's alpha and beta.")] = None,
    capability: Annotated[CapabilityRule | None, typer.Option(help="With bots: how it is estimated.")] = None,
    capability_momentum: Annotated[float | None, typer.Option(help="With bots: its momentum (gamma).")] = None,
    strategy: Annotated[StrategyName | None, typer.Option(help="Default: pass, or thompson with bots.")] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed.")] = None,
    tasks_per_step: Annotated[
        int | None, typer.Option(help="Close a step after this many reported tasks; 0: after each report.")
    ] = None,
    reward_range: Annotated[
        tuple[float, float] | None, typer.Option(help="Lowest and highest possible reward.")
    ] = None,
    lease_seconds: Annotated[
        float | None, typer.Option(help="Seconds until a selected task may be selected again, unless it is reported.")
    ] = None,
    mix: Annotated[
        list[str] | None, typer.Option(help='Weight of a tag, as in math=3; repeat for each. "none" ends the mix.')
    ] = None,
) -> dict[str, Any]:
    """Return the settings that are given."""
    given = {name: value for name, value in locals().items() if value is not None}
    given |= {name: None for name in ("rollouts_per_task", "tasks_per_step") if given.get(name) == 0}
    return given if mix is None else {**given, "mix": _mix_of(mix)}


def _mix_of(options: list[str]) -> dict[str, float]:
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


@command(app, parser=settings_of)
def create(
    client: "Client",
    dataset: Dataset,
    run: Annotated[str, typer.Argument(help="Name of the run.")],
    *,
    settings: dict[str, Any],
) -> Result:
    """Create a run, or replace the settings of an empty run; omitted settings take their defaults."""
    from bots_client import NotFoundError

    before = None
    with suppress(NotFoundError):
        before = client.run(dataset, run).settings
    made = client.create_run(dataset, run, **settings)
    said = "exists, unchanged" if before == made.settings else "created" if before is None else "has new settings"
    return made, f"run {run} of {dataset}: {said} ({made.settings.belief}, {made.settings.strategy})"


@command(app, "set", parser=settings_of)
def set_(client: "Client", dataset: Dataset, run: Name = "default", *, settings: dict[str, Any]) -> Result:
    """Change settings of a run from the next step on; omitted settings keep their values."""
    if not settings:
        raise typer.BadParameter("pass at least one setting, such as --target 0.5", param_hint="settings")
    changed = client.update_run(dataset, run, **settings)
    news = ", ".join(f"{name} {written(getattr(changed.settings, name))}" for name in settings)
    return changed, f"run {run} of {dataset}: {news} from step {changed.step + 1} on"


@command(app)
def finish(client: "Client", dataset: Dataset, run: Name = "default") -> Result:
    """Say that training ended; adapters do it. The run's next selection or report takes it back."""
    client.finish(dataset, run)
    return {"dataset": dataset, "finished": run}, f"run {run} of {dataset} is finished"


Deleted = Annotated[str, typer.Argument(help='Name of the run; "default" is emptied.')]


@command(app)
def delete(client: "Client", dataset: Dataset, run: Deleted, yes: Yes = False) -> Result:
    """Permanently delete a run and its history."""
    step = client.run(dataset, run).step
    confirm(f"Permanently delete run {run} of {dataset} at step {written(step)}?", yes=yes)
    client.delete_run(dataset, run)
    return {"dataset": dataset, "deleted": run}, f"run {run} of {dataset} is deleted"


# --- training by hand, and what came of it ----------------------------------------------------------------------------

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
    if (number_of_tasks is None) == (want_effective is None):
        raise typer.BadParameter("pass either COUNT or --want-effective")
    found = client.select(dataset, number_of_tasks, run=run, tags=tag, want_effective=want_effective)
    line = f"selection {found.selection_id} at step {written(found.step)}"
    if found.expected_effective is not None:
        line += f"; {half_up(found.expected_effective, 1)} effective groups expected"
    if found.reused:
        line += f"; {written(found.reused)} of them are also in another selection"
    return found, table("task=id  draw  mean  effective", found.tasks, caption=line)


FORMS = "TASK=SUCCESSES/TRIALS, TASK=REWARD,REWARD,... or TASK=aborted"
Outcomes = Annotated[list[str], typer.Argument(help="math-17=7/16, math-4=0,1,0.5 or math-9=aborted")]
OfSelection = Annotated[str | None, typer.Option(help="ID of the selection that these tasks belong to.")]


def report(
    client: "Client",
    dataset: Dataset,
    outcome: Outcomes,
    run: RunName = "default",
    selection: OfSelection = None,
) -> Result:
    """Report rollout outcomes."""
    receipt = client.report(dataset, map(_outcome_of, outcome), run=run, selection=selection)
    if receipt.duplicate:
        return receipt, f"already counted as entry {receipt.seq}; nothing changed"
    which = f"step {receipt.step} is closed" if receipt.closed else f"the step after {receipt.step} is open"
    tasks = f"{counted(receipt.reported, 'task')}, {receipt.new_tasks} new, {receipt.effective} effective"
    late = f"; {receipt.late} late, {receipt.expired} too late to count" if receipt.late or receipt.expired else ""
    return receipt, f"{which}: {tasks} (ETR {written(receipt.effective_task_ratio)}){late}"


def _outcome_of(text: str) -> "Outcome":
    """Return the outcome in an argument: one of FORMS."""
    from bots_client import InvalidRequestError, Outcome

    task, equals, result = text.rpartition("=")  # a task's id may hold an equals sign, its result can't
    successes, slash, trials = result.partition("/")
    try:
        if not (equals and task):
            raise ValueError(text)
        if result == "aborted":
            return Outcome.aborted(task)
        if slash:
            return Outcome.counts(task, float(successes), float(trials))
        rewards = [float(reward) for reward in result.split(",")]
        if not all(map(math.isfinite, rewards)):
            raise ValueError(text)
        return Outcome.rewards(task, rewards)
    except (ValueError, InvalidRequestError) as error:
        raise typer.BadParameter(f"{text!r} is not one of {FORMS}", param_hint="OUTCOME") from error


Ids = Annotated[list[str] | None, typer.Argument(help="Task IDs; all tasks if there are none.")]
Tag = Annotated[str | None, typer.Option(help="Only tasks with this tag.")]
Search = Annotated[str | None, typer.Option(help="Only tasks whose ID contains this text, ignoring case.")]
# As in `core.task_table`, whose import would load numpy.
OneSegment = Annotated[
    Literal["untried", "aborting", "unsolved", "teaching", "solved", "retired"] | None,
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
    each = ", ".join(f"{written(value)} {name}" for name, value in asdict(counts).items())
    columns = "task=id  segment  mean  90 % within=interval  effective  attempts  successes  visits  last_step  tags"
    shown = table(columns, found, caption=f"{written(len(found))} of {written(matching)} tasks; {each}")
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
        "step  reported  new_tasks  ETR=effective_task_ratio  success_rate  capability  brier  tokens  seconds  time"
    )
    return {"history": found}, table(columns, found, nothing=f"run {run} has no closed steps")


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
    return found, f"run {run} of {dataset} is back at step {written(found.step)}, in epoch {found.epoch}"


# --- moving runs ----------------------------------------------------------------------------------------------------


def export(
    client: "Client",
    dataset: Dataset,
    run: RunName = "default",
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Output file.", show_default="DATASET.RUN.ndjson", dir_okay=False),
    ] = None,
) -> Result:
    """Export a run to a file: its journal, one entry a line."""
    file = output or Path(f"{dataset}.{run}.ndjson")
    if file.exists():
        raise CommandError(f"{file} already exists; remove it, or choose another file with -o")
    size, part = 0, file.with_name(f".{file.name}.{os.getpid()}.part")  # never a truncated file under the real name
    try:
        with part.open("xb") as opened, progress_line() as advance:
            for chunk in client.export_run(dataset, run):
                size += opened.write(chunk)
                advance(None, f"{size / 1e6:,.1f} MB")
            opened.flush()
            os.fsync(opened.fileno())
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
    return {"file": str(file), "bytes": size}, f"{file}: {written(size)} bytes"


ImportedFile = Annotated[Path, typer.Argument(help="File written by `bots export`.", exists=True, dir_okay=False)]
AsRun = Annotated[str | None, typer.Option(help="Name of the new run.", show_default="as in the file", metavar="NAME")]
UnderBelief = Annotated[
    str | None, typer.Option(help="Replay it under this belief, tracker or bots.", show_default="as in the file")
]


def import_(client: "Client", file: ImportedFile, run: AsRun = None, belief: UnderBelief = None) -> Result:
    """Import a run from a file written by `bots export`, into a dataset with the same tasks: all of it or nothing."""
    header = _header_of(file)
    if belief is not None:
        header["settings"]["belief"] = belief

    def lines() -> Iterator[bytes]:
        with file.open("rb") as opened:
            opened.readline()
            yield json.dumps(header).encode() + b"\n"
            while piece := opened.read(2**16):
                yield piece

    names, size = (header["dataset"], run or header["run"]), file.stat().st_size
    with progress_line() as advance:
        imported = client.import_run(lines, *names, on_progress=lambda sent, _: advance(sent / size, "sent"))
    return imported, f"{imported.run} of {imported.dataset}: {written(imported.seq)} entries"


def _header_of(file: Path) -> dict[str, Any]:
    with file.open("rb") as opened, suppress(ValueError):
        header = json.loads(opened.readline())
        if isinstance(header, dict) and {"dataset", "run", "settings"} <= header.keys():
            return header
    raise CommandError(f"{file} is no exported run: its first line is no header")
