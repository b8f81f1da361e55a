"""Read tasks from CSV, JSON Lines and Parquet, a batch at a time, so that millions need no memory."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from bots_service.cli.failures import CommandError

BATCH = 10_000  # rows: some MB, and a progress bar that moves
CSV_BLOCK = 2**20  # bytes, of which pyarrow reads some 32 ahead; a longer row is refused

Lists = dict[str, list[Any]]  # column -> values


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns make a task.

    id: its id; references: pass rates, a reference model each, weakest first; tags: values become tags.
    """

    id: str = "id"
    references: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    def wanted(self, file: Path, existing: list[str]) -> list[str]:
        """Return the columns to read.

        Raises:
            CommandError: one of them does not exist.
        """
        named = [self.id, *self.references, *self.tags]
        missing = [column for column in named if column not in existing]
        if missing:
            told = ", ".join(map(repr, missing))
            raise CommandError(f"{file}: no column {told}; the columns are {', '.join(existing) or 'none'}")
        return list(dict.fromkeys(named))


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows of a file.

    lists: the values of each wanted column; first: number of the first row, from 1.
    share_read: how much of the file is read, in [0, 1].
    """

    lists: Lists
    first: int
    share_read: float


class FileTask(msgspec.Struct, frozen=True, omit_defaults=True):
    """A task as a file has it, and as the service reads it."""

    id: str
    reference_pass_rates: list[float | None] = []
    tags: list[str] = []


def read_tasks(file: Path, columns: Columns) -> Iterator[tuple[list[FileTask], float]]:
    """Yield the tasks in batches, each with the share of the file that is read.

    Raises:
        CommandError: the file is of no known kind, broken, empty, or lacks a column or an id.
        OSError: it cannot be read.
    """
    import pyarrow

    read, rows = reader_of(file), 0
    try:
        for batch in read(file, columns):
            tasks = list(tasks_of(file, batch, columns))
            rows += len(tasks)
            yield tasks, batch.share_read
    except (pyarrow.ArrowException, UnicodeDecodeError) as error:
        raise CommandError(f"{file}: {error}") from error
    if rows == 0:
        raise CommandError(f"{file}: there are no rows")


def reader_of(file: Path) -> Callable[[Path, Columns], Iterator[Batch]]:
    """Return what reads the file, by its name."""
    readers = {".csv": read_csv, ".jsonl": read_json_lines, ".ndjson": read_json_lines, ".parquet": read_parquet}
    reader = readers.get(file.suffix.lower())
    if reader is None:
        raise CommandError(f"{file}: the name must end with one of {', '.join(readers)}")
    return reader


def read_csv(file: Path, columns: Columns) -> Iterator[Batch]:
    """Yield the rows of a CSV file with a header line."""
    import pyarrow
    from pyarrow import csv

    size = max(file.stat().st_size, 1)
    # Problem texts hold newlines.
    parsing = csv.ParseOptions(newlines_in_values=True)
    with csv.open_csv(file, parse_options=parsing) as header:
        wanted = columns.wanted(file, header.schema.names)
    types = dict.fromkeys(wanted, pyarrow.string()) | dict.fromkeys(columns.references, pyarrow.float64())
    types[columns.id] = pyarrow.string()  # "007" is no number
    converting = csv.ConvertOptions(column_types=types, include_columns=wanted, strings_can_be_null=False)
    first = 1
    reading = csv.ReadOptions(block_size=CSV_BLOCK)
    with csv.open_csv(file, reading, parsing, converting) as batches:
        for blocks, batch in enumerate(batches, 1):
            yield Batch(_lists(batch), first, min(blocks * CSV_BLOCK / size, 1.0))
            first += batch.num_rows


def read_parquet(file: Path, columns: Columns) -> Iterator[Batch]:
    """Yield the rows of a Parquet file."""
    from pyarrow import parquet

    first = 1
    with parquet.ParquetFile(file) as opened:
        wanted = columns.wanted(file, opened.schema_arrow.names)
        total = max(opened.metadata.num_rows, 1)
        for batch in opened.iter_batches(BATCH, columns=wanted):
            yield Batch(_lists(batch), first, (first - 1 + batch.num_rows) / total)
            first += batch.num_rows


def read_json_lines(file: Path, columns: Columns) -> Iterator[Batch]:
    """Yield the rows of a file with a JSON object a line."""
    size, first = max(file.stat().st_size, 1), 1
    wanted: list[str] | None = None
    with file.open("rb") as opened:
        while rows := list(_some_objects(file, opened, first)):
            if wanted is None:
                wanted = columns.wanted(file, list(dict.fromkeys(name for row in rows for name in row)))
            yield Batch({name: [row.get(name) for row in rows] for name in wanted}, first, opened.tell() / size)
            first += len(rows)


def _some_objects(file: Path, opened: Any, first: int) -> Iterator[dict[str, Any]]:
    rows = 0
    while rows < BATCH and (line := opened.readline()):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise CommandError(f"{file}: row {first + rows} is no JSON: {error}") from error
        if not isinstance(row, dict):
            raise CommandError(f"{file}: row {first + rows} is no JSON object")
        yield row
        rows += 1


def _lists(batch: Any) -> Lists:
    return {name: column.to_pylist() for name, column in zip(batch.schema.names, batch.columns, strict=True)}


def tasks_of(file: Path, batch: Batch, columns: Columns) -> Iterator[FileTask]:
    """Yield the task of each row."""
    ids = batch.lists[columns.id]
    references = [batch.lists[name] for name in columns.references]
    tags = [batch.lists[name] for name in columns.tags]
    for place, value in enumerate(ids):
        try:
            rates = [rate_of(values[place], name) for values, name in zip(references, columns.references, strict=True)]
            found = dict.fromkeys(tag for values in tags for tag in tags_of(values[place]))
            yield FileTask(id_of(value), rates, list(found))
        except ValueError as error:
            raise CommandError(f"{file}: row {batch.first + place}: {error}") from error


def id_of(value: object) -> str:
    """Return a task's id: a text or a whole number."""
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ValueError("there is no id" if value in (None, "") else f"the id is {value!r}, not a text")


def rate_of(value: object, name: str) -> float | None:
    """Return a pass rate; None where there is none."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise ValueError(f"{name} is {value!r}, not a number")
    rate = float(value)
    return None if rate != rate else rate  # noqa: PLR0124 - NaN is how Parquet files say "not measured"


def tags_of(value: object) -> Iterator[str]:
    """Yield the tags in a cell: none, one, or a list of them."""
    for tag in value if isinstance(value, list) else [value]:
        if tag not in (None, ""):
            yield str(tag)
