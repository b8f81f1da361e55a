"""Blocks of tasks and journal entries as they stand in SQL."""

import zlib
from dataclasses import MISSING, fields
from functools import cache
from itertools import pairwise
from typing import Any, get_args

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Raw
from numpy.typing import NDArray

from bots_service.core.arrays import Table, frozen
from bots_service.core.entries import Body, Forget, Fork, Report, Rewind, SettingsChange
from bots_service.core.run_settings import settings_from
from bots_service.errors import DamagedStateError, InvalidSettingsError
from bots_service.records import EntryKind, TaskBlock


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


def decode_block(body: bytes, expected_checksum: int) -> TaskBlock:
    """Return the block that was encoded.

    Raises:
        DamagedStateError: the bytes don't match their checksum.
    """
    if zlib.crc32(body) != expected_checksum:
        raise DamagedStateError("a block of tasks does not match its checksum: the bytes were altered or truncated")
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


KINDS: dict[type[Body], EntryKind] = {
    Report: "report",
    SettingsChange: "settings",
    Forget: "forget",
    Rewind: "rewind",
    Fork: "fork",
}
# What may stand in an array of each kind: the numbers of JSON, not what numpy would make numbers of.
_NUMBERS: dict[str, set[type]] = {"i": {int}, "f": {int, float}, "b": {bool}}


def _list_of(array: NDArray[Any]) -> list[Any]:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError("a number is not finite")  # JSON would turn it into null
    listed: list[Any] = array.tolist()
    return listed


@cache
def _number_of(kind: Any) -> np.dtype[Any]:
    """Return the type of an array's numbers, given the array's."""
    (number,) = get_args(get_args(kind)[1])
    return np.dtype(number)  # type: ignore[no-any-return]  # no type says what it is


def _array_of(kind: Any, values: list[Any]) -> NDArray[Any]:
    number = _number_of(kind)
    if not _NUMBERS[number.kind].issuperset(map(type, values)):
        raise ValueError(f"not all of these are of type {number}")
    return frozen(np.array(values, number))


_encoder = msgspec.json.Encoder(enc_hook=_list_of)
_SIZED = (np.ndarray, Table)  # empty by default
_decoders = {name: msgspec.json.Decoder(kind, dec_hook=_array_of) for kind, name in KINDS.items()}
_defaults = {
    kind: [(field.name, field.default if field.default_factory is MISSING else ()) for field in fields(kind)]
    for kind in KINDS
}


def encode_body(body: Body) -> str:
    """Return the body as JSON, field by field, without those that are at their default.

    Raises:
        ValueError: a count is not finite.
    """
    values = {}
    for name, default in _defaults[type(body)]:
        value = getattr(body, name)
        if default is MISSING or (len(value) if isinstance(value, _SIZED) else value != default):
            values[name] = value
    return _encoder.encode(values).decode()


def decode_body(kind: EntryKind, text: str | Raw) -> Body:
    """Return the body that was encoded.

    Raises:
        DamagedStateError: the text is no body of this kind that this version reads.
    """
    try:
        body: Body = _decoders[kind].decode(text)
        if isinstance(body, SettingsChange):
            settings_from(body.values)  # refuses what no version wrote
            values = body.values.items()
            return SettingsChange({name: tuple(value) if isinstance(value, list) else value for name, value in values})
        if isinstance(body, Report) and any(len({*map(len, table)}) > 1 for table in (body.evidence, body.parts)):
            raise DamagedStateError("a journal entry can't be read: its columns differ in length")
    except (msgspec.MsgspecError, InvalidSettingsError, OverflowError, UnicodeError) as error:
        raise DamagedStateError(f"a journal entry can't be read: {error}") from error
    return body
