"""Blocks of tasks as bytes: an Arrow stream, compressed, that any Arrow reader opens."""

import zlib
from itertools import pairwise

import numpy as np
import pyarrow as pa

from bots_service.errors import DamagedStateError
from bots_service.ports.records import TaskBlock


def encode_block(block: TaskBlock) -> bytes:
    """Return columns `id`, `reference_0`, `reference_1`, ... and `tags` as an Arrow stream."""
    columns = {"id": pa.array(block.ids, pa.string())}
    for model in range(block.references.shape[1]):
        columns[f"reference_{model}"] = pa.array(np.ascontiguousarray(block.references[:, model], np.float64))
    columns["tags"] = pa.array(block.tags, pa.list_(pa.string()))
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    body: bytes = sink.getvalue().to_pybytes()
    return body


def checksum(body: bytes) -> int:
    """Return the CRC-32 that is kept beside a block."""
    return zlib.crc32(body)


def decode_block(body: bytes, expected_checksum: int) -> TaskBlock:
    """Return the block that was encoded.

    Raises:
        DamagedStateError: the bytes don't match their checksum.
    """
    if checksum(body) != expected_checksum:
        raise DamagedStateError("a block of tasks does not match its checksum: the bytes were changed or cut")
    with pa.ipc.open_stream(body) as reader:
        batch = reader.read_next_batch()
    models = batch.num_columns - 2
    references = np.empty((batch.num_rows, models))
    for model in range(models):
        references[:, model] = batch.column(f"reference_{model}").to_numpy(zero_copy_only=False)
    return TaskBlock(batch.column("id").to_pylist(), references, _tags(batch.column("tags")))


def _tags(column: pa.ListArray) -> list[tuple[str, ...]]:
    """Return each task's tags; tasks with the same tags share one tuple."""
    words, ends = column.values.to_pylist(), column.offsets.to_pylist()
    seen: dict[tuple[str, ...], tuple[str, ...]] = {}
    tags = []
    for start, end in pairwise(ends):
        own = tuple(words[start:end])
        tags.append(seen.setdefault(own, own))
    return tags
