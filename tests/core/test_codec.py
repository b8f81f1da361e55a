"""States as bytes: round trip, layout, damage."""

import json
import math
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bots_service.core.belief import KINDS
from bots_service.core.codec import FORMAT, decode_state, encode_state, pack, unpack
from bots_service.core.run_settings import settings_from
from bots_service.core.state import RunState
from bots_service.errors import DamagedStateError
from tests.core.journals import Story, pool_of, replay, report_of, stories

FEW = 1024  # numbers: fewer are not narrowed


def a_state(kind: str) -> RunState:
    """A state in which no array is empty, but for settled rows."""
    pool = pool_of((0.25, 0.75), (0.5, 0.875), (math.nan, math.nan), carried=(0b01, 0b10, 0b10))
    bodies = [
        report_of((0, 3.0, 1.0), (2, 1.0, 1.0)),
        report_of((1, 0.5, 3.5)),
        report_of((2, 1.0, 2.0), (0, 0.1, 0.2), made_at=0, close=False, effective=[True, False]),
    ]
    return replay(pool, bodies, settings_from({"belief": kind, "seed": 2**63 - 1}))


BLOB = encode_state(a_state("bots"))


@pytest.fixture(params=sorted(KINDS), scope="module")
def blob(request: pytest.FixtureRequest) -> bytes:
    return encode_state(a_state(request.param))


def sealed(body: bytes) -> bytes:
    return body + struct.pack("<I", zlib.crc32(body))


def with_header(text: bytes, arrays: bytes = b"") -> bytes:
    return sealed(struct.pack("<4sHI", b"BOTS", FORMAT, len(text)) + text + arrays)


@given(stories(max_entries=5))
def test_a_state_comes_back_bit_for_bit(story: Story):
    state, _ = story.replayed()
    blob = encode_state(state)
    again = decode_state(blob)
    assert encode_state(again) == blob
    for name in ("epoch", "seq", "step", "settings", "totals", "walks", "mix", "guard"):
        assert getattr(again, name) == getattr(state, name)
    tasks = np.arange(len(story.pool), dtype=np.int32)
    told, wanted = (each.belief.distributions(story.pool, tasks) for each in (again, state))
    np.testing.assert_array_equal([told.mean, *told.interval()], [wanted.mean, *wanted.interval()])


# --- arrays ----------------------------------------------------------------------------------------------------------

# Numbers at the edges of the types, and such that no narrower type holds.
NUMBERS: dict[str, list[Any]] = {
    "<f8": [0.0, 1.0, 255.0, 256.0, 65535.0, 65536.0, -0.0, -1.0, 0.5, 255.5, 5e-324, 1e300, math.nan, math.inf],
    "<i4": [0, 1, 255, 256, 65535, 65536, -1, 2**31 - 1, -(2**31)],
    "<u8": [0, 1, 255, 256, 65535, 65536, 2**32 - 1, 2**53 + 1, 2**63, 2**64 - 1],
    "|b1": [False, True],
}
SIZES = [0, 1, FEW - 1, FEW, FEW + 1]


@st.composite
def some_arrays(draw: st.DrawFn) -> dict[str, np.ndarray]:
    """Arrays of one number each, but for some others at any place."""
    drawn = {}
    for name in draw(st.lists(st.sampled_from("abcdef"), unique=True, max_size=4)):
        kind = draw(st.sampled_from(list(NUMBERS)))
        numbers = st.sampled_from(NUMBERS[kind])
        array = np.full(draw(st.sampled_from(SIZES)), draw(numbers), kind)
        for place in draw(st.lists(st.integers(0, max(len(array) - 1, 0)), max_size=3)) if len(array) else []:
            array[place] = draw(numbers)
        drawn[name] = array.reshape(2, -1) if len(array) % 2 == 0 and draw(st.booleans()) else array
    return drawn


def filled(kind: str, number: float, other: float) -> dict[str, np.ndarray]:
    """An array that is long enough to be narrowed, with another number in its middle."""
    array = np.full(FEW, number, kind)
    array[FEW // 2] = other
    return {"a": array}


def stored_types(blob: bytes) -> dict[str, str]:
    length = struct.unpack_from("<I", blob, 6)[0]
    return {name: entry[1] for name, entry in json.loads(blob[10 : 10 + length])["arrays"].items()}


@given(some_arrays(), st.integers(0, 7))
@example(filled("<f8", 16.0, -0.0), 0)
@example(filled("<f8", 16.0, math.nan), 0)
@example(filled("<f8", 16.0, math.inf), 0)
@example(filled("<i4", 16, -1), 0)
@example(filled("<u8", 1, 2**63), 0)
def test_arrays_come_back_bit_for_bit_read_only_and_aligned(drawn, digits):
    blob = pack({"n": 10**digits}, drawn)
    header, again = unpack(blob)
    assert header == {"n": 10**digits}
    found = {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in again.items()}
    assert found == {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in drawn.items()}
    whole, stored = np.frombuffer(blob, np.uint8), stored_types(blob)
    for name, array in again.items():
        assert array.flags.aligned
        assert not array.flags.writeable
        assert np.shares_memory(array, whole) == (array.size > 0 and stored[name] == array.dtype.str)


@pytest.mark.parametrize("bits", [0x7FF8_0000_0000_0001, 0x7FF0_0000_0000_0001, 0xFFF8_0000_0000_0000])
def test_a_nan_among_counts_keeps_its_bits(bits):
    array = np.full(FEW, 16.0)
    array.view("<u8")[FEW // 2] = bits
    assert unpack(pack({}, {"a": array}))[1]["a"].tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("kind", "most", "stored"),
    [("<f8", 255, "|u1"), ("<f8", 256, "<u2"), ("<i4", 255, "|u1"), ("<i4", 65535, "<u2"), ("<u8", 65536, "<u8")],
)
def test_whole_numbers_take_as_few_bytes_as_the_largest_needs(kind, most, stored):
    assert stored_types(pack({}, filled(kind, 0, most))) == {"a": stored}


@given(some_arrays(), st.booleans())
def test_equal_arrays_give_equal_bytes_however_they_lie_in_memory(drawn, is_swapped):
    def otherwise(array: np.ndarray) -> np.ndarray:
        spread = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype, order="F")
        spread[..., ::2] = array
        return spread[..., ::2].astype(array.dtype.newbyteorder(">" if is_swapped else "<"), order="K", copy=False)

    assert pack({}, {name: otherwise(array) for name, array in drawn.items()}) == pack({}, drawn)


