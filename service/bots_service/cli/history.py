"""`bots history`, `curve`, `calibration`, `journal`, `rewind`, `snapshot`: a run's belief and history."""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from bots_service.cli.connection import AsJson, Dataset, RunName, Url, connected
from bots_service.cli.output import count, moment, number, short, show, sparkline, table, task_count

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bots_client import Curve, JournalEntry


STEPS_SHOWN = 20


class JournalKind(StrEnum):
    """The kinds of entries: `kinds` of the client's `journal`."""

    REPORT = "report"
    SETTINGS = "settings"
    FORGET = "forget"
    REWIND = "rewind"
    FORK = "fork"


def history(
    dataset: Dataset,
    run: RunName = "default",
    after_step: Annotated[
        int | None, typer.Option(help="Only steps after this one.", min=0, show_default=False)
    ] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of steps.", min=1)] = STEPS_SHOWN,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show the last closed steps of a run, or the steps after --after-step."""
    with connected(url) as client:
        if after_step is None:
            after_step = max(client.run(dataset, run).step - limit, 0)
        found = list(client.history(dataset, run, after_step=after_step, limit=limit))
    rows = (
        (
            count(one.step),
            count(one.reported),
            count(one.new_tasks),
            number(one.effective_task_ratio),
            number(one.mean_pass_rate),
            number(one.capability),
            number(one.brier),
            short(one.tokens) if one.tokens else "-",
            short(one.seconds / 3600) if one.seconds else "-",
            moment(one.time),
        )
        for one in found
    )
    columns = ">step  >tasks  >new  >ETR  >pass rate  >capability?  >Brier  >tokens?  >GPU hours?  time"
    nothing = f"run {run} has no closed steps after step {after_step}"
    show({"history": found}, lambda: table(columns, rows) if found else nothing, as_json=as_json)


def rewind(
    dataset: Dataset,
    step: Annotated[int, typer.Argument(help="Step to go back to.", min=0, show_default=False)],
    run: RunName = "default",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Rewind a run to a step, for example to a trainer's checkpoint.

    Its journal is kept. Reports for selections made before the rewind are rejected.
    """
    with connected(url) as client:
        found = client.rewind(dataset, step, run)
    line = f"run {run} of {dataset} is back at step {count(found.step)}, in epoch {found.epoch}"
    show(found, lambda: line, as_json=as_json)


def snapshot(
    dataset: Dataset,
    run: RunName = "default",
    list_: Annotated[bool, typer.Option("--list", help="List the stored snapshots instead of storing one.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Store a snapshot of a run's state, so that recovery is faster."""
    with connected(url) as client:
        found = list(client.snapshots(dataset, run)) if list_ else [client.snapshot(dataset, run)]
    rows = (
        (count(one.step), count(one.epoch), count(one.seq), count(one.bytes), one.checksum, moment(one.created_at))
        for one in found
    )
    nothing = f"run {run} has no snapshots yet"
    show(
        {"snapshots": found} if list_ else found[0],
        lambda: table(">step  >epoch  >entry  >bytes  checksum  stored", rows) if found else nothing,
        as_json=as_json,
    )


POINTS_SHOWN = 20
STEPS_COMPARED = 200


def curve(
    dataset: Dataset,
    run: RunName = "default",
    points: Annotated[int, typer.Option(help="Maximum number of points.", min=1, max=2000)] = POINTS_SHOWN,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show the trend of a run in a few points; each point aggregates consecutive steps."""
    with connected(url) as client:
        found = client.curve(dataset, run, points=points)
    nothing = f"run {run} has no closed steps yet"
    show(found, lambda: _curve_table(found) if found.points else nothing, as_json=as_json)


def calibration(
    dataset: Dataset,
    run: RunName = "default",
    steps: Annotated[
        int, typer.Option(help="Number of steps to compare, counted from the last.", min=1, max=1000)
    ] = STEPS_COMPARED,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Compare predicted and observed success rates."""
    with connected(url) as client:
        found = client.calibration(dataset, run, steps=steps)
    rows = (
        (
            f"{number(one.low, 1)} to {number(one.high, 1)}",
            count(one.rollouts),
            number(one.mean_prediction),
            number(one.success_rate),
        )
        for one in found.bins
    )
    nothing = f"run {run} has no closed steps with outcomes yet"
    show(
        found,
        lambda: table("predicted  >rollouts  >mean prediction  >success rate", rows) if found.steps else nothing,
        as_json=as_json,
    )


def _curve_table(found: "Curve") -> "RenderableType":
    """Return the points as a table; on a terminal, under a sparkline of the effective task ratios."""
    rows = (
        (
            f"{count(one.first_step)} to {count(one.last_step)}",
            count(one.reported),
            count(one.new_tasks),
            number(one.effective_task_ratio),
            number(one.success_rate),
            number(one.capability),
            number(one.brier),
        )
        for one in found.points
    )
    shown = table("steps  >tasks  >new  >ETR  >success rate  >capability?  >Brier", rows)
    if not sys.stdout.isatty():
        return shown
    from rich.console import Group

    return Group(f"ETR {sparkline(one.effective_task_ratio for one in found.points)}", shown)


def journal(
    dataset: Dataset,
    run: RunName = "default",
    kind: Annotated[
        list[JournalKind] | None,
        typer.Option(help="Only entries of this kind; repeat it for several.", show_default="all"),
    ] = None,
    limit: Annotated[int, typer.Option(help="Maximum number of entries.", min=1)] = 50,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show a run's journal, newest entry first, including entries undone by a rewind."""
    with connected(url) as client:
        found = list(client.journal(dataset, run, kinds=kind or (), limit=limit))
    rows = (
        (
            count(one.seq),
            count(one.epoch),
            count(one.step),
            one.kind,
            entry_text(one),
            "yes" * one.hidden,
            moment(one.time),
        )
        for one in found
    )
    columns = ">entry  >epoch  >step  kind  what  hidden  time"
    show(
        {"entries": found}, lambda: table(columns, rows) if found else f"run {run} has no entries yet", as_json=as_json
    )


def entry_text(entry: "JournalEntry") -> str:
    """Describe a journal entry in words."""
    if entry.tasks is not None:
        closes = ", closed a step" if entry.closed else ""
        return (
            f"{count(entry.rollouts)} rollouts of {task_count(entry.tasks)}, {count(entry.effective)} effective{closes}"
        )
    skipped = "" if entry.skipped is None else f" (skipped: {entry.skipped})"
    if entry.changed is not None:
        return ", ".join(f"{name}={value}" for name, value in entry.changed.items()) + skipped
    return "" if entry.to_step is None else f"back to step {count(entry.to_step)}"
