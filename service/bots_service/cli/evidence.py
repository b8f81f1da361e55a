"""`bots import-evidence`: let a run learn from rollouts of earlier training."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bots_service.cli.connection import AsJson, Dataset, RunName, Url, connected
from bots_service.cli.output import count, counted, show

if TYPE_CHECKING:
    from bots_client import PastOutcome, PastReceipt

File = Annotated[
    Path,
    typer.Argument(
        help="CSV, JSON or Parquet with the columns task, successes and trials (or rewards), and age (in steps) or at "
        "(a time).",
        exists=True,
        dir_okay=False,
        show_default=False,
    ),
]
Age = Annotated[float | None, typer.Option(help="Age in steps of rows that have none.", min=0, show_default=False)]
SecondsPerStep = Annotated[
    float | None, typer.Option(help="How long a step took: turns times into ages.", min=1e-6, show_default=False)
]
Now = Annotated[str | None, typer.Option(help="The time whose age is 0.", show_default="the newest of the file")]


def import_evidence(
    dataset: Dataset,
    file: File,
    *,
    run: RunName = "default",
    age: Age = None,
    seconds_per_step: SecondsPerStep = None,
    now: Now = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Let a run learn from rollouts of earlier training, each weighted by its age.

    They are not the run's own: attempts, totals and steps stay as they are.

    A file counts once, so you can repeat an import that failed.
    """
    from bots_service.cli.past_files import Ages, moment_of, read_past, send_past

    outcomes = read_past(file, Ages(age, seconds_per_step, moment_of(now)))
    if not outcomes:
        raise typer.BadParameter("the file has no rows", param_hint="FILE")
    with connected(url) as client:
        receipts = list(send_past(client, dataset, run, outcomes))
    said = {"dataset": dataset, "run": run, **summary(outcomes, receipts)}
    show(said, lambda: in_words(said), as_json=as_json)


def summary(outcomes: list["PastOutcome"], receipts: list["PastReceipt"]) -> dict[str, Any]:
    """Return what was imported: outcomes, the oldest first, and the receipts of their parts."""
    fresh = [one for one in receipts if not one.duplicate]
    return {
        "outcomes": sum(one.outcomes for one in fresh),
        "rollouts": sum(one.rollouts for one in fresh),
        "counted_before": sum(one.outcomes for one in receipts if one.duplicate),
        "oldest_age": outcomes[0].age,
        "newest_age": outcomes[-1].age,
        "capability": receipts[-1].capability,
        "seq": receipts[-1].seq,
    }


def in_words(said: dict[str, Any]) -> str:
    """Describe an import in words."""
    oldest, newest = count(said["oldest_age"]), count(said["newest_age"])
    ago = counted(said["oldest_age"], "step") if oldest == newest else f"{oldest} to {newest} steps"
    before = f"; {count(said['counted_before'])} more had been imported before" if said["counted_before"] else ""
    return (
        f"run {said['run']} of {said['dataset']} learned from {counted(said['outcomes'], 'outcome')} with "
        f"{counted(said['rollouts'], 'rollout')} from {ago} ago{before}"
    )
