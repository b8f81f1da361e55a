"""Tasks as Parquet: spooled to a temporary file, because its index stands at the end, then read batch by batch."""

import asyncio
import os
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sized
from contextlib import asynccontextmanager
from itertools import islice
from typing import Any, BinaryIO, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bots_service.api.requests import MIB
from bots_service.api.task_formats.text import BLOCK_TASKS, SHOWN_FLAWS, tidy, wrong_length
from bots_service.core.arrays import Floats
from bots_service.datasets import MAX_TAGS
from bots_service.errors import Flaw, InvalidTasksError, LimitReachedError, MalformedBodyError
from bots_service.records import TaskBlock

FOOTER_BYTES = 16 * MIB  # of metadata, which is read at once; 10,000 row groups of three columns take some 5 MiB
GROUP_VALUES = 2**25  # of a column in a row group: one task could hold them all, and 12 bytes each are read at once
GROUP_BYTES = 256 * MIB  # of a column in a row group once it is unpacked: all of it stands in memory at once
VALUES_PER_TASK = 256  # four times the reference models, eight times the tags that a task can have
BYTES_PER_TEXT = 2048  # an id has at most 256 characters of at most 4 bytes
SLACK_BYTES = MIB  # a row group of few tasks still has page headers and a dictionary


def _require_short_footer(spool: BinaryIO) -> None:
    """Check how much metadata a Parquet file says it has, before it is read."""
    size = spool.seek(0, os.SEEK_END)
    spool.seek(max(size - 8, 0))  # where the footer's length stands, before "PAR1"
    length = int.from_bytes(spool.read(4), "little")
    spool.seek(0)
    if FOOTER_BYTES < length < size:  # one that is longer than its file is broken, and pyarrow says so
        flaw = Flaw(("body", "metadata"), f"it has {length} bytes; at most {FOOTER_BYTES} are read")
        raise InvalidTasksError("the file has too many columns or row groups; write larger row groups", (flaw,))


def _require_bounded(spool: BinaryIO, metadata: Any, *, max_tasks: int) -> None:
    """Check that there are not too many tasks, and that no column holds more than its tasks can explain."""
    if metadata.num_rows > max_tasks:
        raise LimitReachedError(
            f"a dataset has at most {max_tasks} tasks (BOTS_MAX_TASKS); the file has {metadata.num_rows} rows"
        )
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group)
        most_bytes = rows.num_rows * BYTES_PER_TEXT + SLACK_BYTES
        for place in range(rows.num_columns):
            column = rows.column(place)
            if column.num_values > rows.num_rows * VALUES_PER_TASK or column.total_uncompressed_size > most_bytes:
                raise _too_much(column.path_in_schema)
            if column.num_values > GROUP_VALUES or column.total_uncompressed_size > GROUP_BYTES:
                raise _too_large(column.path_in_schema, group)
    _require_short_texts(spool, metadata)


def _require_short_texts(spool: BinaryIO, metadata: Any) -> None:
    """Check the dictionaries of texts: each text stands there once, and the tasks repeat it."""
    columns = enumerate(metadata.schema.column(place) for place in range(metadata.num_columns))
    texts = {column.path: place for place, column in columns if column.physical_type == "BYTE_ARRAY"}
    file = pq.ParquetFile(spool, metadata=metadata, read_dictionary=list(texts))
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group)
        # No text is longer than its column, so small row groups need no look.
        large = [path for path, place in texts.items() if rows.column(place).total_uncompressed_size > BYTES_PER_TEXT]
        # The first row brings the row group's whole dictionary with it.
        for batch in file.iter_batches(batch_size=1, row_groups=[group], columns=large, use_threads=False):
            for path, column in zip(large, batch.columns, strict=True):
                longest = _longest_text(column)
                if longest > BYTES_PER_TEXT:  # longer than any id or tag may be
                    raise _too_much(path)
                if pa.types.is_nested(column.type) and rows.column(texts[path]).num_values * longest > GROUP_BYTES:
                    raise _too_large(path, group)  # one task could hold them all
            break


