"""Keeps memory bounded while Parquet is read: a few kilobytes of it can stand for terabytes of repeated values."""

from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bots_service.errors import Flaw, InvalidTasksError

VALUES_PER_TASK = 256  # four times the reference models, eight times the tags that a task can have
BYTES_PER_TEXT = 2048  # an id has at most 256 characters of at most 4 bytes
SLACK_BYTES = 2**20  # a row group of few tasks still has page headers and a dictionary


def require_bounded(spool: BinaryIO, metadata: Any) -> None:
    """Check that no column holds more than its tasks can explain.

    Args:
        spool: a Parquet file.
        metadata: its metadata.

    Raises:
        InvalidTasksError: one does.
    """
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group)
        most_bytes = rows.num_rows * BYTES_PER_TEXT + SLACK_BYTES
        for place in range(rows.num_columns):
            column = rows.column(place)
            if column.num_values > rows.num_rows * VALUES_PER_TASK or column.total_uncompressed_size > most_bytes:
                raise _too_much(column.path_in_schema)
    _require_short_texts(spool, metadata)


def _require_short_texts(spool: BinaryIO, metadata: Any) -> None:
    """Check the dictionaries of texts: each text stands there once, and the tasks repeat it."""
    columns = [metadata.schema.column(place) for place in range(metadata.num_columns)]
    texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
    file = pq.ParquetFile(spool, metadata=metadata, read_dictionary=texts)
    for group in range(metadata.num_row_groups):
        # The first row brings the row group's whole dictionary with it.
        for batch in file.iter_batches(batch_size=1, row_groups=[group], columns=texts, use_threads=False):
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                if _longest_text(column) > BYTES_PER_TEXT:
                    raise _too_much(name)
            break


def _longest_text(column: Any) -> int:
    if not pa.types.is_dictionary(column.type):
        column = column.values
    return pc.max(pc.binary_length(column.dictionary)).as_py() or 0


def _too_much(column: str) -> InvalidTasksError:
    flaw = Flaw(("body", "columns", column[:80]), "it holds more than a column of this many tasks can")
    return InvalidTasksError("the file holds more than its tasks can explain", (flaw,))
