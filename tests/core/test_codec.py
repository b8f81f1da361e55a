"""States as bytes: round trip, damage."""

import math
import struct
import zlib
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bots_service.core.belief import KINDS
from bots_service.core.codec import FORMAT, decode_state, encode_state, pack, unpack
from bots_service.core.run_settings import settings_from
from bots_service.core.state import RunState
from bots_service.errors import DamagedStateError
from tests.core.journals import Story, pool_of, replay, report_of, stories


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


def sealed(value: Any) -> bytes:
    body = msgspec.msgpack.encode(value)
    return struct.pack("<I", zlib.crc32(body)) + body


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


ARRAYS: list[tuple[Any, NDArray[Any]]] = [
    (NDArray[np.float64], np.array([0.0, -0.0, 0.5, 5e-324, 1e300, math.nan, math.inf])),
    (NDArray[np.float64], np.array([0x7FF8_0000_0000_0001, 0x7FF0_0000_0000_0001], np.uint64).view(np.float64)),
    (NDArray[np.int32], np.array([[-1, 2**31 - 1], [-(2**31), 0]], np.int32)),
    (NDArray[np.uint64], np.array([2**64 - 1, 2**53 + 1], np.uint64)),
    (NDArray[np.bool_], np.array([True, False])),
    (NDArray[np.float64], np.empty((2, 0))),
]


@pytest.mark.parametrize(("kind", "array"), ARRAYS)
def test_arrays_come_back_bit_for_bit_and_read_only_however_they_lay_in_memory(kind, array):
    blob = pack(array)
    again = unpack(blob, kind)
    assert (again.dtype, again.shape, again.tobytes()) == (array.dtype, array.shape, array.tobytes())
    assert not again.flags.writeable
    spread = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype, order="F")
    spread[..., ::2] = array
    assert pack(spread[..., ::2]) == pack(spread[..., ::2].astype(array.dtype.newbyteorder(">"))) == blob


@given(st.data())
def test_cut_bytes_are_refused(blob, data):
    with pytest.raises(DamagedStateError):
        decode_state(blob[: data.draw(st.integers(0, len(blob) - 1))])


def test_every_single_changed_bit_is_refused():
    for place in range(len(BLOB)):
        changed = bytearray(BLOB)
        changed[place] ^= 1 << (place % 8)
        with pytest.raises(DamagedStateError):
            decode_state(bytes(changed))


@pytest.mark.parametrize("value", [(FORMAT, {}), (FORMAT, []), (FORMAT, {"settings": {}, "epoch": "2"}), (FORMAT,), 7])
def test_what_is_no_state_is_refused_though_its_checksum_is_right(value):
    with pytest.raises(DamagedStateError):
        decode_state(sealed(value))


def test_an_unknown_format_is_named():
    with pytest.raises(DamagedStateError, match="format 2, where 1 is read"):
        decode_state(sealed((2, {})))


@pytest.mark.parametrize("name", ["epoch", "belief", "guard"])
@pytest.mark.parametrize("value", [2.5, "2", True, {"streaks": [{"tag": None, "outcome": "varied"}]}])
def test_a_value_of_another_type_is_refused(blob, name, value):
    with pytest.raises(DamagedStateError):
        decode_state(pack({**unpack(blob, dict[str, Any]), name: value}))


def test_an_array_of_another_type_is_refused(blob):
    values = unpack(blob, dict[str, Any])
    values["attempts"]["recent"]["step"][0] = "<f8"
    with pytest.raises(DamagedStateError, match="an array of type <f8, not int32"):
        decode_state(pack(values))
