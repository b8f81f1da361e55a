"""States as bytes: versioned, little-endian, checksummed; never pickle.

    magic "BOTS" | format version u16 | header length u32 | header JSON | arrays, one after the other | CRC-32 u32

The header holds the scalars, and name, type and shape of each array. JSON writes floats so that they read back exactly.
Spaces end the header, so that the arrays begin at a multiple of 8 bytes and can be used where they lie; those with the
larger numbers come first.
"""

import json
import math
import struct
import zlib
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import frozen
from bots_service.core.belief.bots import BetaSum
from bots_service.core.belief.capability import Capability
from bots_service.core.belief.tried import Past, Rows, Tried
from bots_service.core.evidence import Evidence
from bots_service.core.run_settings import RunSettings, settings_from
from bots_service.core.state import OpenStep, RunState, Totals
from bots_service.errors import DamagedStateError, InvalidSettingsError

FORMAT = 1
_MAGIC = b"BOTS"
_HEAD = struct.Struct("<4sHI")
_CRC = struct.Struct("<I")
_TYPES = ("<f8", "<i4", "<u8", "|b1")
_ALIGNED = 8  # bytes of the largest number

Arrays = dict[str, NDArray[Any]]


def encode_state(state: RunState) -> bytes:
    """Return the state's bytes; equal states give equal bytes."""
    belief, waiting = state.belief, state.open_step
    header = {
        "epoch": state.epoch,
        "seq": state.seq,
        "step": state.step,
        "settings": state.settings.as_dict(),
        "totals": {name: getattr(state.totals, name) for name in Totals.__slots__},
        "prior": belief.prior,
        "capability": belief.capability,
        "scale": belief.tried.scale,
        "open_late": waiting.late,
        "open_expired": waiting.expired,
    }
    settled, recent, past, evidence = belief.tried.settled, belief.tried.recent, belief.past, waiting.evidence
    arrays: Arrays = {
        "implied": belief.implied,
        "settled_counts": settled.counts,
        "settled_steps": settled.steps,
        "recent_counts": recent.counts,
        "recent_steps": recent.steps,
        "capability_sums": belief.estimate.sums,
        "past_capability": past.capability,
        "past_booked": past.booked,
        "past_kept": past.kept,
        "open_successes": evidence.successes,
        "open_failures": evidence.failures,
        "settled_tasks": settled.tasks,
        "settled_last_step": settled.last_step,
        "recent_tasks": recent.tasks,
        "recent_last_step": recent.last_step,
        "open_tasks": evidence.tasks,
        "open_made_at": waiting.made_at,
        "open_effective": evidence.effective,
    }
    return pack(header, arrays)


def decode_state(blob: bytes) -> RunState:
    """Return the state that was encoded.

    Raises:
        DamagedStateError: the bytes are not a whole state of a format that this version reads.
    """
    header, arrays = unpack(blob)
    try:
        _require_shapes(arrays)
        return RunState(
            epoch=_count(header["epoch"]),
            seq=_count(header["seq"]),
            step=_count(header["step"]),
            settings=_settings_of(json.dumps(header["settings"])),
            belief=_belief(header, arrays),
            open_step=OpenStep(
                Evidence(*(arrays[f"open_{name}"] for name in ("tasks", "successes", "failures", "effective"))),
                arrays["open_made_at"],
                _count(header["open_late"]),
                _count(header["open_expired"]),
            ),
            totals=_totals(header["totals"]),
        )
    except (AttributeError, LookupError, TypeError, ValueError, InvalidSettingsError) as error:
        raise DamagedStateError(f"the state does not hold together: {error}") from error


@lru_cache(maxsize=1024)
def _settings_of(text: str) -> RunSettings:
    """Return settings; checking them takes a quarter of the time of decoding a state, and few are different."""
    return settings_from(json.loads(text))


def _belief(header: dict[str, Any], arrays: Arrays) -> BetaSum:
    capability = header["capability"]
    return BetaSum(
        prior=_settings_of(json.dumps({"prior": header["prior"]})).prior,
        implied=arrays["implied"],
        tried=Tried(_rows("settled", arrays), _rows("recent", arrays), _positive(header["scale"])),
        estimate=Capability(None if capability is None else _number(capability), arrays["capability_sums"]),
        past=Past(*(arrays[f"past_{name}"] for name in ("capability", "booked", "kept"))),
    )