# --- damage ----------------------------------------------------------------------------------------------------------


@given(st.data())
def test_cut_bytes_are_refused(blob, data):
    with pytest.raises(DamagedStateError):
        decode_state(blob[: data.draw(st.integers(0, len(blob) - 1))])


@pytest.mark.parametrize("size", [0, 13])
def test_fewer_bytes_than_any_state_has_are_refused(size):
    with pytest.raises(DamagedStateError, match=f"^{size} bytes are too few"):
        decode_state(BLOB[:size])


def test_every_single_changed_bit_is_refused():
    for place in range(len(BLOB)):
        changed = bytearray(BLOB)
        changed[place] ^= 1 << (place % 8)
        with pytest.raises(DamagedStateError):
            decode_state(bytes(changed))


@pytest.mark.parametrize("more", [BLOB + b"\0", BLOB * 2, sealed(BLOB), sealed(BLOB[:-4] + b"12345678")])
def test_bytes_left_over_are_refused(more):
    with pytest.raises(DamagedStateError):
        decode_state(more)


def test_an_unknown_format_is_named():
    body = BLOB[:4] + struct.pack("<H", 2) + BLOB[6:-4]
    with pytest.raises(DamagedStateError, match=r"format b'BOTS' 2, where b'BOTS' 1 is read"):
        decode_state(sealed(body))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"arrays":7}',
        b'{"arrays":{"a":[]}}',
        b'{"arrays":{"a":["<f8","<f8",-1]}}',
        b'{"arrays":{"a":["<f8","<f8","2"]}}',
        b'{"arrays":{"a":["<f8","<f8",9]}}',
        b'{"arrays":{"a":["|O","|O",1]}}',
        b'{"arrays":{"a":[["<f8"],["<f8"],1]}}',
        b'{"arrays":{"a":["<f8","<f8",%d]}}' % 10**30,
        b'{"arrays":{"a":["<f8","<f8",%s0]}}' % (b"0," * 99),
        b'{"arrays":{}}',
        b"[" * 100_000,
    ],
    ids=lambda text: text[:24].decode("latin1"),
)
def test_a_header_that_makes_no_sense_is_refused_though_its_checksum_is_right(text):
    with pytest.raises(DamagedStateError):
        decode_state(with_header(text))


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


@given(st.data())
def test_any_nonsense_in_a_header_is_refused_or_makes_a_state_that_can_be_stored(blob, data):
    length = struct.unpack_from("<I", blob, 6)[0]
    header = json.loads(blob[10 : 10 + length])
    owner = data.draw(st.sampled_from([header, *(header[name] for name in ("settings", "totals", "belief", "arrays"))]))
    name = data.draw(st.sampled_from(sorted(owner)))
    if data.draw(st.booleans()):
        owner[name] = data.draw(junk)
    else:
        del owner[name]
    try:
        state = decode_state(with_header(json.dumps(header).encode(), blob[10 + length : -4]))
    except DamagedStateError:
        return
    assert decode_state(encode_state(state)).settings == state.settings


def test_an_array_of_another_length_dimension_or_type_is_refused(blob):
    header, arrays = unpack(blob)
    tables = [header["attempts"]["recent"], header["open_step"]["evidence"]]
    changed = [{one["tasks"]: arrays[one["tasks"]][:-1]} for one in tables]
    changed += [{name: array[None]} for name, array in arrays.items()]
    changed += [{name: array.astype("|u1")} for name, array in arrays.items()]
    for one in changed:
        with pytest.raises(DamagedStateError):
            decode_state(pack(header, {**arrays, **one}))


@pytest.mark.parametrize("path", ["epoch", "belief", "guard"])
@pytest.mark.parametrize("value", [2.5, "2", True, {"streaks": [{"tag": None, "outcome": "varied"}]}])
def test_a_value_of_another_type_is_refused(blob, path, value):
    header, arrays = unpack(blob)
    with pytest.raises(DamagedStateError):
        decode_state(pack({**header, path: value}, arrays))
