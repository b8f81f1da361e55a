"""`bots datasets`: pools of tasks, from files that are read in batches, so that memory does not grow with a file."""

import csv
import io
import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bots_service.cli.connection import Dataset, Yes, command, parsed_by
from bots_service.cli.output import (
    STORING,
    Advance,
    CommandError,
    Result,
    client_message,
    confirm,
    count,
    counted,
    details,
    progress_line,
    show_sent,
    table,
)

if TYPE_CHECKING:
    from bots_client import Client, Task, TaskColumns

app = typer.Typer(no_args_is_help=True, help="Create, list, change and delete datasets.")


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
        Literal["columns", "content", "row"],
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

    columns = TaskColumns(id_ or "id", id_from, reference or (), tag or ())
    return TaskReader(files, columns, file_in_id=file_in_id, skip_repeats=skip_repeats)


@command(app, "import")
@parsed_by(reader_of)
def import_(
    client: "Client",
    *,
    name: Annotated[str | None, typer.Option(help="Name of the dataset.", show_default="the file's name")] = None,
    description: Annotated[str, typer.Option(help="Description for readers.")] = "",
    reader: "TaskReader",
) -> Result:
    """Create a dataset from files.

    COLUMN may be a path into a nested column, such as extra_info.index. A .jsonl file that has only the columns id,
    reference_pass_rates and tags needs no column options.
    """
    name = name or dataset_name_of(reader.paths)
    with progress_line() as advance, _told_what_was_left_out(reader):
        dataset = client.create_dataset(
            name,
            reference_models=reader.columns.references,
            description=description,
            **reader.upload(advance),
        )
    return dataset, details(dataset)


@command(app)
@parsed_by(reader_of)
def append(client: "Client", dataset: Dataset, reader: "TaskReader") -> Result:
    """Add the tasks in files to a dataset: all of them, or none if one is invalid."""
    with progress_line() as advance, _told_what_was_left_out(reader):
        found = client.append_tasks(dataset, **reader.upload(advance))
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
        upload = reader.upload(advance)
        found = client.put_predictions(dataset, name, upload.pop("tasks"), **upload)
    tasks = next(each.tasks for each in found.predictions if each.name == name)
    return found, f"new runs of {dataset} see the predictions {name} of {counted(tasks, 'task')}"


@command(app)
def unpredict(client: "Client", dataset: Dataset, name: PredictionsName) -> Result:
    """Remove predictions: new runs no longer see them."""
    found = client.remove_predictions(dataset, name)
    return found, f"new runs of {dataset} no longer see the predictions {name}"


TaskIds = Annotated[list[str], typer.Argument(help='Task IDs; "-" reads them from stdin, one per line.')]


@command(app)
def retire(client: "Client", dataset: Dataset, ids: TaskIds) -> Result:
    """Retire tasks: they are not selected until you restore them."""
    change = client.retire_tasks(dataset, _given(ids))
    return change, f"{counted(change.retired, 'task')} of {dataset} retired; {count(change.tasks)} left"


@command(app)
def restore(client: "Client", dataset: Dataset, ids: TaskIds) -> Result:
    """Restore retired tasks: they can be selected again."""
    change = client.restore_tasks(dataset, _given(ids))
    return change, f"{count(change.tasks)} tasks of {dataset} can be selected; {count(change.retired)} are retired"


def _given(ids: list[str]) -> list[str]:
    return [line.rstrip("\r\n") for line in sys.stdin if line.strip()] if ids == ["-"] else ids


@command(app)
def delete(client: "Client", dataset: Dataset, yes: Yes = False) -> Result:
    """Permanently delete a dataset with its runs and their history."""
    tasks = client.dataset(dataset).tasks
    confirm(f"Permanently delete dataset {dataset} with {counted(tasks, 'task')} and all its runs?", yes=yes)
    client.delete_dataset(dataset)
    return {"deleted": dataset}, f"{dataset} is deleted"


@contextmanager
def _told_what_was_left_out(reader: "TaskReader") -> Iterator[None]:
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


# --- files of tasks ---------------------------------------------------------------------------------------------------