def _longest_text(column: Any) -> int:
    """Return how many bytes the longest text of a column, or of its lists, has."""
    texts = column.values if pa.types.is_nested(column.type) else column
    if pa.types.is_dictionary(texts.type):
        texts = texts.dictionary
    return 0 if pa.types.is_null(texts.type) else pc.max(pc.binary_length(texts)).as_py() or 0


def _too_much(column: str) -> InvalidTasksError:
    said = "the file holds more than its tasks can explain"
    return InvalidTasksError(said, (_flaw_of(column, "it holds more than a column of this many tasks can"),))


def _too_large(column: str, group: int) -> InvalidTasksError:
    said = "a row group is too large; write several smaller ones"
    return InvalidTasksError(said, (_flaw_of(column, f"it is too large in row group {group}"),))


def _flaw_of(column: str, said: str) -> Flaw:
    return Flaw(("body", "columns", column.partition(".")[0][:80]), said)


Columns = dict[str, Any]  # name -> the type to which its values are cast
TASK_COLUMNS: Columns = {
    "id": pa.string(),
    "reference_pass_rates": pa.list_(pa.float64()),
    "tags": pa.list_(pa.string()),
}


def _fits(kind: Any, wanted: Any) -> bool:
    """Return whether values of a type can stand for those of the wanted one; nulls can stand for any."""
    types = pa.types
    if types.is_null(kind):
        return True
    if types.is_list(wanted):
        is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        return is_list and _fits(kind.value_type, wanted.value_type)
    if types.is_string(wanted):
        kind = kind.value_type if types.is_dictionary(kind) else kind
        return bool(types.is_string(kind) or types.is_large_string(kind))
    return bool(types.is_floating(kind) or types.is_integer(kind))


def _require_columns(schema: Any, columns: Columns, required: Iterable[str]) -> None:
    """Check names and types of a file's columns."""
    wrong = {name: "there is no such column" for name in required if name not in schema.names}
    for name, times in Counter(schema.names).items():
        if name not in columns:
            wrong[name] = f"unknown column; known: {', '.join(columns)}"
        elif times > 1:
            wrong[name] = "there are several columns of this name"
        elif not _fits(kind := schema.field(name).type, columns[name]):
            wrong[name] = f"it is {str(kind)[:80]}, not {columns[name]}"
    if wrong:
        flaws = [Flaw(("body", "columns", name[:80]), said) for name, said in wrong.items()]
        raise InvalidTasksError("the columns are not those of a dataset", tuple(flaws[:SHOWN_FLAWS]))


@asynccontextmanager
async def open_spooled(
    chunks: AsyncIterator[bytes], columns: Columns, required: Iterable[str], *, max_tasks: int
) -> AsyncIterator[Any]:
    """Yield a Parquet body as a file; the temporary file is gone afterwards. columns: those that may be there.

    Raises:
        MalformedBodyError: it is not a whole Parquet file.
        InvalidTasksError: its columns are others, or stand for too much.
        LimitReachedError: it has more rows.
    """
    pieces, size = list[bytes](), 0
    with tempfile.TemporaryFile() as spool:
        async for chunk in chunks:
            pieces.append(chunk)
            size += len(chunk)
            if size >= MIB:  # a switch to a thread for each network packet would cost more
                await asyncio.to_thread(spool.write, b"".join(pieces))
                pieces, size = [], 0
        await asyncio.to_thread(spool.write, b"".join(pieces))
        yield await asyncio.to_thread(_opened, spool, columns, required, max_tasks)


def _opened(spool: BinaryIO, columns: Columns, required: Iterable[str], max_tasks: int) -> Any:
    _require_short_footer(spool)
    try:
        metadata = pq.ParquetFile(spool).metadata
        _require_columns(metadata.schema.to_arrow_schema(), columns, required)
        _require_bounded(spool, metadata, max_tasks=max_tasks)
        # Without pre_buffer and with a small buffer_size, memory does not grow with the file's row groups.
        return pq.ParquetFile(spool, metadata=metadata, pre_buffer=False, buffer_size=MIB)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(error) from error


Block = TypeVar("Block", bound=Sized)


