"""Headers and arrays as bytes: the slow obvious reference of `pack`."""

import json
import struct
import zlib

import numpy as np

Columns = dict[str, tuple[str, np.ndarray]]  # by name: the type that is given back, and the numbers

LETTERS = {"<f8": "d", "<i4": "i", "<u8": "Q", "|b1": "?", "|u1": "B", "<u2": "H"}
BYTES = {"<f8": 8, "<i4": 4, "<u8": 8, "|b1": 1, "|u1": 1, "<u2": 2}
NARROW = ("|u1", "<u2")
FEW = 1024  # numbers: fewer are not narrowed


def packed(scalars: str, columns: Columns) -> bytes:
    """Return the block.

    Args:
        scalars: what the header begins with, in JSON without the closing brace.
        columns: the arrays.
    """
    stored = {name: stored_type(kind, array) for name, (kind, array) in columns.items()}
    columns = dict(sorted(columns.items(), key=lambda named: -BYTES[stored[named[0]]]))
    entries = {name: [kind, stored[name], *array.shape] for name, (kind, array) in columns.items()}
    text = f'{scalars},"arrays":{json.dumps(entries, separators=(",", ":"))}}}'.encode()
    while (4 + 2 + 4 + len(text)) % 8:
        text += b" "
    body = b"BOTS" + struct.pack("<H", 1) + struct.pack("<I", len(text)) + text
    for name, (_, array) in columns.items():
        body += written(stored[name], array.ravel().tolist())
    return body + struct.pack("<I", zlib.crc32(body))


def written(kind: str, numbers: list[float]) -> bytes:
    whole = kind in NARROW
    return struct.pack(f"<{len(numbers)}{LETTERS[kind]}", *(int(number) if whole else number for number in numbers))


def stored_type(kind: str, array: np.ndarray) -> str:
    """Return the first type that gives back the same bytes, the narrowest before the others."""
    numbers = array.ravel().tolist()
    for narrow in NARROW if kind != "|b1" and len(numbers) >= FEW else ():
        try:
            narrowed = written(narrow, numbers)
        except (OverflowError, ValueError, struct.error):  # infinity, NaN, out of range
            continue
        if written(kind, list(struct.unpack(f"<{len(numbers)}{LETTERS[narrow]}", narrowed))) == written(kind, numbers):
            return narrow
    return kind


def stored_types(blob: bytes) -> dict[str, str]:
    """Return the types in which a block's header says that the arrays are stored."""
    length = struct.unpack_from("<I", blob, 6)[0]
    return {name: entry[1] for name, entry in json.loads(blob[10 : 10 + length])["arrays"].items()}
