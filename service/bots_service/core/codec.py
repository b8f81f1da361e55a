"""States, and tables of the database, as bytes: versioned, checksummed, the same on every machine; never pickle.

They are a CRC-32 and MessagePack: a state field by field, each array with its type, its shape and its numbers.
"""

import struct
import zlib
from dataclasses import fields
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import frozen
from bots_service.core.belief import KINDS
from bots_service.core.run_settings import settings_from
from bots_service.core.state import RunState
from bots_service.errors import DamagedStateError, InvalidSettingsError

FORMAT = 1
Value = TypeVar("Value")

_CRC = struct.Struct("<I")


def encode_state(state: RunState) -> bytes:
    """Return the state's bytes; equal states give equal bytes."""
    return pack({field.name: getattr(state, field.name) for field in fields(state)})


def decode_state(blob: bytes) -> RunState:
    """Return the state that was encoded; DamagedStateError if the bytes are no whole one in a known format."""
    values = unpack(blob, dict[str, Any])
    try:
        settings = settings_from(values.pop("settings"))
        types = get_type_hints(RunState) | {"belief": KINDS[settings.belief]}
        parts = {name: msgspec.convert(value, types[name], dec_hook=_array_of) for name, value in values.items()}
        return RunState(settings=settings, **parts)
    except (LookupError, TypeError, ValueError, msgspec.MsgspecError, InvalidSettingsError) as error:
        raise DamagedStateError(f"the state does not hold together: {error}") from error


def pack(value: Any) -> bytes:
    """Return a value, which may hold arrays, as one checksummed block; equal ones give equal bytes."""
    body = _encoder.encode((FORMAT, value))
    return _CRC.pack(zlib.crc32(body)) + body


def unpack(blob: bytes, kind: type[Value]) -> Value:
    """Return the value of this type that was packed; arrays are read-only.

    DamagedStateError: the bytes don't match their checksum, or hold something else.
    """
    body = blob[_CRC.size :]
    if blob[: _CRC.size] != _CRC.pack(zlib.crc32(body)):
        raise DamagedStateError("the checksum does not match: the bytes were altered or truncated")
    try:
        version, value = msgspec.msgpack.decode(body)
        if version != FORMAT:
            raise DamagedStateError(f"format {version}, where {FORMAT} is read")
        return msgspec.convert(value, kind, dec_hook=_array_of)
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise DamagedStateError(f"these bytes hold something else: {error}") from error


def _listed(array: NDArray[Any]) -> tuple[str, tuple[int, ...], bytes]:
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return array.dtype.str, array.shape, array.tobytes()


def _array_of(kind: Any, listed: Any) -> NDArray[Any]:
    stored, shape, content = listed
    number = np.dtype(get_args(get_args(kind)[1])[0])
    if number.newbyteorder("<").str != stored:
        raise ValueError(f"an array of type {stored}, not {number}")
    return frozen(np.frombuffer(content, stored).reshape(shape))


_encoder = msgspec.msgpack.Encoder(enc_hook=_listed)
