"""`bots datasets`: pools of tasks."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bots_service.cli.connection import Dataset, Yes, command, parsed_by
from bots_service.cli.failures import CommandError, client_message
from bots_service.cli.output import Result, confirm, count, counted, details, progress_line, table

if TYPE_CHECKING:
    from bots_client import Client, Task
    from bots_client import Dataset as Described
    from bots_service.cli.task_files import TaskReader

app = typer.Typer(no_args_is_help=True, help="Create, list, change and delete datasets.")


IdSource = Literal["columns", "content", "row"]  # as the client's `TaskColumns` has it


def reader_of(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="CSV, JSON, JSON Lines or Parquet; a folder means all its files, in name order.",
            metavar="FILE...",
            exists=True,
        ),
    ],
    id_: Annotated[
        list[str] | None,
        typer.Option(
            "--id", help='ID column; repeat it to join several columns with ":".', metavar="COLUMN", show_default="id"
        ),
    ] = None,
    id_from: Annotated[
        IdSource,
        typer.Option(
            help="Make IDs from the --id columns' values, a hash of them, or row numbers (from 0, over all files)."
        ),
    ] = "columns",
    *,
    file_in_id: Annotated[
        bool,
        typer.Option(
            "--file-in-id",
            help='Prefix each ID with its file\'s name, as in "math:17"; row numbers start at 0 in each file.',
        ),
    ] = False,
    skip_repeats: Annotated[bool, typer.Option("--skip-repeats", help="Skip rows with a repeated ID.")] = False,
    reference: Annotated[
        list[str] | None,
        typer.Option(
            "--reference",
            help="Column with a reference model's pass rates or reward lists; repeat it, weakest model first.",
            metavar="COLUMN",
        ),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", help="Column with values that become tags, as in level=hard.", metavar="COLUMN"),
    ] = None,
) -> "TaskReader":
    """Return what reads the tasks in the files that a command names."""
    from bots_client import TaskColumns
    from bots_service.cli.task_files import TaskReader

    columns = TaskColumns(id_ or "id", id_from, reference or (), tag or ())
    return TaskReader(files, columns, file_in_id=file_in_id, skip_repeats=skip_repeats)


TASKS_SHOWN = 5


@command(app, "import")
@parsed_by(reader_of)
def import_(
    client: "Client",
    *,
    name: Annotated[str | None, typer.Option(help="Name of the dataset.", show_default="the file's name")] = None,
    description: Annotated[str, typer.Option(help="Description for readers.")] = "",
    repeatable: Annotated[
        bool, typer.Option("--repeatable", help="Tasks are handed out again without waiting: nothing is leased.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Read all files and show the first tasks; send nothing.")
    ] = False,
    reader: "TaskReader",
) -> Result:
    """Create a dataset from files.

    COLUMN may be a path into a nested column, such as extra_info.index. A .jsonl or .parquet file that has only the
    columns id, reference_pass_rates and tags needs no column options.
    """
    from bots_service.cli.task_files import dataset_name_of

    name = name or dataset_name_of(reader.paths)
    if dry_run:
        return dry_run_of(reader)
    with progress_line() as advance, told_what_was_left_out(reader):
        dataset = client.create_dataset(
            name,
            reference_models=reader.columns.references,
            description=description,
            repeatable=repeatable,
            **reader.upload(advance),
        )
    return dataset, details(dataset)


@command(app)
@parsed_by(reader_of)
def append(client: "Client", dataset: Dataset, reader: "TaskReader") -> Result:
    """Add the tasks in files to a dataset: all of them, or none if one is invalid."""
    with progress_line() as advance, told_what_was_left_out(reader):
        change = client.append_tasks(dataset, **reader.upload(advance))
    return change, f"{counted(change.added, 'task')} added to {dataset}; it now has {count(change.tasks)}"


@command(app, "list")
def list_(client: "Client") -> Result:
    """List the datasets."""
    found = list(client.datasets())
    nothing = "no datasets yet; create one with `bots datasets import FILE`"
    return {"datasets": found}, table(
        "dataset=name  tasks  retired  reference_models  created_at", found
    ) if found else nothing


@command(app, "show")
def show_(client: "Client", dataset: Dataset) -> Result:
    """Describe a dataset."""
    found = client.dataset(dataset)
    return found, details(found)


PredictionsName = Annotated[str, typer.Argument(help="Name of the predictions.", metavar="NAME")]
PredictionsFile = Annotated[
    Path,
    typer.Argument(
        help="CSV, JSON, JSON Lines or Parquet with the columns id and pass_rate.", exists=True, dir_okay=False
    ),
]


@command(app)
def predict(client: "Client", dataset: Dataset, name: PredictionsName, file: PredictionsFile) -> Result:
    """Put predicted pass rates of tasks, or replace those of the same name; new runs learn how far to trust them."""
    reader = reader_of([file], reference=["pass_rate"])
    with progress_line() as advance:
        found = client.put_predictions(dataset, name, **reader.upload_as_predictions(advance))
    return found, predicted(found, name)


@command(app)
def unpredict(client: "Client", dataset: Dataset, name: PredictionsName) -> Result:
    """Remove predictions: new runs no longer see them."""
    found = client.remove_predictions(dataset, name)
    return found, f"new runs of {dataset} no longer see the predictions {name}"


def predicted(dataset: "Described", name: str) -> str:
    """Say what was predicted."""
    tasks = next(each.tasks for each in dataset.predictions if each.name == name)
    return f"new runs of {dataset.name} see the predictions {name} of {counted(tasks, 'task')}"


TaskIds = Annotated[list[str], typer.Argument(help='Task IDs; "-" reads them from stdin, one per line.')]


@command(app)
def retire(client: "Client", dataset: Dataset, ids: TaskIds) -> Result:
    """Retire tasks: they are not selected until you restore them."""
    change = client.retire_tasks(dataset, given_ids(ids))
    return change, f"{counted(change.retired, 'task')} of {dataset} retired; {count(change.tasks)} left"


@command(app)
def restore(client: "Client", dataset: Dataset, ids: TaskIds) -> Result:
    """Restore retired tasks: they can be selected again."""
    change = client.restore_tasks(dataset, given_ids(ids))
    return change, f"{count(change.tasks)} tasks of {dataset} can be selected; {count(change.retired)} are retired"


def given_ids(ids: list[str]) -> list[str]:
    """Return the IDs of an argument, from stdin where it is "-"."""
    return [line.rstrip("\r\n") for line in sys.stdin if line.strip()] if ids == ["-"] else ids


@command(app)
def delete(client: "Client", dataset: Dataset, yes: Yes = False) -> Result:
    """Permanently delete a dataset with its runs and their history."""
    tasks = client.dataset(dataset).tasks
    confirm(f"Permanently delete dataset {dataset} with {counted(tasks, 'task')} and all its runs?", yes=yes)
    client.delete_dataset(dataset)
    return {"deleted": dataset}, f"{dataset} is deleted"


def dry_run_of(reader: "TaskReader") -> Result:
    """Return the number of tasks in the files, and the first few tasks."""
    tasks, first = 0, list["Task"]()
    with told_what_was_left_out(reader):
        for batch in reader.tasks():
            tasks += len(batch)
            first += batch[: TASKS_SHOWN - len(first)]
    caption = f"the first of {counted(tasks, 'task')}; nothing was sent"
    return {"tasks": tasks, "first": [task.as_wire() for task in first]}, table(
        "id  reference_pass_rates  tags", first, caption=caption
    )


@contextmanager
def told_what_was_left_out(reader: "TaskReader") -> Iterator[None]:
    """Print on stderr which rows and columns are in no task; name the options that help against repeated ids."""
    from bots_client import InvalidRequestError

    try:
        yield
    except InvalidRequestError as error:
        if error.detail != "task ids must differ":
            raise
        ways = "--id A --id B joins columns, --file-in-id adds the file's name, --id-from content hashes the content"
        raise CommandError(f"{client_message(error)}; {ways}, and --skip-repeats skips repeated rows") from error
    if reader.repeats:
        sys.stderr.write(f"skipped {count(reader.repeats)} of {count(reader.rows)} rows: repeated IDs\n")
    if reader.unused:
        sys.stderr.write(f"columns not used: {', '.join(sorted(reader.unused))}\n")
