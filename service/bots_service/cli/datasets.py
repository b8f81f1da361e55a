"""`bots datasets`: pools of tasks, from files that are read in batches, so that memory does not grow with a file."""

import csv
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from io import TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import typer

from bots_service.cli.connection import Dataset, Yes, command
from bots_service.cli.output import (
    Advance,
    CommandError,
    Result,
    client_message,
    confirm,
    counted,
    details,
    progress_line,
    table,
    written,
)
from bots_service.errors import meant

if TYPE_CHECKING:
    from bots_client import Client, Task

app = typer.Typer(no_args_is_help=True, help="Create, list, change and delete datasets.")


# --- files of tasks ---------------------------------------------------------------------------------------------------

BATCH = 10_000  # rows: a few MB, and frequent progress
LONGEST_CELL = 2**24  # characters of a CSV file's; Python's own limit is too low for long problems
LOOKED_AT = 1000  # rows of the first file, in which columns of published pass rates are looked for
NDJSON = "application/x-ndjson"
FORMATS = (".csv", ".json", ".jsonl", ".ndjson", ".parquet")

Row = dict[str, Any]  # column -> value; a struct is a nested Row
# Consecutive rows of a file with at least the wanted columns; the share of it that is read so far; all its columns.
Batch = tuple[list[Row], float, Iterable[str]]


