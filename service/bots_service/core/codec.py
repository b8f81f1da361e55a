"""States as bytes: versioned, little-endian, checksummed; never pickle.

    magic "BOTS" | format version u16 | header length u32 | header JSON | arrays, one after the other | CRC-32 u32

The header holds the scalars, those of the belief under "belief", and of each array its name, the type in which it is
given back, the type in which it is stored, and its shape. JSON writes floats so that they read back exactly.

The second type is narrower where all numbers are whole and few bytes hold them, as most counts and steps are. All other
arrays can be used where they lie: spaces end the header, so that the arrays begin at a multiple of 8 bytes, and those
whose numbers are stored in more bytes come first.

The belief names and checks its own arrays; those of the attempts begin with "attempts_", those of groups in parts with
"groups_", those of aborts with "aborts_", and those of the open step with "open_".
"""

import json
import math
import struct
import zlib
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bots_service.core import aborts, attempts, groups, mix_account
from bots_service.core.arrays import frozen
from bots_service.core.belief.kinds import KINDS
from bots_service.core.checks import Arrays, as_count, as_number, require_arrays
from bots_service.core.evidence import Costs, Evidence
from bots_service.core.guard import streaks
from bots_service.core.guard.guard import VerifierGuard
from bots_service.core.open_step import OpenStep
from bots_service.core.run_settings import RunSettings, settings_from
from bots_service.core.state import RunState
from bots_service.core.totals import Totals
from bots_service.core.walks import Walks
from bots_service.errors import DamagedStateError, InvalidSettingsError

FORMAT = 1
_MAGIC = b"BOTS"
_HEAD = struct.Struct("<4sHI")
_CRC = struct.Struct("<I")
_JSON = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_LARGEST = 65_535
_NARROW = {"|u1": 255, "<u2": _LARGEST}  # narrower types, and the largest number that each holds
_BITS = {"<f8": "<u8", "<i4": "<u4", "<u8": "<u8"}  # types that are narrowed, and those that show their bits
_STORED = {kind: (kind, *_NARROW) for kind in _BITS} | {"|b1": ("|b1",)}  # how each type may be stored
_FEW = 1024  # numbers: narrowing fewer takes longer than the checksums of the bytes that it saves
_ALIGNED = 8  # bytes of the largest number
# Begin the names of the arrays that are not the belief's.
_OTHERS = ("aborts_", "attempts_", "groups_", "open_")


def encode_state(state: RunState) -> bytes:
    """Return the state's bytes; equal states give equal bytes."""
    waiting, evidence = state.open_step, state.open_step.evidence
    header, arrays = state.belief.encoded()
    head = {
        "epoch": state.epoch,
        "seq": state.seq,
        "step": state.step,
        "settings": state.settings.as_dict(),
        "totals": {name: getattr(state.totals, name) for name in Totals.__slots__},
        "belief": header,
        "walks": state.walks.encoded(),
        "mix": mix_account.encoded(state.mix),
        "guard": streaks.encoded(state.guard.streaks),
        "open_late": waiting.late,
        "open_expired": waiting.expired,
        "open_costs": waiting.costs,
    }
    open_arrays: Arrays = {
        "open_successes": evidence.successes,
        "open_failures": evidence.failures,
        "open_tasks": evidence.tasks,
        "open_made_at": waiting.made_at,
        "open_effective": evidence.effective,
    }
    tried = attempts.encoded(state.attempts)
    rare = groups.encoded(state.unfinished) | aborts.encoded(state.aborts)
    return pack(head, {**arrays, **tried, **open_arrays, **rare})


def decode_state(blob: bytes) -> RunState:
    """Return the state that was encoded.

    Raises:
        DamagedStateError: the bytes are not a whole state of a format that this version reads.
    """
    header, arrays = unpack(blob)
    try:
        settings = _settings_of(json.dumps(header["settings"]))
        believed = {name: array for name, array in arrays.items() if not name.startswith(_OTHERS)}
        others = {name: array for name, array in arrays.items() if name.startswith(_OTHERS)}
        parts = [kind.shapes(others) for kind in (aborts, attempts, groups)] + [_open_shapes(others)]
        require_arrays(others, {name: shape for part in parts for name, shape in part.items()})
        return RunState(
            epoch=as_count(header["epoch"]),
            seq=as_count(header["seq"]),
            step=as_count(header["step"]),
            settings=settings,
            belief=KINDS[settings.belief].decoded(header["belief"], believed),
            attempts=attempts.decoded(others),
            walks=Walks.decoded(header["walks"]),
            open_step=_open_step(header, others),
            totals=_totals(header["totals"]),
            mix=mix_account.decoded(header["mix"]),
            guard=VerifierGuard(streaks.decoded(header["guard"])),
            unfinished=groups.decoded(others),
            aborts=aborts.decoded(others),
        )
    except (AttributeError, LookupError, TypeError, ValueError, InvalidSettingsError) as error:
        raise DamagedStateError(f"the state does not hold together: {error}") from error


