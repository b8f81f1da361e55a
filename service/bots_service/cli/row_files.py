"""Rows of CSV, JSON and Parquet files, a batch at a time, so that millions need no memory."""

import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from bots_service.cli.failures import CommandError

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

    for field in fields:
        yield field.name
        if pyarrow.types.is_struct(field.type):
            yield from (f"{field.name}.{inner}" for inner in _paths(field.type))


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
        raise CommandError(f"{file}: it is no JSON: {error}") from error
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
                raise CommandError(f"{file}: row {number} is no JSON: {error}") from error
            yield _object(file, row, number)


def _object(file: Path, row: Any, number: int) -> Row:
    if not isinstance(row, dict):
        raise CommandError(f"{file}: row {number} is no JSON object")
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