async def blocks_of_file(file: Any, block_of: Callable[[Any, int], Block]) -> AsyncIterator[Block]:
    """Yield the rows of a file as blocks. block_of: makes one of a record batch and the number of its first row.

    Raises:
        MalformedBodyError: it can't be read.
    """
    batches = file.iter_batches(batch_size=BLOCK_TASKS, use_threads=False)
    first = 0
    while (block := await asyncio.to_thread(_next_block, batches, block_of, first)) is not None:
        yield block
        first += len(block)


def _next_block(batches: Any, block_of: Callable[[Any, int], Block], first: int) -> Block | None:
    try:
        batch = next(batches, None)
        return None if batch is None else block_of(batch, first)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _unreadable(error) from error


def block_of_batch(batch: Any, first: int, *, models: int) -> TaskBlock:
    """Return a record batch as a block.

    Raises:
        InvalidTasksError: an id or a tag is null, a pass rate is NaN, or there are too many or too few of them.
    """
    columns = {name: batch.column(name).cast(TASK_COLUMNS[name]) for name in batch.schema.names}
    ids = known_texts(columns["id"], "a task has no id", lambda place: ("body", "tasks", first + place, "id"))
    references = _references(columns.get("reference_pass_rates"), len(ids), models, first)
    return TaskBlock(ids, references, _tags(columns.get("tags"), len(ids), first))


def known_texts(column: Any, refusal: str, where: Callable[[int], tuple[str | int, ...]]) -> list[str]:
    """Return a column's texts once none of them is null."""
    if column.null_count:
        place = int(np.argmin(column.is_valid().to_numpy(zero_copy_only=False)))
        raise InvalidTasksError(refusal, (Flaw(where(place), "it is null"),))
    texts: list[str] = column.to_pylist()
    return texts


def _tags(column: Any, tasks: int, first: int) -> list[tuple[str, ...]]:
    """Return the tags of each task; a null list is none."""
    if column is None:
        return [()] * tasks
    lengths = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    # Before they become texts: one task could have millions.
    flaws = (
        Flaw(("body", "tasks", first + task, "tags"), f"{int(lengths[task])} tags; at most {MAX_TAGS} are possible")
        for task in np.flatnonzero(lengths > MAX_TAGS).tolist()
    )
    _refuse("a task has too many tags", flaws)
    ends = np.cumsum(lengths)

    def where(place: int) -> tuple[str | int, ...]:
        return ("body", "tasks", first + int(np.searchsorted(ends, place, side="right")), "tags")

    tags = iter(known_texts(pc.list_flatten(column), "a tag is null", where))
    return [tidy(tuple(islice(tags, length))) for length in lengths.tolist()]


def _references(column: Any, tasks: int, models: int, first: int) -> Floats:
    """Return [tasks, models] pass rates; a null list or a null in it is unknown, as NaN."""
    rows = np.full((tasks, models), np.nan)
    if column is None:
        return rows
    lengths = pc.list_value_length(column).fill_null(models).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(lengths != models).tolist()
    flaws = (wrong_length(first + task, int(lengths[task]), models) for task in wrong)
    _refuse("the number of reference pass rates is wrong", flaws)
    known, values = np.flatnonzero(column.is_valid()), pc.list_flatten(column)
    not_numbers = np.flatnonzero(pc.is_nan(values).fill_null(False)).tolist()
    places = ((int(known[place // models]), place % models) for place in not_numbers)
    flaws = (
        Flaw(("body", "tasks", first + task, "reference_pass_rates", model), "NaN; unknown is null")
        for task, model in places
    )
    _refuse("a reference pass rate is not a number", flaws)
    rows[known] = values.to_numpy(zero_copy_only=False).reshape(len(known), models)
    return rows


def _refuse(message: str, flaws: Iterable[Flaw]) -> None:
    if shown := tuple(islice(flaws, SHOWN_FLAWS)):
        raise InvalidTasksError(message, shown)


def _unreadable(error: Exception) -> MalformedBodyError:
    return MalformedBodyError(f"the Parquet file can't be read: {str(error)[:200]}")