BATCH = 10_000  # rows: a few MB, and frequent progress
LONGEST_CELL = 2**24  # characters of a CSV file's; Python's own limit is too low for long problems
NOT_MEASURED = {"", "#N/A", "N/A", "NA", "NULL", "n/a", "null"}  # pass rates in CSV, besides NaN
NDJSON = "application/x-ndjson"
SERVICE_COLUMNS = {"id", "reference_pass_rates", "tags"}  # the service reads a file with only these as it is
HEADER_FIELDS = {"reference_models", "description"}  # which may be the first line of such a file

Row = dict[str, Any]  # column -> value; a struct is a nested Row
# Consecutive rows of a file with at least the wanted columns; the share of it that is read so far; all its columns.
Batch = tuple[list[Row], float, Iterable[str]]


class TaskReader:
    """Reads the tasks in files.

    rows, repeats: how many rows were read, and how many of them were skipped because their id occurred before.
    unused: the files' columns that are in no task.
    """

    def __init__(
        self, paths: list[Path], columns: "TaskColumns", *, file_in_id: bool = False, skip_repeats: bool = False
    ) -> None:
        """Prepare to read files and folders. file_in_id: also number the rows of each file from 0."""
        self.paths, self.files, self.columns = paths, _files_of(paths), columns
        self.file_in_id, self.skip_repeats = file_in_id, skip_repeats
        self.rows, self.repeats, self.unused = 0, 0, set[str]()
        for file in self.files:
            if columns.id_from == "content" and _parts_of(file)[1] == ".csv":
                raise CommandError(
                    f"{file}: can't hash the content of CSV, whose values have no types; convert the file to Parquet "
                    "or JSON Lines with the library that your trainer uses, and use that file here and in the trainer"
                )

    def upload(self, advance: Advance) -> dict[str, Any]:
        """Return the arguments `tasks`, `media_type` and `on_progress` of the client's uploads of tasks."""
        if self._is_service_format():
            return {"tasks": self.files[0], "on_progress": partial(show_sent, advance)}
        return {"tasks": lambda: self._ndjson(advance), "media_type": NDJSON}

    def _ndjson(self, advance: Advance) -> Iterator[bytes]:
        import msgspec

        encoder = msgspec.json.Encoder()
        for tasks in self.tasks(advance):
            yield encoder.encode_lines([task.as_wire() for task in tasks])
        advance(None, f"{counted(self.rows, 'row')} {STORING}")

    def _is_service_format(self) -> bool:
        """Say whether this is one NDJSON file with rows that the service reads, and no option changes its tasks."""
        columns, (file, *more) = self.columns, self.files
        is_plain = columns.id_columns == ("id",) and columns.id_from == "columns"
        is_changed = more or self.file_in_id or self.skip_repeats or columns.references or columns.tags or not is_plain
        if is_changed or file.suffix.lower() not in (".jsonl", ".ndjson"):
            return False
        first, _, _ = next(_read_rows(file, (), set()), ([], 1.0, ()))
        rows = [row for row in first if not HEADER_FIELDS.issuperset(row)]
        return bool(rows) and all("id" in row and SERVICE_COLUMNS.issuperset(row) for row in rows)

    def tasks(self, advance: Advance = lambda _share, _doing: None) -> Iterator[list["Task"]]:
        """Yield the tasks in batches, from the start. advance: is told the share of the files' bytes that is read."""
        sizes, done, seen = [file.stat().st_size for file in self.files], 0, set[str]()
        self.rows = self.repeats = 0
        numbers = set(self.columns.references) - {*self.columns.id_columns}
        for file, size in zip(self.files, sizes, strict=True):
            before = self.rows
            for rows, share, names in _read_rows(file, self.columns.named, numbers):
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
                raise CommandError(f"{file}: row {in_file + 1}: {error}") from error
            self.rows += 1
            yield replace(task, id=f"{_parts_of(file)[0]}:{task.id}") if self.file_in_id else task

    def _note_unused(self, file: Path, unused: set[str]) -> None:
        self.unused |= unused
        if "reference_pass_rates" in unused and not self.columns.references:
            raise CommandError(
                f"{file}: the column reference_pass_rates would be dropped; name the columns of pass rates with "
                f"--reference, or pass one .jsonl file with only {', '.join(sorted(SERVICE_COLUMNS))}, without options"
            )


def _parts_of(file: Path) -> tuple[str, str | None]:
    """Return a file's bare name and its format, such as "math" and ".jsonl" of math.jsonl.gz; None if it is unknown."""
    unpacked = Path(file.stem if file.suffix.lower() in COMPRESSED else file.name)
    kind = unpacked.suffix.lower()
    return (unpacked.stem, kind) if kind in FORMATS else (file.name, None)


