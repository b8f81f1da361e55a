"""Tasks from CSV, JSON and Parquet files, read a batch at a time, so that millions need no memory."""

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


BATCH = 10_000  # rows: some MB, and a progress bar that moves
CSV_BLOCK = 2**20  # bytes, of which pyarrow reads some 32 ahead; a longer row is refused

Row = dict[str, Any]  # column -> value; a struct's value is such a mapping


@dataclass(frozen=True, slots=True)
class Wanted:
    """The columns to read; "a.b" is what is called b inside a. numbers: those that a CSV file holds as numbers."""

    columns: tuple[str, ...]
    numbers: frozenset[str] = frozenset()

    def require_in(self, file: Path, existing: Iterable[str]) -> None:
        """Check that a file has the columns that are wanted.

        Raises:
            CommandError: one is not there.
        """
        names = list(existing)
        missing = [column for column in self.columns if column not in names]
        if missing:
            told = ", ".join(map(repr, missing))
            raise CommandError(f"{file}: no column {told}; the columns are {', '.join(names) or 'none'}")


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows of a file.

    rows: with the wanted columns at least.
    first: number of the first row, from 0.
    share_read: how much of the file is read, in [0, 1].
    unused: columns of the file that are not wanted.
    """

    rows: list[Row]
    first: int
    share_read: float
    unused: frozenset[str] = frozenset()


def outer_of(column: str, names: Iterable[str]) -> str | None:
    """Return the longest of the names that is the column, or in which it lies: "a" of "a.b"; None if there is none."""
    fitting = [name for name in names if column == name or column.startswith(f"{name}.")]
    return max(fitting, key=len, default=None)


def kind_of(file: Path) -> str | None:
    """Return a file's kind, such as ".jsonl", whether it is compressed or not; None if it is none that is read."""
    suffixes = [suffix.lower() for suffix in file.suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes and suffixes[-1] in READERS else None


def stem_of(file: Path) -> str:
    """Return a file's name without what says its kind."""
    name = file.name
    while (suffix := Path(name).suffix.lower()) in COMPRESSED or suffix in READERS:
        name = name[: -len(suffix)]
    return name


def files_of(paths: list[Path]) -> list[Path]:
    """Return the files in the order in which they are read: those of a folder by name.

    Raises:
        CommandError: one is of no known kind, or a folder has none.
    """
    files = []
    for path in paths:
        inside = sorted(file for file in path.iterdir() if kind_of(file)) if path.is_dir() else [path]
        if not inside:
            raise CommandError(f"{path}: the folder has no file that ends with one of {', '.join(READERS)}")
        files += inside
    for file in files:
        if kind_of(file) is None:
            raise CommandError(f"{file}: the name must end with one of {', '.join(READERS)} ({', '.join(COMPRESSED)})")
    return files


def read_rows(file: Path, wanted: Wanted) -> Iterator[Batch]:
    """Yield the rows of a file, in batches.

    Raises:
        CommandError: it is broken, or lacks a column.
        OSError: it can't be read.
    """
    import pyarrow

    try:
        yield from READERS[kind_of(file) or ""](file, wanted)
    except (pyarrow.ArrowException, UnicodeDecodeError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.filename:  # it can't be opened, and the message says which
            raise
        raise CommandError(f"{file}: {error}") from error


def _read_csv(file: Path, wanted: Wanted) -> Iterator[Batch]:
    import pyarrow
    from pyarrow import csv

    size, first = max(file.stat().st_size, 1), 0
    # Problem texts hold newlines.
    parsing = csv.ParseOptions(newlines_in_values=True)
    with csv.open_csv(file, parse_options=parsing) as header:
        names = header.schema.names
    wanted.require_in(file, names)
    columns = wanted.columns or tuple(names[:1])  # where none is wanted, the rows still count
    # "007" is no number, unless it is a pass rate.
    types = {name: pyarrow.float64() if name in wanted.numbers else pyarrow.string() for name in columns}
    converting = csv.ConvertOptions(column_types=types, include_columns=list(types), strings_can_be_null=False)
    reading, unused = csv.ReadOptions(block_size=CSV_BLOCK), frozenset(names) - set(wanted.columns)
    # pyarrow reads ahead in threads of its own, which Python's files don't survive.
    with pyarrow.OSFile(str(file)) as raw, csv.open_csv(_native(file, raw), reading, parsing, converting) as batches:
        for batch in batches:
            yield Batch(batch.to_pylist(), first, min(raw.tell() / size, 1.0), unused)
            first += batch.num_rows


def _read_parquet(file: Path, wanted: Wanted) -> Iterator[Batch]:
    from pyarrow import parquet

    first = 0
    with parquet.ParquetFile(file) as opened:
        names = opened.schema_arrow.names
        wanted.require_in(file, _paths(opened.schema_arrow))
        total = max(opened.metadata.num_rows, 1)
        unused = frozenset(names) - {outer_of(column, names) for column in wanted.columns}
        for batch in opened.iter_batches(BATCH, columns=list(wanted.columns)):
            rows = batch.to_pylist() if batch.num_columns else [{} for _ in range(batch.num_rows)]
            first += batch.num_rows
            yield Batch(rows, first - batch.num_rows, first / total, unused)


def _paths(fields: Any) -> Iterator[str]:
    """Yield the names of a schema's columns, and of those inside them."""
    import pyarrow

    for column in fields:
        yield column.name
        if pyarrow.types.is_struct(column.type):
            yield from (f"{column.name}.{inner}" for inner in _paths(column.type))


def _read_json(file: Path, wanted: Wanted) -> Iterator[Batch]:
    """Yield the rows of a file with a JSON object a line, or with one array of objects."""
    import pyarrow

    size, first = max(file.stat().st_size, 1), 0
    with pyarrow.OSFile(str(file)) as raw, io.BufferedReader(_native(file, raw)) as text:
        begin = text.peek(1)[:1]
        rows = _array(file, text) if begin == b"[" else _lines(file, text)
        while batch := list(islice(rows, BATCH)):
            names = dict.fromkeys(name for row in batch for name in row)
            if first == 0:  # what lies inside may well be in some rows only
                Wanted(tuple(outer_of(column, names) or column for column in wanted.columns)).require_in(file, names)
            unused = frozenset(names) - {outer_of(column, names) for column in wanted.columns}
            yield Batch(batch, first, min(raw.tell() / size, 1.0), unused)
            first += len(batch)


def _array(file: Path, text: io.BufferedIOBase) -> Iterator[Row]:
    """Yield the objects of an array, which is read as a whole."""
    try:
        rows = json.load(text)
    except ValueError as error:
        raise CommandError(f"{file}: it is not JSON: {error}") from error
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
    """Return what an open file holds, unpacked if it is compressed."""
    import pyarrow

    how = COMPRESSED.get(file.suffix.lower())
    return raw if how is None else pyarrow.CompressedInputStream(raw, how)


COMPRESSED = {".gz": "gzip", ".zst": "zstd"}  # not of Parquet, which is compressed inside
READERS: dict[str, Callable[[Path, Wanted], Iterator[Batch]]] = {
    ".csv": _read_csv,
    ".json": _read_json,
    ".jsonl": _read_json,
    ".ndjson": _read_json,
    ".parquet": _read_parquet,
}


OWN = {"id", "reference_pass_rates", "tags"}  # the columns of a file that the service reads as it is


@dataclass(frozen=True, slots=True)
class Source:
    """Files, and how their rows become tasks.

    file_in_id: put the file's name in front of each id, and number the rows of each file from 0.
    skip_repeats: leave out rows whose id came before.
    """

    files: list[Path]
    columns: "TaskColumns"
    file_in_id: bool = False
    skip_repeats: bool = False

    @classmethod
    def of(
        cls, paths: list[Path], columns: "TaskColumns", *, file_in_id: bool = False, skip_repeats: bool = False
    ) -> "Source":
        """Return the source that a command names: files, and folders of files.

        Raises:
            CommandError: a file is of no known kind, or is CSV where its content is to be the id.
        """
        files = files_of(paths)
        for file in files:
            if columns.id_from == "content" and kind_of(file) == ".csv":
                raise CommandError(
                    f"{file}: no ids from the content of CSV, which does not say whether 3 is a number or a text, so "
                    "that your trainer may compute others; convert the file to Parquet or JSON Lines with what your "
                    "trainer reads it with, and give both that file"
                )
        return cls(files, columns, file_in_id, skip_repeats)

    @property
    def wanted(self) -> Wanted:
        """The columns to read."""
        return Wanted(self.columns.named, frozenset(self.columns.references) - {*self.columns.id_columns})

    @property
    def is_own(self) -> bool:
        """Whether it is one file as the service itself reads it, which is sent as it is.

        Raises:
            CommandError: it can't be read.
        """
        (file, *more), changed = self.files, self.file_in_id or self.skip_repeats
        return not (more or changed) and self._has_defaults and is_own(file)

    @property
    def _has_defaults(self) -> bool:
        columns = self.columns
        return (columns.id, columns.id_from) == ("id", "columns") and not columns.references and not columns.tags


@dataclass(slots=True)
class Read:
    """How far the files were read. share: of their bytes; unused: columns that were not wanted."""

    rows: int = 0
    repeats: int = 0
    share: float = 0.0
    unused: set[str] = field(default_factory=set)


def read_tasks(source: Source, read: Read) -> Iterator[list["Task"]]:
    """Yield the tasks in batches.

    Args:
        source: the files.
        read: told how far they were read; begins anew with each call.

    Raises:
        CommandError: a file is broken or empty, or lacks a column or an id.
        OSError: one can't be read.
    """
    sizes, done, seen = [file.stat().st_size for file in source.files], 0, set[str]()
    read.rows, read.repeats, read.share = 0, 0, 0.0
    for file, size in zip(source.files, sizes, strict=True):
        before = read.rows
        for batch in read_rows(file, source.wanted):
            _require_rates_wanted(file, batch, source)
            tasks = list(_tasks_of(file, batch, source, before))
            read.rows += len(tasks)
            read.unused |= batch.unused
            if source.skip_repeats:
                first_of = {task.id: task for task in reversed(tasks)}
                tasks = [task for task in tasks if first_of[task.id] is task and task.id not in seen]
                seen.update(first_of)
                read.repeats = read.rows - len(seen)
            read.share = (done + batch.share_read * size) / max(sum(sizes), 1)
            yield tasks
        if read.rows == before:
            raise CommandError(f"{file}: there are no rows")
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
    """Refuse to lose pass rates without a word."""
    if "reference_pass_rates" in batch.unused and not source.columns.references:
        raise CommandError(
            f"{file}: it has a column reference_pass_rates, which is read only from one file with no columns but "
            f"{', '.join(sorted(OWN))} and without options for columns; or name columns of pass rates by --reference"
        )


def is_own(file: Path) -> bool:
    """Say whether a file is as the service itself reads it: no columns but its own, or lines of such tasks."""
    if file.suffix.lower() == ".parquet":
        from pyarrow import parquet

        with parquet.ParquetFile(file) as opened:
            return "id" in opened.schema_arrow.names and OWN.issuperset(opened.schema_arrow.names)
    if file.suffix.lower() not in (".jsonl", ".ndjson") or kind_of(file) is None:
        return False
    first = next(iter(read_rows(file, Wanted(()))), None)
    # The first line may say what the whole is.
    tasks = [] if first is None else [row for row in first.rows if row.keys() - {"reference_models", "description"}]
    return bool(tasks) and all(OWN.issuperset(row) for row in tasks)


def name_of(paths: list[Path]) -> str:
    """Return the name of a dataset that is made of files: the file's, or the folder's.

    Raises:
        CommandError: there are several.
    """
    if len(paths) > 1:
        raise CommandError("several files need a name for their dataset; pass --name")
    (path,) = paths
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path.resolve().name if path.is_dir() else stem_of(path))
