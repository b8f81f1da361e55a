"""`bots datasets`: pools of tasks."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bots_service.cli.connection import AsJson, Dataset, Url, connected
from bots_service.cli.output import confirm, count, moment, number, sheet, show, table, task_count

if TYPE_CHECKING:
    from bots_client import Dataset as Described
    from bots_client import Task
    from bots_service.cli.task_files import ReadProgress, Source


class IdSource(StrEnum):
    """What task ids are built from: `id_from` of the client's `TaskColumns`."""

    COLUMNS = "columns"
    CONTENT = "content"
    ROW = "row"


app = typer.Typer(no_args_is_help=True, help="Create, list, change and delete datasets.")

Files = Annotated[
    list[Path],
    typer.Argument(
        help="CSV, JSON, JSON Lines or Parquet; a folder means all its files, in name order.",
        metavar="FILE...",
        exists=True,
        show_default=False,
    ),
]
Id = Annotated[
    list[str] | None,
    typer.Option(
        "--id", help='ID column; repeat it to join several columns with ":".', metavar="COLUMN", show_default="id"
    ),
]
IdFrom = Annotated[
    IdSource,
    typer.Option(
        help="Make IDs from the --id columns' values, a hash of them, or row numbers (from 0, over all files)."
    ),
]
FileInId = Annotated[
    bool,
    typer.Option(
        "--file-in-id",
        help='Prefix each ID with its file\'s name, as in "math:17"; row numbers start at 0 in each file.',
    ),
]
SkipRepeats = Annotated[bool, typer.Option("--skip-repeats", help="Skip rows with a repeated ID.")]
References = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        help="Column with a reference model's pass rates or reward lists; repeat it, weakest model first.",
        metavar="COLUMN",
    ),
]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", help="Column with values that become tags, as in level=hard.", metavar="COLUMN"),
]
Repeatable = Annotated[
    bool, typer.Option("--repeatable", help="Tasks are handed out again without waiting: nothing is leased.")
]
TAGS_SHOWN = 20
TASKS_SHOWN = 5


@app.command("import")
def import_(
    files: Files,
    *,
    name: Annotated[str | None, typer.Option(help="Name of the dataset.", show_default="the file's name")] = None,
    id_: Id = None,
    id_from: IdFrom = IdSource.COLUMNS,
    file_in_id: FileInId = False,
    skip_repeats: SkipRepeats = False,
    reference: References = None,
    tag: Tags = None,
    description: Annotated[str, typer.Option(help="Description for readers.", show_default=False)] = "",
    repeatable: Repeatable = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read all files and show the first tasks; send nothing.")
    ] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Create a dataset from files.

    COLUMN may be a path into a nested column, such as extra_info.index. A .jsonl or .parquet file that has only the
    columns id, reference_pass_rates and tags needs no column options.
    """
    from bots_service.cli.task_files import dataset_name_of
    from bots_service.cli.upload import import_source

    source = source_of(files, id_, id_from, reference, tag, file_in_id=file_in_id, skip_repeats=skip_repeats)
    name = name or dataset_name_of(files)
    if dry_run:
        show_dry_run(source, as_json=as_json)
        return
    with connected(url) as client:
        dataset, progress = import_source(client, name, source, description, repeatable=repeatable)
    print_left_out(progress)
    show(dataset, lambda: sheet(described(dataset)), as_json=as_json)


@app.command()
def append(
    dataset: Dataset,
    files: Files,
    *,
    id_: Id = None,
    id_from: IdFrom = IdSource.COLUMNS,
    file_in_id: FileInId = False,
    skip_repeats: SkipRepeats = False,
    reference: References = None,
    tag: Tags = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Add the tasks in files to a dataset: all of them, or none if one is invalid."""
    from bots_service.cli.upload import append_source

    source = source_of(files, id_, id_from, reference, tag, file_in_id=file_in_id, skip_repeats=skip_repeats)
    with connected(url) as client:
        change, progress = append_source(client, dataset, source)
    print_left_out(progress)
    line = f"{task_count(change.added)} added to {dataset}; it now has {count(change.tasks)}"
    show(change, lambda: line, as_json=as_json)


@app.command("list")
def list_(url: Url = None, as_json: AsJson = False) -> None:
    """List the datasets."""
    with connected(url) as client:
        found = list(client.datasets())
    rows = (
        (one.name, count(one.tasks), count(one.retired), ", ".join(one.reference_models) or "-", moment(one.created_at))
        for one in found
    )
    nothing = "no datasets yet; create one with `bots datasets import FILE`"
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


PredictionsName = Annotated[str, typer.Argument(help="Name of the predictions.", metavar="NAME", show_default=False)]