def dataset_name_of(paths: list[Path]) -> str:
    """Return the default name of a dataset: the name of its one file or folder."""
    if len(paths) > 1:
        raise CommandError("several files have no common name; pass --name")
    (path,) = paths
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.resolve().name if path.is_dir() else _parts_of(path)[0])


def _files_of(paths: list[Path]) -> list[Path]:
    """Return the files in reading order, with each folder replaced by its supported files in name order."""
    files = []
    for path in paths:
        inside = sorted(file for file in path.iterdir() if _parts_of(file)[1]) if path.is_dir() else [path]
        if not inside:
            raise CommandError(f"{path}: no file in this folder ends with one of {', '.join(FORMATS)}")
        files += inside
    for file in files:
        if _parts_of(file)[1] is None:
            endings = f"{', '.join(FORMATS)}, optionally with {' or '.join(COMPRESSED)}"
            raise CommandError(f"{file}: unsupported format; the name must end with one of {endings}")
    return files


def _read_rows(file: Path, wanted: tuple[str, ...], numbers: set[str]) -> Iterator[Batch]:
    """Yield the rows of a file, in batches.

    wanted: the columns to read; "a.b" is field b of struct a. numbers: those that are parsed as numbers in CSV.
    """
    import pyarrow

    try:
        if _parts_of(file)[1] == ".parquet":
            yield from _read_parquet(file, wanted)
            return
        size, how = max(file.stat().st_size, 1), COMPRESSED.get(file.suffix.lower())
        with file.open("rb") as raw, pyarrow.CompressedInputStream(raw, how) if how else raw as unpacked:
            text = io.TextIOWrapper(io.BufferedReader(unpacked), "utf-8-sig", newline="")
            is_csv = _parts_of(file)[1] == ".csv"
            rows = _csv_rows(file, text, numbers) if is_csv else _json_rows(file, text)
            is_first = True
            while batch := list(islice(rows, BATCH)):
                names = list(dict.fromkeys(name for row in batch for name in row))
                if is_first:  # check top-level columns only: nested fields may be absent in some rows
                    _require_columns(file, [_enclosing(column, names) or column for column in wanted], names)
                is_first = False
                yield batch, min(raw.tell() / size, 1.0), names
    except (pyarrow.ArrowException, csv.Error, UnicodeDecodeError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.filename:  # it can't be opened; the error names the file
            raise
        raise CommandError(f"{file}: {error}") from error


def _read_parquet(file: Path, wanted: tuple[str, ...]) -> Iterator[Batch]:
    from pyarrow import parquet

    read = 0
    with parquet.ParquetFile(file) as opened:
        _require_columns(file, wanted, _paths(opened.schema_arrow))
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


def _csv_rows(file: Path, text: io.TextIOWrapper, numbers: set[str]) -> Iterator[Row]:
    """Yield the rows as texts, so that "007" stays what it is; only the named columns are numbers."""
    csv.field_size_limit(LONGEST_CELL)
    lines = csv.DictReader(text, strict=True)
    for number, row in enumerate(lines, 1):
        if None in row or None in row.values():  # what DictReader makes of too many cells, and of too few
            raise CommandError(f"{file}: row {number} does not have {len(lines.fieldnames or ())} columns")
        for name in numbers & row.keys():
            try:
                row[name] = None if row[name] in NOT_MEASURED else float(row[name])
            except ValueError as error:
                raise CommandError(f"{file}: row {number}: {name} is {row[name]!r}, not a number") from error
        yield row


def _json_rows(file: Path, text: io.TextIOWrapper) -> Iterator[Row]:
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
        raise CommandError(f"{file}: no column {listed}; its columns are {', '.join(names) or 'none'}")


def _enclosing(column: str, names: Iterable[str]) -> str | None:
    """Return the longest name that is the column or one of its parents ("a" for "a.b"); None if there is none."""
    return max((name for name in names if f"{column}.".startswith(f"{name}.")), key=len, default=None)


COMPRESSED = {".gz": "gzip", ".zst": "zstd"}  # Parquet compresses its own pages
FORMATS = (".csv", ".json", ".jsonl", ".ndjson", ".parquet")
