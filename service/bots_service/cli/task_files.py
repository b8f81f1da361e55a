"""Tasks from CSV, JSON and Parquet files, read in batches, so that memory does not grow with the file."""

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bots_service.cli.failures import CommandError
from bots_service.cli.output import STORING, Advance, counted, show_sent

if TYPE_CHECKING:
    from bots_client import Task, TaskColumns

BATCH = 10_000  # rows: a few MB, and frequent progress
CSV_BLOCK = 2**20  # bytes; pyarrow reads about 32 blocks ahead and rejects a row longer than a block
NDJSON = "application/x-ndjson"
SERVICE_COLUMNS = {"id", "reference_pass_rates", "tags"}  # the service reads a file with only these as it is
HEADER_FIELDS = {"reference_models", "description", "repeatable"}  # which may be the first line of such a file

Row = dict[str, Any]  # column -> value; a struct is a nested Row


class TaskReader:
    """Reads the tasks in files.

    rows, repeats: how many rows were read, and how many of them were skipped because their id occurred before.
    unused: the files' columns that are in no task.
    """

    def __init__(
        self, paths: list[Path], columns: "TaskColumns", *, file_in_id: bool = False, skip_repeats: bool = False
    ) -> None:
        """Prepare to read files and folders. file_in_id: also number the rows of each file from 0.

        Raises:
            CommandError: a file's format is not supported, or it is CSV and ids are hashes of the content.
        """
        self.paths, self.files, self.columns = paths, files_of(paths), columns
        self.file_in_id, self.skip_repeats = file_in_id, skip_repeats
        self.rows, self.repeats, self.unused = 0, 0, set[str]()
        for file in self.files:
            if columns.id_from == "content" and parts_of(file)[1] == ".csv":
                raise CommandError(
                    f"{file}: can't hash the content of CSV, whose values have no types; convert the file to Parquet "
                    "or JSON Lines with the library that your trainer uses, and use that file here and in the trainer"
                )

    def upload(self, advance: Advance) -> dict[str, Any]:
        """Return the arguments `tasks`, `media_type` and `on_progress` of the client's uploads of tasks.

        Raises:
            CommandError: a file is damaged.
        """
        if self._is_service_format():
            return {"tasks": self.files[0], "on_progress": partial(show_sent, advance)}
        return {"tasks": lambda: self._ndjson(advance, lambda task: task.as_wire()), "media_type": NDJSON}

    def upload_as_predictions(self, advance: Advance) -> dict[str, Any]:
        """Return the arguments of the client's upload of predictions: the one reference is what is predicted."""

        def prediction(task: "Task") -> dict[str, Any]:
            return {"id": task.id, "pass_rate": task.reference_pass_rates[0]}

        return {"pass_rates": lambda: self._ndjson(advance, prediction), "media_type": NDJSON}

    def _is_service_format(self) -> bool:
        """Say whether this is one file that the service reads as it is, and no option changes its tasks."""
        columns, (file, *more) = self.columns, self.files
        is_plain = columns.id_columns == ("id",) and columns.id_from == "columns"
        is_changed = more or self.file_in_id or self.skip_repeats or columns.references or columns.tags or not is_plain
        if is_changed or file.suffix.lower() not in (".jsonl", ".ndjson", ".parquet"):
            return False
        first = next(read_rows(file, ()), Batch([], 1.0, set()))
        if file.suffix.lower() == ".parquet":
            return "id" in first.unused and SERVICE_COLUMNS.issuperset(first.unused)
        tasks = [row for row in first.rows if not HEADER_FIELDS.issuperset(row)]
        return bool(tasks) and all(SERVICE_COLUMNS.issuperset(row) for row in tasks)

    def _ndjson(self, advance: Advance, line_of: Callable[["Task"], object]) -> Iterator[bytes]:
        import msgspec

        encoder = msgspec.json.Encoder()
        for tasks in self.tasks(advance):
            yield encoder.encode_lines(map(line_of, tasks))
        advance(None, f"{counted(self.rows, 'row')} {STORING}")

    def tasks(self, advance: Advance = lambda _share, _doing: None) -> Iterator[list["Task"]]:
        """Yield the tasks in batches, from the start. advance: is told the share of the files' bytes that is read.

        Raises:
            CommandError: a file is damaged or empty, or a column or an id is missing.
            OSError: a file can't be opened.
        """
        sizes, done, seen = [file.stat().st_size for file in self.files], 0, set[str]()
        self.rows = self.repeats = 0
        numbers = set(self.columns.references) - {*self.columns.id_columns}
        for file, size in zip(self.files, sizes, strict=True):
            before = self.rows
            for batch in read_rows(file, self.columns.named, numbers):
                self._note_unused(file, batch.unused)
                tasks = list(self._tasks_of(file, batch.rows, before))
                if self.skip_repeats:
                    tasks = list({task.id: task for task in reversed(tasks) if task.id not in seen}.values())[::-1]
                    seen.update(task.id for task in tasks)
                    self.repeats = self.rows - len(seen)
                advance((done + batch.share * size) / max(sum(sizes), 1), counted(self.rows, "row"))
                yield tasks
            if self.rows == before:
                raise CommandError(f"{file}: no rows")
            done += size

    def _tasks_of(self, file: Path, rows: list[Row], before: int) -> Iterator["Task"]:
        """Yield the tasks of some rows. before: how many rows the files before have."""
        from bots_client import InvalidRequestError

        for row in rows:
            in_file = self.rows - before
            try:
                task = self.columns.task(row, in_file if self.file_in_id else self.rows)
            except InvalidRequestError as error:
                raise CommandError(f"{file}: row {in_file + 1}: {error}") from error
            self.rows += 1
            yield replace(task, id=f"{parts_of(file)[0]}:{task.id}") if self.file_in_id else task

    def _note_unused(self, file: Path, unused: set[str]) -> None:
        """Note columns that are in no task; refuse to drop pass rates."""
        self.unused |= unused
        if "reference_pass_rates" in unused and not self.columns.references:
            raise CommandError(
                f"{file}: the column reference_pass_rates would be dropped; name the columns of pass rates with "
                f"--reference, or pass one file that has only {', '.join(sorted(SERVICE_COLUMNS))}, without options"
            )