@app.command()
def predict(
    dataset: Dataset,
    name: PredictionsName,
    file: Annotated[
        Path,
        typer.Argument(
            help="CSV, JSON, JSON Lines or Parquet with the columns id and pass_rate.",
            exists=True,
            dir_okay=False,
            show_default=False,
        ),
    ],
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Put predicted pass rates of tasks, or replace those of the same name; new runs learn how far to trust them."""
    from bots_service.cli.upload import upload_predictions

    with connected(url) as client:
        found = upload_predictions(client, dataset, name, file)
    show(found, lambda: predicted(found, name), as_json=as_json)


@app.command()
def unpredict(dataset: Dataset, name: PredictionsName, url: Url = None, as_json: AsJson = False) -> None:
    """Remove predictions: new runs no longer see them."""
    with connected(url) as client:
        found = client.remove_predictions(dataset, name)
    show(found, lambda: f"new runs of {dataset} no longer see the predictions {name}", as_json=as_json)


def predicted(dataset: "Described", name: str) -> str:
    """Say what was predicted."""
    tasks = next(each.tasks for each in dataset.predictions if each.name == name)
    return f"new runs of {dataset.name} see the predictions {name} of {task_count(tasks)}"


TaskIds = Annotated[
    list[str], typer.Argument(help='Task IDs; "-" reads them from stdin, one per line.', show_default=False)
]


@app.command()
def retire(dataset: Dataset, ids: TaskIds, url: Url = None, as_json: AsJson = False) -> None:
    """Retire tasks: they are not selected until you restore them."""
    with connected(url) as client:
        change = client.retire_tasks(dataset, given_ids(ids))
    line = f"{task_count(change.retired)} of {dataset} retired; {count(change.tasks)} left"
    show(change, lambda: line, as_json=as_json)


@app.command()
def restore(dataset: Dataset, ids: TaskIds, url: Url = None, as_json: AsJson = False) -> None:
    """Restore retired tasks: they can be selected again."""
    with connected(url) as client:
        change = client.restore_tasks(dataset, given_ids(ids))
    line = f"{count(change.tasks)} tasks of {dataset} can be selected; {count(change.retired)} are retired"
    show(change, lambda: line, as_json=as_json)


def given_ids(ids: list[str]) -> list[str]:
    """Return the IDs of an argument, from stdin where it is "-"."""
    return [line.rstrip("\r\n") for line in sys.stdin if line.strip()] if ids == ["-"] else ids


@app.command()
def delete(
    dataset: Dataset,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Permanently delete a dataset with its runs and their history."""
    with connected(url) as client:
        found = client.dataset(dataset)
        confirm(f"Permanently delete dataset {dataset} with {task_count(found.tasks)} and all its runs?", yes=yes)
        client.delete_dataset(dataset)
    show({"deleted": dataset}, lambda: f"{dataset} is deleted", as_json=as_json)


def source_of(
    files: list[Path],
    id_: list[str] | None,
    id_from: IdSource,
    references: list[str] | None,
    tags: list[str] | None,
    *,
    file_in_id: bool,
    skip_repeats: bool,
) -> "Source":
    """Return the files that a command names, and the options that turn their rows into tasks."""
    from bots_client import TaskColumns
    from bots_service.cli.task_files import Source

    ids = "id" if not id_ else id_[0] if len(id_) == 1 else tuple(id_)
    columns = TaskColumns(ids, id_from.value, tuple(references or ()), tuple(tags or ()))
    return Source.of(files, columns, file_in_id=file_in_id, skip_repeats=skip_repeats)


def show_dry_run(source: "Source", *, as_json: bool) -> None:
    """Print the number of tasks in the files, and the first few tasks."""
    from rich.console import Group

    from bots_service.cli.task_files import ReadProgress, read_tasks

    progress, tasks, first = ReadProgress(), 0, list["Task"]()
    for batch in read_tasks(source, progress):
        tasks += len(batch)
        first += batch[: TASKS_SHOWN - len(first)]
    print_left_out(progress)
    rows = (
        (task.id, ", ".join(number(rate) for rate in task.reference_pass_rates) or "-", ", ".join(task.tags) or "-")
        for task in first
    )
    line = f"the first of {task_count(tasks)}; nothing was sent"
    show(
        {"tasks": tasks, "first": [task.as_wire() for task in first]},
        lambda: Group(table("id  reference pass rates  tags", rows), line),
        as_json=as_json,
    )


def print_left_out(progress: "ReadProgress") -> None:
    """Print on stderr which rows and columns of the files are in no task."""
    if progress.repeats:
        sys.stderr.write(f"skipped {count(progress.repeats)} of {count(progress.rows)} rows: repeated IDs\n")
    if progress.unused:
        sys.stderr.write(f"columns not used: {', '.join(sorted(progress.unused))}\n")


def described(dataset: "Described") -> dict[str, str]:
    """Return a dataset's fields as labelled text."""
    tags = [f"{tag} ({count(tasks)})" for tag, tasks in dataset.tags.items()]
    if len(tags) > TAGS_SHOWN:
        tags = [*tags[:TAGS_SHOWN], f"and {len(tags) - TAGS_SHOWN} more"]
    return {
        "dataset": dataset.name,
        "description": dataset.description or "-",
        "repeatable tasks" if dataset.repeatable else "tasks": count(dataset.tasks)
        + (f", and {count(dataset.retired)} retired" if dataset.retired else ""),
        "references": ", ".join(dataset.reference_models) or "-",
        "profiles": count(dataset.profiles),
        "tags": ", ".join(tags) or "-",
        "offset tags": ", ".join(dataset.offset_tags) or "-",
        "predictions": ", ".join(f"{each.name} ({count(each.tasks)})" for each in dataset.predictions) or "-",
        "digest": dataset.digest,
        "created": moment(dataset.created_at),
    }
