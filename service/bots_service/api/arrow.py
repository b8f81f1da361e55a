"""A whole pool as an Arrow stream, one record batch at a time."""

import asyncio
import io
from collections.abc import AsyncIterator
from typing import Any

import pyarrow as pa

from bots_service.core.task_table import TaskTable
from bots_service.ports.records import OpenDataset

MEDIA_TYPE = "application/vnd.apache.arrow.stream"
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("alpha", pa.float64()),
        ("beta", pa.float64()),
        ("mean", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("evidence", pa.float64()),
        ("last_step", pa.int32()),
    ]
)


async def arrow_stream(dataset: OpenDataset, pieces: AsyncIterator[TaskTable]) -> AsyncIterator[bytes]:
    """Yield the bytes of an Arrow stream; one piece at a time is in memory."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        async for table in pieces:
            await asyncio.to_thread(lambda piece: writer.write_batch(record_batch(dataset, piece)), table)
            yield _taken(sink)
    yield _taken(sink)


def _taken(sink: io.BytesIO) -> bytes:
    """Return what was written, and empty the sink."""
    written = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return written


def record_batch(dataset: OpenDataset, table: TaskTable) -> Any:
    """Return the table as a record batch; `last_step` is null where nothing came lately."""
    ids = pa.array(dataset.ids.take(table.tasks), pa.string())
    numbers = [table.alpha, table.beta, table.mean, table.low, table.high, table.evidence]
    last_step = pa.array(table.last_step, pa.int32(), mask=table.last_step == 0)
    return pa.record_batch([ids, *map(pa.array, numbers), last_step], schema=SCHEMA)