# --- files -----------------------------------------------------------------------------------------------------------


def parts_of(file: Path) -> tuple[str, str | None]:
    """Return a file's bare name and its format, such as "math" and ".jsonl" of math.jsonl.gz; None if it is unknown."""
    unpacked = Path(file.stem if file.suffix.lower() in COMPRESSED else file.name)
    kind = unpacked.suffix.lower()
    return (unpacked.stem, kind) if kind in READERS else (file.name, None)


def dataset_name_of(paths: list[Path]) -> str:
    """Return the default name of a dataset: the name of its one file or folder.

    Raises:
        CommandError: there are several paths.
    """
    if len(paths) > 1:
        raise CommandError("several files have no common name; pass --name")
    (path,) = paths
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.resolve().name if path.is_dir() else parts_of(path)[0])


def files_of(paths: list[Path]) -> list[Path]:
    """Return the files in reading order, with each folder replaced by its supported files in name order.

    Raises:
        CommandError: a file's format is not supported, or a folder has no supported file.
    """
    files = []
    for path in paths:
        inside = sorted(file for file in path.iterdir() if parts_of(file)[1]) if path.is_dir() else [path]
        if not inside:
            raise CommandError(f"{path}: no file in this folder ends with one of {', '.join(READERS)}")
        files += inside
    for file in files:
        if parts_of(file)[1] is None:
            endings = f"{', '.join(READERS)}, optionally with {' or '.join(COMPRESSED)}"
            raise CommandError(f"{file}: unsupported format; the name must end with one of {endings}")
    return files


class Batch(NamedTuple):
    """Consecutive rows of a file.

    rows: each with at least the wanted columns.
    share: of the file that is read so far, in [0, 1].
    unused: the file's other columns.
    """

    rows: list[Row]
    share: float
    unused: set[str]


