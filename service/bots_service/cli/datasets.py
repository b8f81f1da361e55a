"""`bots datasets`: pools of tasks."""

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bots_service.cli.confirm import confirm
from bots_service.cli.connection import AsJson, Dataset, Url, connected
from bots_service.cli.output import count, moment, sheet, show, table, tasks_told

if TYPE_CHECKING:
    from bots_client import Dataset as Described
    from bots_service.cli.task_files import Columns

app = typer.Typer(help="Make, list, change and delete datasets.", no_args_is_help=True)

File = Annotated[
    Path, typer.Argument(help="CSV, JSON Lines or Parquet.", exists=True, dir_okay=False, show_default=False)
]
Id = Annotated[str, typer.Option("--id", help="Column with the ids.", metavar="COLUMN")]
References = Annotated[
    list[str] | None,
    typer.Option("--reference", help="Column with a reference model's pass rates, weakest first.", metavar="COLUMN"),
]
Tags = Annotated[list[str] | None, typer.Option("--tag", help="Column whose values become tags.", metavar="COLUMN")]
TAGS_SHOWN = 20


@app.command("import")
def import_(
    file: File,
    name: Annotated[str | None, typer.Option(help="Name of the dataset.", show_default="the file's")] = None,
    id_: Id = "id",
    reference: References = None,
    tag: Tags = None,
    description: Annotated[str, typer.Option(help="For people.", show_default=False)] = "",
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Make a dataset of a file, streamed.

    A .jsonl or .parquet file that is as the service reads it (id, reference_pass_rates, tags) needs no columns named.
    """
    from bots_service.cli.upload import import_file

    name = name or re.sub(r"[^A-Za-z0-9._-]+", "-", file.stem)
    with connected(url) as client:
        dataset = import_file(client, name, file, columns_of(id_, reference, tag), description)
    show(dataset, lambda: sheet(described(dataset)), as_json=as_json)


@app.command()
def append(
    dataset: Dataset,
    file: File,
    id_: Id = "id",
    reference: References = None,
    tag: Tags = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Add the tasks of a file to a dataset: all, or none if one is refused."""
    from bots_service.cli.upload import append_file

    with connected(url) as client:
        change = append_file(client, dataset, file, columns_of(id_, reference, tag))
    said = f"{tasks_told(change.added)} added to {dataset}; it has {count(change.tasks)} now"
    show(change, lambda: said, as_json=as_json)


@app.command("list")
def list_(url: Url = None, as_json: AsJson = False) -> None:
    """List the datasets."""
    with connected(url) as client:
        found = list(client.datasets())
    rows = (
        (one.name, count(one.tasks), count(one.retired), ", ".join(one.reference_models) or "-", moment(one.created_at))
        for one in found
    )
    nothing = "no datasets yet; `bots datasets import FILE` makes one"
    show(
        {"datasets": found},
        lambda: table("dataset  >tasks  >retired  references  created", rows) if found else nothing,
        as_json=as_json,
    )


@app.command("show")
def show_(dataset: Dataset, url: Url = None, as_json: AsJson = False) -> None:
    """Describe a dataset."""
    with connected(url) as client:
        found = client.dataset(dataset)
    show(found, lambda: sheet(described(found)), as_json=as_json)


@app.command()
def retire(
    dataset: Dataset,
    ids: Annotated[list[str], typer.Argument(help='Tasks; "-" reads them from stdin, one a line.', show_default=False)],
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Take tasks out of all further selections."""
    chosen = [line.rstrip("\r\n") for line in sys.stdin if line.strip()] if ids == ["-"] else ids
    with connected(url) as client:
        change = client.retire_tasks(dataset, chosen)
    said = f"{tasks_told(change.retired)} of {dataset} retired; {count(change.tasks)} are left"
    show(change, lambda: said, as_json=as_json)


@app.command()
def delete(
    dataset: Dataset,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Delete a dataset with its runs and all they learned, for ever."""
    with connected(url) as client:
        found = client.dataset(dataset)
        confirm(f"Delete dataset {dataset} with {tasks_told(found.tasks)} and all its runs, for ever?", yes=yes)
        client.delete_dataset(dataset)
    show({"deleted": dataset}, lambda: f"{dataset} is deleted", as_json=as_json)


def columns_of(id_: str, references: list[str] | None, tags: list[str] | None) -> "Columns":
    """Return the columns that the options name."""
    from bots_service.cli.task_files import Columns

    return Columns(id_, tuple(references or ()), tuple(tags or ()))


def described(dataset: "Described") -> dict[str, str]:
    """Return what a dataset is, to read."""
    tags = [f"{tag} ({count(tasks)})" for tag, tasks in dataset.tags.items()]
    if len(tags) > TAGS_SHOWN:
        tags = [*tags[:TAGS_SHOWN], f"and {len(tags) - TAGS_SHOWN} more"]
    return {
        "dataset": dataset.name,
        "description": dataset.description or "-",
        "tasks": count(dataset.tasks) + (f", and {count(dataset.retired)} retired" if dataset.retired else ""),
        "references": ", ".join(dataset.reference_models) or "-",
        "profiles": count(dataset.profiles),
        "tags": ", ".join(tags) or "-",
        "digest": dataset.digest,
        "created": moment(dataset.created_at),
    }
