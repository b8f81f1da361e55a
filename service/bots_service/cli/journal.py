"""`bots journal`: all that ever changed a run."""

from typing import TYPE_CHECKING, Annotated

import typer

from bots_service.cli.connection import AsJson, Dataset, RunName, Url, connected
from bots_service.cli.output import count, moment, show, table, tasks_told

if TYPE_CHECKING:
    from bots_client import JournalEntry


def journal(
    dataset: Dataset,
    run: RunName = "default",
    limit: Annotated[int, typer.Option(help="At most so many.", min=1)] = 50,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show what changed a run, the newest first; what a rewind took out of its history too."""
    with connected(url) as client:
        found = list(client.journal(dataset, run, limit=limit))
    rows = (
        (count(one.seq), count(one.epoch), count(one.step), one.kind, said(one), "yes" * one.hidden, moment(one.time))
        for one in found
    )
    columns = ">entry  >epoch  >step  kind  what  hidden  time"
    show({"entries": found}, lambda: table(columns, rows) if found else f"run {run} is empty yet", as_json=as_json)


def said(entry: "JournalEntry") -> str:
    """Return what an entry did, to read."""
    if entry.tasks is not None:
        closes = ", closed a step" if entry.closed else ""
        return (
            f"{count(entry.rollouts)} rollouts of {tasks_told(entry.tasks)}, {count(entry.effective)} effective{closes}"
        )
    if entry.changed is not None:
        return ", ".join(f"{name}={value}" for name, value in entry.changed.items())
    return "" if entry.to_step is None else f"back to step {count(entry.to_step)}"
