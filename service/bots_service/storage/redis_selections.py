"""Remembered selections as bytes."""

import hashlib
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import frozen
from bots_service.errors import DamagedStateError
from bots_service.ports.records import Selection

FORMAT = 1
MOST_BYTES = 4 * 2**20  # a selection of 65 536 tasks takes half of it


class _Remembered(msgspec.Struct, array_like=True, frozen=True):
    format: int
    fingerprint: str
    id: str
    epoch: int
    step: int
    seq: int
    degraded: bool
    reused: int
    tasks: bytes
    draws: bytes
    means: bytes
    evidence: bytes


def key_digest(key: str) -> str:
    """Return the name under which the selection of an idempotency key is remembered."""
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest()


def encode_selection(selection: Selection, fingerprint: str) -> bytes:
    """Return the bytes of a selection and its request's fingerprint."""
    numbers = (selection.draws, selection.means, selection.evidence)
    return msgspec.msgpack.encode(
        _Remembered(
            FORMAT,
            fingerprint,
            selection.id,
            selection.epoch,
            selection.step,
            selection.seq,
            selection.degraded,
            selection.reused,
            selection.tasks.astype("<i4").tobytes(),
            *(array.astype("<f8").tobytes() for array in numbers),
        )
    )


def decode_selection(blob: bytes) -> tuple[str, Selection]:
    """Return the fingerprint and the selection.

    Raises:
        DamagedStateError: the bytes are not a whole selection of a format that this version reads.
    """
    if len(blob) > MOST_BYTES:
        raise DamagedStateError(f"{len(blob)} bytes are too many for a selection")
    try:
        found = msgspec.msgpack.decode(blob, type=_Remembered)
        if found.format != FORMAT:
            raise DamagedStateError(f"format {found.format} of a selection, where {FORMAT} is read")
        tasks = _array(found.tasks, "<i4")
        numbers = [_array(array, "<f8") for array in (found.draws, found.means, found.evidence)]
    except (msgspec.MsgspecError, ValueError) as error:
        raise DamagedStateError(f"the selection can't be read: {error}") from error
    if any(len(array) != len(tasks) for array in numbers):
        raise DamagedStateError("the selection's arrays have different lengths")
    place = (found.id, found.epoch, found.step, found.seq, found.degraded, found.reused)
    return found.fingerprint, Selection(*place, tasks, *numbers)


def _array(blob: bytes, kind: str) -> NDArray[Any]:
    return frozen(np.frombuffer(blob, kind))
