"""States as bytes: versioned, little-endian, checksummed; never pickle.

    magic "BOTS" | format version u16 | header length u32 | header JSON | arrays, one after the other | CRC-32 u32

The header holds a state field by field, with names in place of arrays; and under "arrays", of each name, the type in
which the array is given back, the type in which it is stored, and its shape. The second type is narrower where all
numbers are whole and few bytes hold them, as most counts and steps are. All other arrays can be used where they lie:
spaces end the header, and zeros each array, so that the next one begins at a multiple of 8 bytes.
"""

import math
import struct
import zlib
from dataclasses import fields
from functools import cache
from typing import Any, get_args, get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Table, frozen
from bots_service.core.belief import KINDS
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings, settings_from
from bots_service.core.state import RunState, fresh_state, parts_of
from bots_service.errors import DamagedStateError, InvalidSettingsError

FORMAT = 1
Arrays = dict[str, NDArray[Any]]

_MAGIC = b"BOTS"
_HEAD = struct.Struct("<4sHI")
_CRC = struct.Struct("<I")
_NARROW = {"|u1": 255, "<u2": 65_535}  # narrower types, and the largest number that each holds
_TYPES = ("<f8", "<i4", "<i8", "<u8", "|b1", *_NARROW)
_FEW = 1024  # numbers: narrowing fewer takes longer than the checksums of the bytes that it saves
_ALIGNED = 8  # bytes of the largest number
_UNREADABLE = (LookupError, TypeError, ValueError, msgspec.MsgspecError, InvalidSettingsError)


def encode_state(state: RunState) -> bytes:
    """Return the state's bytes; equal states give equal bytes."""
    arrays: Arrays = {}

    def named(array: NDArray[Any]) -> str:
        name = str(len(arrays))
        arrays[name] = array
        return name

    values = {field.name: getattr(state, field.name) for field in fields(state)}
    return pack({name: msgspec.to_builtins(value, enc_hook=named) for name, value in values.items()}, arrays)


def decode_state(blob: bytes) -> RunState:
    """Return the state that was encoded; DamagedStateError if the bytes are no whole one in a known format."""
    header, arrays = unpack(blob)

    def array_of(kind: Any, name: Any) -> NDArray[Any]:
        array = arrays[name]
        if array.dtype != get_args(get_args(kind)[1])[0]:
            raise ValueError(f"array {name} of type {array.dtype}")
        return array

    try:
        settings = settings_from(dict(header.pop("settings")))
        types = get_type_hints(RunState) | {"belief": KINDS[settings.belief]}
        types.pop("settings")
        values = {name: msgspec.convert(header[name], kind, dec_hook=array_of) for name, kind in types.items()}
        state = RunState(settings=settings, **values)
        _require_shapes(state)
    except _UNREADABLE as error:
        raise DamagedStateError(f"the state does not hold together: {error}") from error
    return state


def _require_shapes(state: RunState) -> None:
    """Raise ValueError unless arrays have the dimensions of a fresh state's, and columns of a table one length."""
    parts = parts_of(state)
    if [part.ndim for part in parts if isinstance(part, np.ndarray)] != _dimensions(state.settings.belief):
        raise ValueError("an array has too few or too many dimensions")
    for table in parts:
        if isinstance(table, Table) and {column.shape[-1] for column in table} != {len(table)}:
            raise ValueError(f"the columns of {type(table).__name__} differ in length")


@cache
def _dimensions(belief: str) -> list[int]:
    state = fresh_state(RunSettings(belief=belief), Pool.of_tasks(np.empty((0, 0))))
    return [part.ndim for part in parts_of(state) if isinstance(part, np.ndarray)]


def pack(header: dict[str, Any], arrays: Arrays) -> bytes:
    """Return header and arrays as one checksummed block; equal ones give equal bytes."""
    arrays = {name: np.asarray(array, array.dtype.newbyteorder("<"), order="C") for name, array in arrays.items()}
    stored = {name: _narrowed(array) for name, array in arrays.items()}
    entries = {name: [arrays[name].dtype.str, one.dtype.str, *one.shape] for name, one in stored.items()}
    head = msgspec.json.encode({**header, "arrays": entries})
    head += b" " * (-(_HEAD.size + len(head)) % _ALIGNED)
    blocks = [block for one in stored.values() for block in (one.data, bytes(-one.nbytes % _ALIGNED))]
    body = b"".join([_HEAD.pack(_MAGIC, FORMAT, len(head)), head, *blocks])
    return body + _CRC.pack(zlib.crc32(body))  # a checksum of each part takes longer than this copy


def _narrowed(array: NDArray[Any]) -> NDArray[Any]:
    """Return the same numbers in the narrowest type that holds each of them bit for bit."""
    with np.errstate(invalid="ignore"):  # of infinity; NaN is in no range
        if array.size < _FEW or array.dtype.kind == "b" or (array.reshape(-1)[:_FEW] % 1).any():
            return array
        least, most = array.min(), array.max()
        for kind, largest in _NARROW.items():
            if least >= 0 and most <= largest:
                narrow = array.astype(kind)
                return narrow if narrow.astype(array.dtype).tobytes() == array.tobytes() else array
    return array


def unpack(blob: bytes) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a block, read-only, and views of it unless it narrows them.

    DamagedStateError: the bytes don't match their checksum, or the format is unknown.
    """
    if len(blob) < _HEAD.size + _CRC.size:
        raise DamagedStateError(f"{len(blob)} bytes are too few for a state")
    magic, version, length = _HEAD.unpack_from(blob)
    if magic != _MAGIC or version != FORMAT:
        raise DamagedStateError(f"format {magic!r} {version}, where {_MAGIC!r} {FORMAT} is read")
    (crc,) = _CRC.unpack_from(blob, len(blob) - _CRC.size)
    if zlib.crc32(memoryview(blob)[: -_CRC.size]) != crc:
        raise DamagedStateError("the checksum does not match: the bytes were altered or truncated")
    end = _HEAD.size + length
    arrays: Arrays = {}
    try:
        header = msgspec.json.decode(blob[_HEAD.size : end])
        for name, (kind, stored, *shape) in header.pop("arrays").items():
            if kind not in _TYPES or stored not in _TYPES or min(shape) < 0:
                raise ValueError(f"array {name} of type {kind!r}, stored as {stored!r}, and shape {shape}")
            array = np.frombuffer(blob, stored, count=math.prod(shape), offset=end).reshape(shape)
            arrays[name] = frozen(array if stored == kind else array.astype(kind))
            end += array.nbytes + -array.nbytes % _ALIGNED
    except (*_UNREADABLE, AttributeError, OverflowError, RecursionError) as error:
        raise DamagedStateError(f"the header can't be read: {error}") from error
    if end != len(blob) - _CRC.size:
        raise DamagedStateError(f"{len(blob) - _CRC.size - end} bytes are left over")
    return header, arrays