def read_rows(file: Path, wanted: tuple[str, ...], numbers: Iterable[str] = ()) -> Iterator[Batch]:
    """Yield the rows of a file, in batches.

    Args:
        file: in a supported format.
        wanted: the columns to read; "a.b" is field b of struct a.
        numbers: those that are parsed as numbers in CSV.

    Raises:
        CommandError: the file is damaged, or a wanted column is missing.
        OSError: the file can't be opened.
    """
    import pyarrow

    try:
        yield from READERS[parts_of(file)[1] or ""](file, wanted, set(numbers))
    except (pyarrow.ArrowException, UnicodeDecodeError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.filename:  # it can't be opened; the error names the file
            raise
        raise CommandError(f"{file}: {error}") from error


def _read_csv(file: Path, wanted: tuple[str, ...], numbers: set[str]) -> Iterator[Batch]:
    import pyarrow
    from pyarrow import csv

    size = max(file.stat().st_size, 1)
    parsing = csv.ParseOptions(newlines_in_values=True)  # the texts of math problems contain newlines
    with csv.open_csv(file, parse_options=parsing) as header:
        names = header.schema.names
    _require_columns(file, wanted, names)
    columns = wanted or tuple(names[:1])  # one column at least, to count the rows
    # Keep "007" as text; only pass rates are numbers.
    types = {name: pyarrow.float64() if name in numbers else pyarrow.string() for name in columns}
    converting = csv.ConvertOptions(column_types=types, include_columns=list(types), strings_can_be_null=False)
    reading, unused = csv.ReadOptions(block_size=CSV_BLOCK), set(names) - set(wanted)
    # pyarrow reads ahead in its own threads, where Python's file objects fail.
    with pyarrow.OSFile(str(file)) as raw, csv.open_csv(_native(file, raw), reading, parsing, converting) as batches:
        for number, batch in enumerate(batches, 1):
            read = min(raw.tell(), number * CSV_BLOCK)  # pyarrow is many blocks ahead of what it yields
            yield Batch(batch.to_pylist(), min(read / size, 1.0), unused)


def _read_parquet(file: Path, wanted: tuple[str, ...], _numbers: set[str]) -> Iterator[Batch]:
    from pyarrow import parquet

    read = 0
    with parquet.ParquetFile(file) as opened:
        _require_columns(file, wanted, _paths(opened.schema_arrow))
        unused = _unused(wanted, opened.schema_arrow.names)
        for batch in opened.iter_batches(BATCH, columns=list(wanted)):
            rows = batch.to_pylist() if batch.num_columns else [{} for _ in range(batch.num_rows)]
            read += len(rows)
            yield Batch(rows, read / opened.metadata.num_rows, unused)


def _paths(fields: Any) -> Iterator[str]:
    """Yield the names of a schema's columns, including nested ones, such as "a" and "a.b"."""
    import pyarrow

    for column in fields:
        yield column.name
        if pyarrow.types.is_struct(column.type):
            yield from (f"{column.name}.{inner}" for inner in _paths(column.type))


def _read_json(file: Path, wanted: tuple[str, ...], _numbers: set[str]) -> Iterator[Batch]:
    """Yield the rows of a file with one JSON object per line, or with one array of objects."""
    import pyarrow

    size, is_first = max(file.stat().st_size, 1), True
    with pyarrow.OSFile(str(file)) as raw, io.BufferedReader(_native(file, raw)) as text:
        rows = _objects(file, text)
        while batch := list(islice(rows, BATCH)):
            names = list(dict.fromkeys(name for row in batch for name in row))
            if is_first:  # check top-level columns only: nested fields may be absent in some rows
                _require_columns(file, [_enclosing(column, names) or column for column in wanted], names)
            is_first = False
            yield Batch(batch, min(raw.tell() / size, 1.0), _unused(wanted, names))


def _objects(file: Path, text: io.BufferedReader) -> Iterator[Row]:
    """Yield the objects of one JSON array, loaded as a whole, or of lines."""
    lines: Iterable[Any] = (line for line in text if line.strip())
    if text.peek(1)[:1] == b"[":
        try:
            lines = json.load(text)
        except ValueError as error:
            raise CommandError(f"{file}: not JSON: {error}") from error
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line) if isinstance(line, bytes) else line
        except ValueError as error:
            raise CommandError(f"{file}: row {number} is not JSON: {error}") from error
        if not isinstance(row, dict):
            raise CommandError(f"{file}: row {number} is not a JSON object")
        yield row


def _native(file: Path, raw: Any) -> Any:
    """Return an open file's content, decompressed if needed."""
    import pyarrow

    how = COMPRESSED.get(file.suffix.lower())
    return raw if how is None else pyarrow.CompressedInputStream(raw, how)


def _require_columns(file: Path, wanted: Iterable[str], existing: Iterable[str]) -> None:
    names = list(existing)
    if missing := [column for column in wanted if column not in names]:
        listed = ", ".join(map(repr, missing))
        raise CommandError(f"{file}: no column {listed}; its columns are {', '.join(names) or 'none'}")


def _enclosing(column: str, names: Iterable[str]) -> str | None:
    """Return the longest name that is the column or one of its parents ("a" for "a.b"); None if there is none."""
    return max((name for name in names if f"{column}.".startswith(f"{name}.")), key=len, default=None)


def _unused(wanted: Iterable[str], names: list[str]) -> set[str]:
    return set(names) - {_enclosing(column, names) for column in wanted}


COMPRESSED = {".gz": "gzip", ".zst": "zstd"}  # Parquet compresses its own pages
READERS: dict[str, Callable[[Path, tuple[str, ...], set[str]], Iterator[Batch]]] = {
    ".csv": _read_csv,
    ".json": _read_json,
    ".jsonl": _read_json,
    ".ndjson": _read_json,
    ".parquet": _read_parquet,
}
