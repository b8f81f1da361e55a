"""Arrays as bytes: narrowed where nothing is lost, used where they lie otherwise."""

import json
import math
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bots_service.core.codec import FORMAT, pack, unpack
from bots_service.errors import DamagedStateError
from tests.core.blocks import FEW, Columns, packed, stored_types

# Numbers at the edges of the types, and such that no narrower type holds.
NUMBERS: dict[str, list[Any]] = {
    "<f8": [0.0, 1.0, 255.0, 256.0, 65535.0, 65536.0, -0.0, -1.0, 0.5, 255.5, 5e-324, 1e300, math.nan, math.inf],
    "<i4": [0, 1, 255, 256, 65535, 65536, -1, 2**31 - 1, -(2**31)],
    "<u8": [0, 1, 255, 256, 65535, 65536, 2**32 - 1, 2**53 + 1, 2**63, 2**64 - 1],
    "|b1": [False, True],
}
SIZES = [0, 1, FEW - 1, FEW, FEW + 1]


@st.composite
def columns(draw: st.DrawFn) -> Columns:
    """Arrays of one number each, but for some others at any place."""
    drawn: Columns = {}
    for name in draw(st.lists(st.sampled_from("abcdef"), unique=True, max_size=4)):
        kind = draw(st.sampled_from(list(NUMBERS)))
        numbers = st.sampled_from(NUMBERS[kind])
        array = np.full(draw(st.sampled_from(SIZES)), draw(numbers), kind)
        for place in draw(st.lists(st.integers(0, max(len(array) - 1, 0)), max_size=3)) if len(array) else []:
            array[place] = draw(numbers)
        drawn[name] = (kind, array.reshape(2, -1) if len(array) % 2 == 0 and draw(st.booleans()) else array)
    return drawn


def arrays_of(drawn: Columns) -> dict[str, np.ndarray]:
    return {name: array for name, (_, array) in drawn.items()}


def filled(kind: str, number: float, other: float | None = None) -> Columns:
    """An array that is long enough to be narrowed, with another number in its middle."""
    array = np.full(FEW, number, kind)
    array[FEW // 2] = number if other is None else other
    return {"a": (kind, array)}


@given(columns())
@example(filled("<f8", 255.0))
@example(filled("<f8", 65535.0))
@example(filled("<f8", 16.0, -0.0))
@example(filled("<f8", 16.0, 0.5))
@example(filled("<f8", 16.0, math.nan))
@example(filled("<f8", 16.0, -1.0))
@example(filled("<i4", 16, -1))
@example(filled("<i4", 255, 256))
@example(filled("<u8", 1, 2**63))
@example(filled("|b1", True))
def test_a_block_is_written_as_the_reference_writes_it(drawn):
    assert pack({"n": 7}, arrays_of(drawn)) == packed('{"n":7', drawn)


@given(columns())
@example(filled("<f8", 16.0, -0.0))
def test_arrays_come_back_bit_for_bit_in_the_type_that_they_had(drawn):
    _, again = unpack(pack({}, arrays_of(drawn)))
    found = {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in again.items()}
    assert found == {name: (kind, array.shape, array.tobytes()) for name, (kind, array) in drawn.items()}


@pytest.mark.parametrize("bits", [0x7FF8_0000_0000_0001, 0x7FF0_0000_0000_0001, 0xFFF8_0000_0000_0000])
def test_a_nan_among_counts_keeps_its_bits(bits):
    array = np.full(FEW, 16.0)
    array.view("<u8")[FEW // 2] = bits
    assert unpack(pack({}, {"a": array}))[1]["a"].tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("kind", "most", "stored"),
    [("<f8", 255, "|u1"), ("<f8", 256, "<u2"), ("<i4", 255, "|u1"), ("<i4", 65535, "<u2"), ("<u8", 65535, "<u2")],
)
def test_whole_numbers_take_as_few_bytes_as_the_largest_needs(kind, most, stored):
    plain, narrow = (pack({}, arrays_of(filled(kind, 0, number))) for number in (65536, most))
    assert stored_types(plain) == {"a": kind}
    assert stored_types(narrow) == {"a": stored}
    saved = FEW * (np.dtype(kind).itemsize - np.dtype(stored).itemsize)
    assert abs(len(plain) - len(narrow) - saved) < 8  # the spaces that end the header


@given(columns(), st.booleans())
def test_equal_arrays_give_equal_bytes_however_they_lie_in_memory(drawn, is_swapped):
    def otherwise(array: np.ndarray) -> np.ndarray:
        spread = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype, order="F")
        spread[..., ::2] = array
        return spread[..., ::2].astype(array.dtype.newbyteorder(">" if is_swapped else "<"), order="K", copy=False)

    arrays = arrays_of(drawn)
    assert pack({}, {name: otherwise(array) for name, array in arrays.items()}) == pack({}, arrays)


@given(columns(), st.integers(0, 7))
def test_arrays_that_are_not_narrowed_are_aligned_views_of_the_block(drawn, digits):
    blob = pack({"n": 10**digits}, arrays_of(drawn))
    whole, stored = np.frombuffer(blob, np.uint8), stored_types(blob)
    _, arrays = unpack(blob)
    assert all(array.flags.aligned and not array.flags.writeable for array in arrays.values())
    for name, array in arrays.items():
        is_view = array.size > 0 and stored[name] == array.dtype.str
        assert np.shares_memory(array, whole) == is_view


def block(entry: object, body: bytes) -> bytes:
    """A block with one array, whose checksum is right."""
    text = json.dumps({"arrays": {"a": entry}}).encode()
    whole = struct.pack("<4sHI", b"BOTS", FORMAT, len(text)) + text + body
    return whole + struct.pack("<I", zlib.crc32(whole))


@pytest.mark.parametrize("kind", ["<f8", "<i4", "<u8"])
@pytest.mark.parametrize(("stored", "body"), [("|u1", b"\7\xff"), ("<u2", b"\7\0\xff\0")])
def test_a_narrowed_array_is_read_whatever_its_length(kind, stored, body):
    array = unpack(block([kind, stored, 2], body))[1]["a"]
    assert (array.dtype.str, array.tolist()) == (kind, [7, 255])


@pytest.mark.parametrize(
    "entry",
    [
        ["<f8", 1],
        ["<f8", "<f8", 2],
        ["<f8", "<i4", 2],
        ["<f8", "<u8", 1],
        ["<i4", "<f8", 1],
        ["<f8", "|i1", 8],
        ["<f8", ">u2", 4],
        ["<f8", "|b1", 8],
        ["|b1", "|u1", 8],
        ["|u1", "|u1", 8],
        ["<u2", "<u2", 4],
        ["<f8", "|u1", 9],
        ["<f8", "|u1", 7],
        ["<f8", "|u1", -8],
        ["<f8", "|u1", "8"],
        ["<f8", "|u1", 8.0],
        ["<f8", "|u1", [8]],
        ["<f8", ["|u1"], 8],
        ["<f8", None, 8],
        [["<f8"], "|u1", 8],
        [None, "|u1", 8],
        {"<f8": "|u1"},
    ],
    ids=json.dumps,
)
def test_an_entry_that_does_not_fit_its_bytes_is_refused(entry):
    with pytest.raises(DamagedStateError):
        unpack(block(entry, bytes(8)))