def _rows(table: str, arrays: Arrays) -> Rows:
    return Rows(*(arrays[f"{table}_{name}"] for name in ("tasks", "counts", "steps", "last_step")))


def _totals(values: dict[str, Any]) -> Totals:
    rollouts, successes = _number(values.pop("rollouts")), _number(values.pop("successes"))
    counts = {name: _count(value) for name, value in values.items()}
    return Totals(**counts, rollouts=rollouts, successes=successes)  # type: ignore[arg-type, unused-ignore]


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value


def _number(value: Any) -> float:
    if type(value) is not float or not math.isfinite(value):
        raise ValueError(f"{value!r} is not a finite number")
    return value


def _positive(value: Any) -> float:
    if _number(value) <= 0.0:
        raise ValueError(f"{value!r} is not above 0")
    return float(value)


def _require_shapes(arrays: Arrays) -> None:
    """Raise ValueError unless these are a state's arrays: of the right types, and of one length where they belong."""
    found = {name: (array.dtype.str, *array.shape) for name, array in arrays.items()}
    profiles = arrays["implied"].shape[-1]
    settled, recent = len(arrays["settled_tasks"]), len(arrays["recent_tasks"])
    past, waiting = len(arrays["past_kept"]), len(arrays["open_tasks"])
    pairs = arrays["capability_sums"].shape[-1]
    wanted: dict[str, tuple[Any, ...]] = {
        "implied": ("<f8", 2, profiles),
        "settled_counts": ("<f8", 2, settled),
        "settled_steps": ("<u8", settled),
        "recent_counts": ("<f8", 2, recent),
        "recent_steps": ("<u8", recent),
        "capability_sums": ("<f8", 2, pairs),
        **{f"past_{name}": ("<f8", past) for name in ("capability", "booked", "kept")},
        **{f"open_{name}": ("<f8", waiting) for name in ("successes", "failures")},
        **{f"settled_{name}": ("<i4", settled) for name in ("tasks", "last_step")},
        **{f"recent_{name}": ("<i4", recent) for name in ("tasks", "last_step")},
        **{f"open_{name}": ("<i4", waiting) for name in ("tasks", "made_at")},
        "open_effective": ("|b1", waiting),
    }
    if found != wanted:
        raise ValueError(f"arrays {found}")


def pack(header: dict[str, Any], arrays: Arrays) -> bytes:
    """Return header and arrays as one checksummed block."""
    shapes = {name: [array.dtype.newbyteorder("<").str, *array.shape] for name, array in arrays.items()}
    head = json.dumps({**header, "arrays": shapes}, separators=(",", ":"), allow_nan=False).encode()
    head += b" " * (-(_HEAD.size + len(head)) % _ALIGNED)
    parts = [_HEAD.pack(_MAGIC, FORMAT, len(head)), head]
    parts += [array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes() for array in arrays.values()]
    body = b"".join(parts)
    return body + _CRC.pack(zlib.crc32(body))


def unpack(blob: bytes) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a block; the arrays are read-only views of it.

    Raises:
        DamagedStateError: the bytes don't match their checksum, or the format is unknown.
    """
    if len(blob) < _HEAD.size + _CRC.size:
        raise DamagedStateError(f"{len(blob)} bytes are too few for a state")
    magic, version, length = _HEAD.unpack_from(blob)
    if magic != _MAGIC or version != FORMAT:
        raise DamagedStateError(f"format {magic!r} {version}, where {_MAGIC!r} {FORMAT} is read")
    (crc,) = _CRC.unpack_from(blob, len(blob) - _CRC.size)
    if zlib.crc32(memoryview(blob)[: -_CRC.size]) != crc:
        raise DamagedStateError("the checksum does not match: the bytes were changed or cut")
    head_end = _HEAD.size + length
    try:
        header = json.loads(blob[_HEAD.size : head_end])
        arrays, end = {}, head_end
        for name, (kind, *shape) in header.pop("arrays").items():
            if kind not in _TYPES or any(size < 0 for size in shape):
                raise ValueError(f"array {name} of type {kind!r} and shape {shape}")
            array = np.frombuffer(blob, kind, count=math.prod(shape), offset=end).reshape(shape)
            arrays[name], end = frozen(array), end + array.nbytes
    except (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise DamagedStateError(f"the header can't be read: {error}") from error
    if end != len(blob) - _CRC.size:
        raise DamagedStateError(f"{len(blob) - _CRC.size - end} bytes are left over")
    return header, arrays
