"""Keeps time and memory bounded while Parquet is read: a few kilobytes of it can stand for terabytes of repeats."""

import os
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bots_service.errors import Flaw, InvalidTasksError, LimitReachedError

MIB = 2**20
FOOTER_BYTES = 16 * MIB  # of metadata, which is read at once; 10,000 row groups of three columns take some 5 MiB
GROUP_VALUES = 2**25  # of a column in a row group: one task could hold them all, and 12 bytes each are read at once
GROUP_BYTES = 256 * MIB  # of a column in a row group once it is unpacked: all of it stands in memory at once
VALUES_PER_TASK = 256  # four times the reference models, eight times the tags that a task can have
BYTES_PER_TEXT = 2048  # an id has at most 256 characters of at most 4 bytes
SLACK_BYTES = MIB  # a row group of few tasks still has page headers and a dictionary

_TAIL = 8  # bytes: the footer's length, "PAR1"


def require_short_footer(spool: BinaryIO) -> None:
    """Check how much metadata a Parquet file says it has, before it is read.

    Raises:
        InvalidTasksError: too much.
    """
    size = spool.seek(0, os.SEEK_END)
    spool.seek(max(size - _TAIL, 0))
    length = int.from_bytes(spool.read(4), "little")
    spool.seek(0)
    if FOOTER_BYTES < length < size:  # one that is longer than its file is broken, and pyarrow says so
        flaw = Flaw(("body", "metadata"), f"it has {length} bytes; at most {FOOTER_BYTES} are read")
        raise InvalidTasksError("the file has too many columns or row groups; write larger row groups", (flaw,))


def require_bounded(spool: BinaryIO, metadata: Any, *, max_tasks: int) -> None:
    """Check that there are not too many tasks, and that no column holds more than its tasks can explain.

    Args:
        spool: a Parquet file.
        metadata: its metadata.
        max_tasks: of a dataset.

    Raises:
        LimitReachedError: there are more tasks.
        InvalidTasksError: a column holds more.
    """
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
                require_short(path, column)
                values = rows.column(texts[path]).num_values
                if pa.types.is_nested(column.type) and values * _longest_text(column) > GROUP_BYTES:
                    raise _too_large(path, group)  # one task could hold them all
            break


def require_short(name: str, column: Any) -> None:
    """Check the texts of a column, or of its lists.

    Raises:
        InvalidTasksError: one is longer than any id or tag may be.
    """
    if _longest_text(column) > BYTES_PER_TEXT:
        raise _too_much(name)


def _longest_text(column: Any) -> int:
    """Return how many bytes the longest text of a column, or of its lists, has."""
    texts = column.values if pa.types.is_nested(column.type) else column
    if pa.types.is_dictionary(texts.type):
        texts = texts.dictionary
    return 0 if pa.types.is_null(texts.type) else pc.max(pc.binary_length(texts)).as_py() or 0


def _too_much(column: str) -> InvalidTasksError:
    flaw = Flaw(
        ("body", "columns", column.partition(".")[0][:80]), "it holds more than a column of this many tasks can"
    )
    return InvalidTasksError("the file holds more than its tasks can explain", (flaw,))


def _too_large(column: str, group: int) -> InvalidTasksError:
    flaw = Flaw(("body", "columns", column.partition(".")[0][:80]), f"it is too large in row group {group}")
    return InvalidTasksError("a row group is too large; write several smaller ones", (flaw,))