class TaskReader:
    """Reads the tasks in files; its arguments are those of a command.

    rows, repeats: how many rows were read, and how many of them were skipped because their id occurred before.
    unused: the files' columns that are in no task; finds_references: whether it looked for published pass rates.
    """

    def __init__(
        self,
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
            typer.Option("--id", help='ID column; repeat it to join with ":".', metavar="COLUMN", show_default="id"),
        ] = None,
        id_from: Annotated[
            Literal["columns", "content", "row"],
            typer.Option(
                help="Make IDs from the --id columns' values, a hash of them, or row numbers (from 0, over all files)."
            ),
        ] = "columns",
        *,
        file_in_id: Annotated[
            bool,
            typer.Option("--file-in-id", help="Prefix IDs with the file's name; number the rows of each file from 0."),
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
        references: Annotated[
            Literal["auto"] | None,
            typer.Option(help="Find published pass rates by names and values, show how they are read, and use them."),
        ] = None,
        tag: Annotated[
            list[str] | None,
            typer.Option("--tag", help="Column with values that become tags, as in level=hard.", metavar="COLUMN"),
        ] = None,
    ) -> None:
        from bots_client import TaskColumns

        self.paths, self.files = files, _files_of(files)
        self.columns = TaskColumns(id_ or "id", id_from, (not references and reference) or (), tag or ())
        self.finds_references = references is not None
        if self.finds_references:
            self._look_for_references(reference or ())
        self.file_in_id, self.skip_repeats = file_in_id, skip_repeats
        self.rows, self.repeats, self.unused = 0, 0, set[str]()
        for file in self.files:
            if id_from == "content" and file.suffix.lower() == ".csv":
                raise CommandError(
                    f"{file}: can't hash the content of CSV, whose values have no types; convert the file to Parquet "
                    "or JSON Lines with the library that your trainer uses, and use that file here and in the trainer"
                )

    def _look_for_references(self, only: Sequence[str]) -> None:
        """Use published pass rates, of some columns or all, and first say on stderr how they are read."""
        from bots_client import find_references

        unclear = dict[str, str]()
        rows = [row for file in self.files for row in next(_read_rows(file, None), ([],))[0][:LOOKED_AT]]
        columns = find_references(rows, but_not=self.columns.id_columns, unclear=unclear)
        found = {each.column: each for each in columns if not only or each.column in only}
        if rows and (not found or len(found) < len(only)):
            why = "; ".join(reason for column, reason in unclear.items() if not only or column in only)
            raise CommandError(f"published pass rates are not found: {why or 'no column has such a name'}")
        self.columns = replace(
            self.columns, references=[found[column] for column in only if column in found] or columns
        )
        for each in found.values():
            sys.stderr.write(f"pass rates: {each.column!a}, read as {each}: {each.preview(rows)}, ...\n")
        sys.stderr.writelines(f"no pass rates: {reason}\n" for reason in unclear.values() if not only)

    def in_order_of(self, models: Sequence[str]) -> None:
        """Give the pass rates that were found in the order that a dataset has."""
        found = dict(zip(self.columns.models, self.columns.references, strict=True))
        if found.keys() != set(models):
            said = f"the dataset's reference models are {', '.join(models) or 'none'}, the files' {', '.join(found)}"
            raise CommandError(f"{said}; without --references auto the new tasks have no pass rates")
        self.columns = replace(self.columns, references=[found[model] for model in models])

    @contextmanager
    def upload(self) -> Iterator[Callable[[], Iterator[bytes]]]:
        """Show the progress while the block sends the tasks; yield what gives them as NDJSON, each time from the start.

        At the end, print on stderr which rows and columns are in no task; name the options that help against repeated
        ids.
        """
        from bots_client import InvalidRequestError, ReferenceColumn

        try:
            with progress_line() as advance:
                yield partial(self._ndjson, advance)
        except InvalidRequestError as error:
            if error.detail != "task ids must differ":
                raise
            ways = "--id A --id B joins columns, --file-in-id adds the file's name, --id-from content hashes them"
            repeat = self._first_repeat() or client_message(error)
            raise CommandError(f"{repeat}; {ways}, and --skip-repeats skips repeated rows") from error
        if self.repeats:
            sys.stderr.write(f"skipped {written(self.repeats)} of {written(self.rows)} rows: repeated IDs\n")
        if self.unused:
            sys.stderr.write(f"columns not used: {', '.join(sorted(self.unused))}\n")
        if (likely := sorted(filter(ReferenceColumn.may_be, self.unused))) and not self.columns.references:
            sys.stderr.write(f"published pass rates in {', '.join(likely)}? --references auto finds and uses them\n")

    def _first_repeat(self) -> str:
        first, where = dict[str, int](), "" if len(self.files) == 1 else " of all files"
        for row, task in enumerate(chain.from_iterable(self.tasks()), 1):
            if (before := first.setdefault(task.id, row)) < row:
                return f"row {row}{where} repeats the id {task.id!r} of row {before}"
        return ""

    def _ndjson(self, advance: Advance) -> Iterator[bytes]:
        import msgspec

        encoder = msgspec.json.Encoder()
        for tasks in self.tasks(advance):
            yield encoder.encode_lines([task.as_wire() for task in tasks])
        advance(None, f"{counted(self.rows, 'row')} sent; the service checks and stores it")

    def tasks(self, advance: Advance = lambda _share, _doing: None) -> Iterator[list["Task"]]:
        """Yield the tasks in batches, from the start. advance: is told the share of the files' bytes that is read."""
        sizes, done, seen = [file.stat().st_size for file in self.files], 0, set[str]()
        self.rows = self.repeats = 0
        for file, size in zip(self.files, sizes, strict=True):
            before = self.rows
            for rows, share, names in _read_rows(file, self.columns.named):
                self._note_unused(file, set(names) - {_enclosing(column, names) for column in self.columns.named})
                tasks = list(self._tasks_of(file, rows, before))
                if self.skip_repeats:
                    tasks = list({task.id: task for task in reversed(tasks) if task.id not in seen}.values())[::-1]
                    seen.update(task.id for task in tasks)
                    self.repeats = self.rows - len(seen)
                advance((done + share * size) / max(sum(sizes), 1), counted(self.rows, "row"))
                yield tasks
            if self.rows == before:
                raise CommandError(f"{file}: no rows")
            done += size

    def _tasks_of(self, file: Path, rows: list[Row], before: int) -> Iterator["Task"]:
        from bots_client import InvalidRequestError

        for row in rows:
            in_file = self.rows - before
            try:
                task = self.columns.task(row, in_file if self.file_in_id else self.rows)
            except InvalidRequestError as error:
                similar = _similar_columns(self.columns.named, _paths_in(row))
                raise CommandError(f"{file}: row {in_file + 1}: {error}{similar}") from error
            self.rows += 1
            yield replace(task, id=f"{file.stem}:{task.id}") if self.file_in_id else task

    def _note_unused(self, file: Path, unused: set[str]) -> None:
        self.unused |= unused
        if "reference_pass_rates" in unused and not self.columns.references:
            raise CommandError(
                f"{file}: the column reference_pass_rates would be dropped; name the columns of pass rates with "
                "--reference, or send the file as it is, by PUT /datasets/NAME or the client's create_dataset"
            )


