"""Tasks from CSV, JSON and Parquet files, read in batches, so that memory does not grow with the file."""

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bots_service.cli.failures import CommandError

if TYPE_CHECKING:
    from bots_client import Task, TaskColumns


BATCH = 10_000  # rows: a few MB, and frequent progress
CSV_BLOCK = 2**20  # bytes; pyarrow reads about 32 blocks ahead and rejects a row longer than a block

Row = dict[str, Any]  # column -> value; a struct is a nested Row


@dataclass(frozen=True, slots=True)
class WantedColumns:
    """The columns to read; "a.b" is field b of struct a. numbers: columns that are parsed as numbers in CSV."""

    columns: tuple[str, ...]
    numbers: frozenset[str] = frozenset()

    def require_in(self, file: Path, existing: Iterable[str]) -> None:
        """Check that a file has the wanted columns.

        Raises:
            CommandError: a column is missing.
        """
        names = list(existing)
        missing = [column for column in self.columns if column not in names]
        if missing:
            listed = ", ".join(map(repr, missing))
            raise CommandError(f"{file}: no column {listed}; its columns are {', '.join(names) or 'none'}")


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive rows of a file.

    rows: each with at least the wanted columns.
    first: number of the first row, from 0.
    share_read: share of the file read so far, in [0, 1].
    unused: the file's other columns.
    """

    rows: list[Row]
    first: int
    share_read: float
    unused: frozenset[str] = frozenset()


def enclosing_column(column: str, names: Iterable[str]) -> str | None:
    """Return the longest name that is the column or one of its parents ("a" for "a.b"); None if there is none."""
    matching = [name for name in names if column == name or column.startswith(f"{name}.")]
    return max(matching, key=len, default=None)


def kind_of(file: Path) -> str | None:
    """Return a file's format as its suffix, such as ".jsonl", without compression; None if it is not supported."""
    suffixes = [suffix.lower() for suffix in file.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes and suffixes[-1] in READERS else None


def stem_of(file: Path) -> str:
    """Return a file's name without the suffixes of its format and compression."""
    name = file.name
    while (suffix := Path(name).suffix.lower()) in COMPRESSED or suffix in READERS:
        name = name[: -len(suffix)]
    return name


def files_of(paths: list[Path]) -> list[Path]:
    """Return the files in reading order, with each folder replaced by its supported files in name order.

    Raises:
        CommandError: a file's format is not supported, or a folder has no supported file.
    """
    files = []
    for path in paths:
        inside = sorted(file for file in path.iterdir() if kind_of(file)) if path.is_dir() else [path]
        if not inside:
            raise CommandError(f"{path}: no file in this folder ends with one of {', '.join(READERS)}")
        files += inside
    for file in files:
        if kind_of(file) is None:
            endings = f"{', '.join(READERS)}, optionally with {' or '.join(COMPRESSED)}"
            raise CommandError(f"{file}: unsupported format; the name must end with one of {endings}")
    return files


def read_rows(file: Path, wanted: WantedColumns) -> Iterator[Batch]:
    """Yield the rows of a file, in batches.

    Raises:
        CommandError: the file is damaged, or a wanted column is missing.
        OSError: the file can't be opened.
    """
    import pyarrow

    try:
        yield from READERS[kind_of(file) or ""](file, wanted)
    except (pyarrow.ArrowException, UnicodeDecodeError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.filename:  # it can't be opened; the error names the file
            raise
        raise CommandError(f"{file}: {error}") from error


def _read_csv(file: Path, wanted: WantedColumns) -> Iterator[Batch]:
    import pyarrow
    from pyarrow import csv

    size, first = max(file.stat().st_size, 1), 0
    # The texts of math problems contain newlines.
    parsing = csv.ParseOptions(newlines_in_values=True)
    with csv.open_csv(file, parse_options=parsing) as header:
        names = header.schema.names
    wanted.require_in(file, names)
    columns = wanted.columns or tuple(names[:1])  # one column at least, to count the rows
    # Keep "007" as text; only pass rates are numbers.
    types = {name: pyarrow.float64() if name in wanted.numbers else pyarrow.string() for name in columns}
    converting = csv.ConvertOptions(column_types=types, include_columns=list(types), strings_can_be_null=False)
    reading, unused = csv.ReadOptions(block_size=CSV_BLOCK), frozenset(names) - set(wanted.columns)
    # pyarrow reads ahead in its own threads, where Python's file objects fail.
    with pyarrow.OSFile(str(file)) as raw, csv.open_csv(_native(file, raw), reading, parsing, converting) as batches:
        for number, batch in enumerate(batches, 1):
            # pyarrow is many blocks ahead of what it yields; how long a compressed file's blocks are, only it knows.
            read = raw.tell() if file.suffix.lower() in COMPRESSED else min(raw.tell(), number * CSV_BLOCK)
            yield Batch(batch.to_pylist(), first, min(read / size, 1.0), unused)
            first += batch.num_rows


def _read_parquet(file: Path, wanted: WantedColumns) -> Iterator[Batch]:
    from pyarrow import parquet

    first = 0
    with parquet.ParquetFile(file) as opened:
        names = opened.schema_arrow.names
        wanted.require_in(file, _paths(opened.schema_arrow))
        total = max(opened.metadata.num_rows, 1)
        unused = frozenset(names) - {enclosing_column(column, names) for column in wanted.columns}
        for batch in opened.iter_batches(BATCH, columns=list(wanted.columns)):
            rows = batch.to_pylist() if batch.num_columns else [{} for _ in range(batch.num_rows)]
            first += batch.num_rows
            yield Batch(rows, first - batch.num_rows, first / total, unused)


def _paths(fields: Any) -> Iterator[str]:
    """Yield the names of a schema's columns, including nested ones, such as "a" and "a.b"."""
    import pyarrow

    for column in fields:
        yield column.name
        if pyarrow.types.is_struct(column.type):
            yield from (f"{column.name}.{inner}" for inner in _paths(column.type))


def _read_json(file: Path, wanted: WantedColumns) -> Iterator[Batch]:
    """Yield the rows of a file with one JSON object per line, or with one array of objects."""
    import pyarrow

    size, first = max(file.stat().st_size, 1), 0
    with pyarrow.OSFile(str(file)) as raw, io.BufferedReader(_native(file, raw)) as text:
        begin = text.peek(1)[:1]
        rows = _array(file, text) if begin == b"[" else _lines(file, text)
        while batch := list(islice(rows, BATCH)):
            names = dict.fromkeys(name for row in batch for name in row)
            if first == 0:  # check top-level columns only: nested fields may be absent in some rows
                WantedColumns(tuple(enclosing_column(column, names) or column for column in wanted.columns)).require_in(
                    file, names
                )
            unused = frozenset(names) - {enclosing_column(column, names) for column in wanted.columns}
            yield Batch(batch, first, min(raw.tell() / size, 1.0), unused)
            first += len(batch)


def _array(file: Path, text: io.BufferedIOBase) -> Iterator[Row]:
    """Yield the objects of one JSON array, loaded as a whole."""
    try:
        rows = json.load(text)
    except ValueError as error:
        raise CommandError(f"{file}: not JSON: {error}") from error
    for number, row in enumerate(rows, 1):
        yield _object(file, row, number)


def _lines(file: Path, text: Iterable[bytes]) -> Iterator[Row]:
    number = 0
    for line in text:
        if line.strip():
            number += 1
            try:
                row = json.loads(line)
            except ValueError as error:
                raise CommandError(f"{file}: row {number} is not JSON: {error}") from error
            yield _object(file, row, number)


def _object(file: Path, row: Any, number: int) -> Row:
    if not isinstance(row, dict):
        raise CommandError(f"{file}: row {number} is not a JSON object")
    return row


def _native(file: Path, raw: Any) -> Any:
    """Return an open file's content, decompressed if needed."""
    import pyarrow

    how = COMPRESSED.get(file.suffix.lower())
    return raw if how is None else pyarrow.CompressedInputStream(raw, how)


COMPRESSED = {".gz": "gzip", ".zst": "zstd"}  # Parquet compresses its own pages
READERS: dict[str, Callable[[Path, WantedColumns], Iterator[Batch]]] = {
    ".csv": _read_csv,
    ".json": _read_json,
    ".jsonl": _read_json,
    ".ndjson": _read_json,
    ".parquet": _read_parquet,
}


SERVICE_COLUMNS = {"id", "reference_pass_rates", "tags"}  # the service reads a file with only these as it is


@dataclass(frozen=True, slots=True)
class Source:
    """Files, and the options that turn their rows into tasks.

    file_in_id: prefix each id with the file's name, and number the rows of each file from 0.
    skip_repeats: skip rows whose id occurred before.
    """

    files: list[Path]
    columns: "TaskColumns"
    file_in_id: bool = False
    skip_repeats: bool = False

    @classmethod
    def of(
        cls, paths: list[Path], columns: "TaskColumns", *, file_in_id: bool = False, skip_repeats: bool = False
    ) -> "Source":
        """Return the source for a command's files and folders.

        Raises:
            CommandError: a file's format is not supported, or it is CSV and ids are hashes of the content.
        """
        files = files_of(paths)
        for file in files:
            if columns.id_from == "content" and kind_of(file) == ".csv":
                raise CommandError(
                    f"{file}: can't hash the content of CSV: its values have no types, so your trainer may compute "
                    "other ids; convert the file to Parquet or JSON Lines with the library that your trainer uses, "
                    "and use the converted file here and in the trainer"
                )
        return cls(files, columns, file_in_id, skip_repeats)

    @property
    def wanted(self) -> WantedColumns:
        """The columns to read."""
        return WantedColumns(self.columns.named, frozenset(self.columns.references) - {*self.columns.id_columns})

    @property
    def is_service_format(self) -> bool:
        """Whether the source is one file that the service can read unchanged.

        Raises:
            CommandError: the file is damaged.
        """
        (file, *more), changed = self.files, self.file_in_id or self.skip_repeats
        return not (more or changed) and self._has_defaults and is_service_format(file)

    @property
    def _has_defaults(self) -> bool:
        columns = self.columns
        return (columns.id, columns.id_from) == ("id", "columns") and not columns.references and not columns.tags


@dataclass(slots=True)
class ReadProgress:
    """How much of the files was read. share: of their bytes, in [0, 1]; unused: columns that were not wanted."""

    rows: int = 0
    repeats: int = 0
    share: float = 0.0
    unused: set[str] = field(default_factory=set)


def read_tasks(source: Source, progress: ReadProgress) -> Iterator[list["Task"]]:
    """Yield the tasks in batches.

    Args:
        source: the files.
        progress: reset by each call, then updated before each batch.

    Raises:
        CommandError: a file is damaged or empty, or a column or an id is missing.
        OSError: a file can't be opened.
    """
    sizes, done, seen = [file.stat().st_size for file in source.files], 0, set[str]()
    progress.rows, progress.repeats, progress.share = 0, 0, 0.0
    for file, size in zip(source.files, sizes, strict=True):
        before = progress.rows
        for batch in read_rows(file, source.wanted):
            _require_rates_wanted(file, batch, source)
            tasks = list(_tasks_of(file, batch, source, before))
            progress.rows += len(tasks)
            progress.unused |= batch.unused
            if source.skip_repeats:
                first_of = {task.id: task for task in reversed(tasks)}
                tasks = [task for task in tasks if first_of[task.id] is task and task.id not in seen]
                seen.update(first_of)
                progress.repeats = progress.rows - len(seen)
            progress.share = (done + batch.share_read * size) / max(sum(sizes), 1)
            yield tasks
        if progress.rows == before:
            raise CommandError(f"{file}: no rows")
        done += size


def _tasks_of(file: Path, batch: Batch, source: Source, before: int) -> Iterator["Task"]:
    from bots_client import InvalidRequestError

    first = batch.first if source.file_in_id else before + batch.first
    for place, row in enumerate(batch.rows):
        try:
            task = source.columns.task(row, first + place)
        except InvalidRequestError as error:
            raise CommandError(f"{file}: row {batch.first + place + 1}: {error}") from error
        yield replace(task, id=f"{stem_of(file)}:{task.id}") if source.file_in_id else task


def _require_rates_wanted(file: Path, batch: Batch, source: Source) -> None:
    """Raise if the file has pass rates that its options would drop."""
    if "reference_pass_rates" in batch.unused and not source.columns.references:
        raise CommandError(
            f"{file}: the column reference_pass_rates would be dropped; name the columns of pass rates with "
            f"--reference, or pass one file that has only {', '.join(sorted(SERVICE_COLUMNS))}, without column options"
        )


def is_service_format(file: Path) -> bool:
    """Return whether the service can read a file unchanged: Parquet or JSON Lines with only its own columns."""
    if file.suffix.lower() == ".parquet":
        from pyarrow import parquet

        with parquet.ParquetFile(file) as opened:
            return "id" in opened.schema_arrow.names and SERVICE_COLUMNS.issuperset(opened.schema_arrow.names)
    if file.suffix.lower() not in (".jsonl", ".ndjson") or kind_of(file) is None:
        return False
    first = next(iter(read_rows(file, WantedColumns(()))), None)
    # The first line may hold the fields of the dataset.
    tasks = [] if first is None else [row for row in first.rows if row.keys() - {"reference_models", "description"}]
    return bool(tasks) and all(SERVICE_COLUMNS.issuperset(row) for row in tasks)


def dataset_name_of(paths: list[Path]) -> str:
    """Return the default name of a dataset: the name of its one file or folder.

    Raises:
        CommandError: there are several paths.
    """
    if len(paths) > 1:
        raise CommandError("several files have no common name; pass --name")
    (path,) = paths
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.resolve().name if path.is_dir() else stem_of(path))