@lru_cache(maxsize=1024)
def _settings_of(text: str) -> RunSettings:
    """Return settings; checking them takes a quarter of the time of decoding a state, and few are different."""
    return settings_from(json.loads(text))


def _open_shapes(arrays: Arrays) -> dict[str, tuple[str, int]]:
    size = len(arrays["open_tasks"])
    types = {"successes": "<f8", "failures": "<f8", "tasks": "<i4", "made_at": "<i4", "effective": "|b1"}
    return {f"open_{name}": (kind, size) for name, kind in types.items()}


def _open_step(header: dict[str, Any], arrays: Arrays) -> OpenStep:
    evidence = Evidence(*(arrays[f"open_{name}"] for name in ("tasks", "successes", "failures", "effective")))
    late, expired = as_count(header["open_late"]), as_count(header["open_expired"])
    costs = Costs(*map(as_number, header["open_costs"]))
    return OpenStep(evidence, arrays["open_made_at"], late, expired, costs)


def _totals(values: dict[str, Any]) -> Totals:
    sums = {name: as_number(values.pop(name)) for name in ("rollouts", "successes", "tokens", "seconds")}
    counts = {name: as_count(value) for name, value in values.items()}
    return Totals(**counts, **sums)  # type: ignore[arg-type, unused-ignore]


def pack(header: dict[str, Any], arrays: Arrays) -> bytes:
    """Return header and arrays as one checksummed block; equal ones give equal bytes."""
    stored = sorted(((name, _stored(array)) for name, array in arrays.items()), key=lambda named: -named[1].itemsize)
    entries = {name: [_name(arrays[name].dtype), _name(one.dtype), *arrays[name].shape] for name, one in stored}
    head = _JSON.encode({**header, "arrays": entries}).encode()
    head += b" " * (-(_HEAD.size + len(head)) % _ALIGNED)
    body = b"".join([_HEAD.pack(_MAGIC, FORMAT, len(head)), head, *(one.data for _, one in stored)])
    return body + _CRC.pack(zlib.crc32(body))  # a checksum of each part takes longer than this copy


@cache
def _name(kind: np.dtype[Any]) -> str:
    return kind.newbyteorder("<").str


def _stored(array: NDArray[Any]) -> NDArray[Any]:
    """Return the same numbers, little-endian, in the narrowest type that holds each of them bit for bit."""
    name = _name(array.dtype)
    array = np.asarray(array, name, order="C")
    # Sorted numbers, and fractions, mostly show at their ends that they are too large, or not whole.
    if name not in _BITS or array.size < _FEW or not (_may_narrow(array.item(0)) and _may_narrow(array.item(-1))):
        return array
    # Bits sort as numbers do, and those of what no narrower type holds come last: -0.0, negative ones, infinity, NaN.
    most = np.maximum.reduce(array.view(_BITS[name]), axis=None)
    for kind, largest in _limits(name):
        if most <= largest:
            narrow = array.astype(kind)
            return array if array.dtype.kind == "f" and np.count_nonzero(narrow != array) else narrow
    return array


def _may_narrow(number: float) -> bool:
    return 0 <= number <= _LARGEST and number == int(number)


@cache
def _limits(name: str) -> list[tuple[np.dtype[Any], int]]:
    """Return the narrower types, and the bits that the largest number of each has in the type of this name."""
    return [(np.dtype(kind), int(np.array(most, name).view(_BITS[name]))) for kind, most in _NARROW.items()]


def unpack(blob: bytes) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a block; the arrays are read-only, and views of it unless it narrows them.

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
        raise DamagedStateError("the checksum does not match: the bytes were altered or truncated")
    head_end = _HEAD.size + length
    try:
        header = json.loads(blob[_HEAD.size : head_end])
        arrays, end = {}, head_end
        for name, (kind, stored, *shape) in header.pop("arrays").items():
            if stored not in _STORED[kind] or min(shape) < 0:
                raise ValueError(f"array {name} of type {kind!r}, stored as {stored!r}, and shape {shape}")
            array = np.frombuffer(blob, stored, count=math.prod(shape), offset=end).reshape(shape)
            arrays[name], end = frozen(array if stored == kind else array.astype(kind)), end + array.nbytes
    except (AttributeError, LookupError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise DamagedStateError(f"the header can't be read: {error}") from error
    if end != len(blob) - _CRC.size:
        raise DamagedStateError(f"{len(blob) - _CRC.size - end} bytes are left over")
    return header, arrays