def dataset_name_of(paths: list[Path]) -> str:
    """Return the default name of a dataset: the name of its one file or folder."""
    if len(paths) > 1:
        raise CommandError("several files have no common name; pass --name")
    (path,) = paths
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.resolve().name if path.is_dir() else path.stem)


def _files_of(paths: list[Path]) -> list[Path]:
    """Return the files in reading order, with each folder replaced by its supported files in name order."""
    files = []
    for path in paths:
        inside = sorted(file for file in path.iterdir() if file.suffix.lower() in FORMATS) if path.is_dir() else [path]
        if not inside:
            raise CommandError(f"{path}: no file in this folder ends with one of {', '.join(FORMATS)}")
        files += inside
    for file in files:
        if file.suffix.lower() not in FORMATS:
            raise CommandError(f"{file}: unsupported format; the name must end with one of {', '.join(FORMATS)}")
    return files


def _read_rows(file: Path, wanted: tuple[str, ...] | None) -> Iterator[Batch]:
    """Yield the rows of a file, in batches.

    wanted: the columns to read; "a.b" is field b of struct a. None: those that may hold published pass rates.
    """
    import pyarrow

    try:
        if file.suffix.lower() == ".parquet":
            yield from _read_parquet(file, wanted)
            return
        with file.open("rb") as raw, TextIOWrapper(raw, "utf-8-sig", newline="") as text:
            rows = _csv_rows(file, text) if file.suffix.lower() == ".csv" else _json_rows(file, text)
            names = dict[str, None]()  # of all rows so far
            while batch := list(islice(rows, BATCH)):
                names |= {name: None for row in batch for name in row}
                # Top-level columns only: nested fields may be absent in some rows.
                _require_columns(file, [_enclosing(column, names) or column for column in wanted or ()], names)
                yield batch, raw.tell() / file.stat().st_size, names
    except (pyarrow.ArrowException, csv.Error, UnicodeDecodeError, OSError) as error:
        if isinstance(error, OSError) and error.filename:  # it can't be opened; the error names the file
            raise
        raise CommandError(f"{file}: {error}") from error


def _read_parquet(file: Path, wanted: tuple[str, ...] | None) -> Iterator[Batch]:
    from pyarrow import parquet

    from bots_client import ReferenceColumn

    read = 0
    with parquet.ParquetFile(file) as opened:
        paths = list(_paths(opened.schema_arrow))
        wanted = tuple(filter(ReferenceColumn.may_be, paths)) if wanted is None else wanted
        _require_columns(file, wanted, paths)
        for batch in opened.iter_batches(BATCH, columns=list(wanted)):
            rows = batch.to_pylist() if batch.num_columns else [{} for _ in range(batch.num_rows)]
            read += len(rows)
            yield rows, read / opened.metadata.num_rows, opened.schema_arrow.names


def _paths(fields: Any) -> Iterator[str]:
    import pyarrow

    for column in fields:
        yield column.name
        if pyarrow.types.is_struct(column.type):
            yield from (f"{column.name}.{inner}" for inner in _paths(column.type))


def _csv_rows(file: Path, text: TextIO) -> Iterator[Row]:
    """Yield the rows as texts, so that "007" stays what it is."""
    csv.field_size_limit(LONGEST_CELL)
    lines = csv.DictReader(text, strict=True)
    for number, row in enumerate(lines, 1):
        if None in row or None in row.values():  # what DictReader makes of too many cells, and of too few
            raise CommandError(f"{file}: row {number} does not have {len(lines.fieldnames or ())} columns")
        yield row


def _json_rows(file: Path, text: TextIO) -> Iterator[Row]:
    """Yield the objects of one JSON array, loaded as a whole, or of lines."""
    first = next(filter(str.strip, text), "")
    lines: Iterable[Any] = filter(str.strip, chain([first], text))
    if first.lstrip().startswith("["):
        try:
            lines = json.loads(first + text.read())
        except ValueError as error:
            raise CommandError(f"{file}: not JSON: {error}") from error
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line) if isinstance(line, str) else line
        except ValueError as error:
            raise CommandError(f"{file}: row {number} is not JSON: {error}") from error
        if not isinstance(row, dict):
            raise CommandError(f"{file}: row {number} is not a JSON object")
        yield row


def _require_columns(file: Path, wanted: Iterable[str], existing: Iterable[str]) -> None:
    names = list(existing)
    if missing := [column for column in wanted if column not in names]:
        listed = ", ".join(map(repr, missing))
        said = f"{file}: no column {listed}; its columns are {', '.join(names) or 'none'}"
        ways = "; --id names another column, and --id-from row or content makes ids" if "id" in missing else ""
        raise CommandError(said + (_similar_columns(missing, names) or ways))


def _similar_columns(wanted: Iterable[str], existing: Iterable[str]) -> str:
    names = list(existing)
    return "".join(meant(column, names) for column in wanted if column not in names)


def _paths_in(row: Row) -> Iterator[str]:
    for name, value in row.items():
        yield name
        if isinstance(value, dict):
            yield from (f"{name}.{inner}" for inner in _paths_in(value))


def _enclosing(column: str, names: Iterable[str]) -> str | None:
    """Return the longest name that is the column or one of its parents ("a" for "a.b"); None if there is none."""
    return max((name for name in names if f"{column}.".startswith(f"{name}.")), key=len, default=None)


# --- commands ---------------------------------------------------------------------------------------------------------


@command(app, "import", parser=TaskReader)
def import_(
    client: "Client",
    *,
    name: Annotated[str | None, typer.Option(help="Name of the dataset.", show_default="the file's name")] = None,
    description: Annotated[str, typer.Option(help="Description for readers.")] = "",
    reader: TaskReader,
) -> Result:
    """Create a dataset from files.

    COLUMN may be a path into a nested column, such as extra_info.index.
    """
    name, models = name or dataset_name_of(reader.paths), reader.columns.models
    with reader.upload() as tasks:
        dataset = client.create_dataset(name, tasks, models, description, media_type=NDJSON)
    return dataset, details(dataset)


@command(app, parser=TaskReader)
def append(client: "Client", dataset: Dataset, reader: TaskReader) -> Result:
    """Add the tasks in files to a dataset: all of them, or none if one is invalid."""
    if reader.finds_references:
        reader.in_order_of(client.dataset(dataset).reference_models)
    with reader.upload() as tasks:
        found = client.append_tasks(dataset, tasks, media_type=NDJSON)
    return found, f"{dataset} now has {counted(found.tasks, 'task')}"


@command(app, "list")
def list_(client: "Client") -> Result:
    """List the datasets."""
    found = list(client.datasets())
    nothing = "no datasets yet; create one with `bots datasets import FILE`"
    columns = "dataset=name  tasks  retired  reference_models  created_at"
    return {"datasets": found}, table(columns, found, nothing=nothing)


@command(app, "show")
def show_(client: "Client", dataset: Dataset) -> Result:
    """Describe a dataset."""
    found = client.dataset(dataset)
    return found, details(found)


TaskIds = Annotated[list[str], typer.Argument(help='Task IDs; "-" reads them from stdin, one per line.')]


@command(app)
def retire(client: "Client", dataset: Dataset, ids: TaskIds) -> Result:
    """Retire tasks: they are not selected until you restore them."""
    change = client.retire_tasks(dataset, _given(ids))
    return change, f"{counted(change.retired, 'task')} of {dataset} retired; {written(change.tasks)} left"


@command(app)
def restore(client: "Client", dataset: Dataset, ids: TaskIds) -> Result:
    """Restore retired tasks: they can be selected again."""
    change = client.restore_tasks(dataset, _given(ids))
    return change, f"{written(change.tasks)} tasks of {dataset} can be selected; {written(change.retired)} are retired"


def _given(ids: list[str]) -> list[str]:
    return [line.rstrip("\r\n") for line in sys.stdin if line.strip()] if ids == ["-"] else ids


@command(app)
def delete(client: "Client", dataset: Dataset, yes: Yes = False) -> Result:
    """Permanently delete a dataset with its runs and their history."""
    tasks = client.dataset(dataset).tasks
    confirm(f"Permanently delete dataset {dataset} with {counted(tasks, 'task')} and all its runs?", yes=yes)
    client.delete_dataset(dataset)
    return {"deleted": dataset}, f"{dataset} is deleted"
