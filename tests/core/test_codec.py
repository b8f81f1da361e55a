"""States as bytes: round trip, layout, damage."""

import json
import math
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.attempts import Attempts
from bots_service.core.belief.kinds import KINDS
from bots_service.core.belief.tracker import TrackerBelief
from bots_service.core.codec import FORMAT, decode_state, encode_state, pack, unpack
from bots_service.core.open_step import OpenStep
from bots_service.core.run_settings import settings_from
from bots_service.core.state import RunState
from bots_service.errors import DamagedStateError
from tests.core.blocks import Columns, packed, stored_types
from tests.core.journals import Story, pool_of, replay, report_of, stories
from tests.core.pools import bots_belief


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
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of belief."""
    return request.param


@pytest.fixture(scope="module")
def blob(kind: str) -> bytes:
    """The bytes of a state with a belief of each kind."""
    return encode_state(a_state(kind))


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
    for name in ("epoch", "seq", "step", "settings", "totals"):
        assert getattr(again, name) == getattr(state, name)
    assert again.belief.encoded()[0] == state.belief.encoded()[0]
    tasks = np.arange(len(story.pool), dtype=np.int32)
    told, wanted = (each.belief.distributions(story.pool, tasks) for each in (again, state))
    np.testing.assert_array_equal([told.mean, *told.interval()], [wanted.mean, *wanted.interval()])


def bots_header_and_arrays(state: RunState) -> tuple[str, Columns]:
    belief = bots_belief(state)
    settled, recent, past = belief.tried.settled, belief.tried.recent, belief.past
    header = f'{{"prior":[1.0,1.0],"capability":{belief.capability!r},"scale":{belief.tried.scale!r}}}'
    return header, {
        "implied": ("<f8", belief.implied),
        "settled_counts": ("<f8", settled.counts),
        "settled_steps": ("<u8", settled.steps),
        "recent_counts": ("<f8", recent.counts),
        "recent_steps": ("<u8", recent.steps),
        "capability_sums": ("<f8", belief.estimate.sums),
        "past_capability": ("<f8", past.capability),
        "past_booked": ("<f8", past.booked),
        "past_kept": ("<f8", past.kept),
        "settled_tasks": ("<i4", settled.tasks),
        "settled_last_step": ("<i4", settled.last_step),
        "recent_tasks": ("<i4", recent.tasks),
        "recent_last_step": ("<i4", recent.last_step),
    }


def tracker_header_and_arrays(state: RunState) -> tuple[str, Columns]:
    belief = state.belief
    assert isinstance(belief, TrackerBelief)
    effects, variances = belief.effects, belief.variances
    settled, recent = belief.residuals.settled, belief.residuals.recent
    return f'{{"step":{belief.step}}}', {
        "effects_mean": ("<f8", effects.mean),
        "effects_covariance": ("<f8", effects.covariance),
        "effects_drift": ("<f8", effects.drift),
        "untried_weights": ("<f8", variances.untried),
        "residual_weights": ("<f8", variances.residual),
        "ability_weights": ("<f8", variances.ability),
        "settled_mean": ("<f8", settled.mean),
        "settled_variance": ("<f8", settled.variance),
        "recent_mean": ("<f8", recent.mean),
        "recent_variance": ("<f8", recent.variance),
        "settled_tasks": ("<i4", settled.tasks),
        "settled_last_step": ("<i4", settled.last_step),
        "recent_tasks": ("<i4", recent.tasks),
        "recent_last_step": ("<i4", recent.last_step),
    }


def attempt_arrays(attempts: Attempts) -> Columns:
    settled, recent = attempts.settled, attempts.recent
    return {
        "attempts_settled_tasks": ("<i4", settled.tasks),
        "attempts_settled_visits": ("<i4", settled.visits),
        "attempts_settled_rollouts": ("<f8", settled.rollouts),
        "attempts_settled_successes": ("<f8", settled.successes),
        "attempts_settled_last_step": ("<i4", settled.last_step),
        "attempts_recent_tasks": ("<i4", recent.tasks),
        "attempts_recent_rollouts": ("<f8", recent.rollouts),
        "attempts_recent_successes": ("<f8", recent.successes),
        "attempts_recent_step": ("<i4", recent.step),
    }


def open_arrays(waiting: OpenStep) -> Columns:
    return {
        "open_successes": ("<f8", waiting.evidence.successes),
        "open_failures": ("<f8", waiting.evidence.failures),
        "open_tasks": ("<i4", waiting.evidence.tasks),
        "open_made_at": ("<i4", waiting.made_at),
        "open_effective": ("|b1", waiting.evidence.effective),
    }


BELIEFS = {"bots": bots_header_and_arrays, "tracker": tracker_header_and_arrays}


def columns_of(kind: str, state: RunState) -> tuple[str, Columns]:
    """The header of the belief, and the arrays of the state, in the order in which the modules name them."""
    header, arrays = BELIEFS[kind](state)
    return header, arrays | attempt_arrays(state.attempts) | open_arrays(state.open_step)


def test_the_bytes_of_format_1_are_those_that_the_module_documents(kind, blob):
    state = a_state(kind)
    header, columns = columns_of(kind, state)
    settings_text = json.dumps(state.settings.as_dict(), separators=(",", ":"))
    scalars = (
        f'{{"epoch":0,"seq":3,"step":2,"settings":{settings_text},'
        '"totals":{"reported":3,"effective":3,"all_solved":0,"none_solved":0,"rollouts":10.0,"successes":4.5,'
        '"late":0,"expired":0,"distinct":3,"tokens":0.0,"seconds":0.0},'
        f'"belief":{header},"walks":{{"first_turn":{state.walks.first_turn},"walks":[],"finished":0}},"mix":[],'
        '"guard":[],"open_late":2,"open_expired":0,"open_costs":[0.0,0.0]'
    )
    assert packed(scalars, columns) == blob


def test_counts_and_steps_of_many_tasks_take_a_byte_each(kind):
    count = 1100  # so many that they are settled
    pool = pool_of(*[(0.25, 0.75)] * count)
    state = replay(pool, [report_of(*((task, 3.0, 13.0) for task in range(count)))], settings_from({"belief": kind}))
    blob = encode_state(state)
    header, _ = unpack(blob)
    assert packed(json.dumps(header, separators=(",", ":"))[:-1], columns_of(kind, state)[1]) == blob
    narrow = {name for name, stored in stored_types(blob).items() if stored == "|u1"}
    assert narrow >= {f"attempts_settled_{name}" for name in ("visits", "rollouts", "successes", "last_step")}
    assert encode_state(decode_state(blob)) == blob


@pytest.mark.parametrize("digits", range(8))
def test_arrays_can_be_used_where_they_lie_whatever_the_length_of_the_header(digits, blob):
    header, arrays = unpack(blob)
    _, again = unpack(pack({**header, "seq": 10**digits}, arrays))
    assert all(array.flags.aligned and not array.flags.writeable for array in again.values())
    assert all(np.array_equal(again[name], arrays[name]) for name in arrays)


def test_arrays_of_the_other_byte_order_give_the_same_bytes():
    array = np.array([1.5, -2.25])
    assert pack({}, {"a": array.astype(">f8")}) == pack({}, {"a": array})


@given(st.data())
def test_cut_bytes_are_refused(blob, data):
    with pytest.raises(DamagedStateError):
        decode_state(blob[: data.draw(st.integers(0, len(blob) - 1))])


@pytest.mark.parametrize("size", [0, 4, 13])
def test_fewer_bytes_than_any_state_has_are_refused(size):
    with pytest.raises(DamagedStateError, match=f"^{size} bytes are too few"):
        decode_state(BLOB[:size])


@given(st.data(), st.integers(1, 255))
def test_a_changed_byte_is_refused(blob, data, change):
    changed = bytearray(blob)
    changed[data.draw(st.integers(0, len(blob) - 1))] ^= change
    with pytest.raises(DamagedStateError):
        decode_state(bytes(changed))


def test_every_single_changed_bit_is_refused(blob):
    for place in range(len(blob)):
        changed = bytearray(blob)
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
        b"null",
        b"{}",
        b'{"arrays":7}',
        b'{"arrays":{"a":7}}',
        b'{"arrays":{"a":[]}}',
        b'{"arrays":{"a":["<f8","<f8",-1]}}',
        b'{"arrays":{"a":["<f8","<f8","2"]}}',
        b'{"arrays":{"a":["<f8","<f8",null]}}',
        b'{"arrays":{"a":["<f8","<f8",1.0]}}',
        b'{"arrays":{"a":["<f8","<f8",1e300]}}',
        b'{"arrays":{"a":["<f8","<f8",9]}}',
        b'{"arrays":{"a":["|O","|O",1]}}',
        b'{"arrays":{"a":[["<f8"],["<f8"],1]}}',
        b'{"arrays":{"a":["<f8","<f8",%d]}}' % 10**30,
        b'{"arrays":{"a":["<f8","<f8",0,%d]}}' % 10**30,
        b'{"arrays":{"a":["<f8","<f8",%s0]}}' % (b"0," * 99),
        b'{"arrays":{}}',
        b"[" * 100_000,
        b"1" * 10_000,
    ],
    ids=lambda text: text[:24].decode("latin1"),
)
def test_a_header_that_makes_no_sense_is_refused_though_its_checksum_is_right(text):
    with pytest.raises(DamagedStateError):
        decode_state(with_header(text))


def test_a_header_longer_than_the_bytes_is_refused():
    with pytest.raises(DamagedStateError):
        decode_state(sealed(struct.pack("<4sHI", b"BOTS", FORMAT, 2**32 - 1) + b"{}"))


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


OF_BOTH = ["attempts_recent_step", "open_made_at", "open_effective"]
LINKED = {
    "bots": ["recent_tasks", "past_kept"],
    "tracker": ["recent_tasks", "recent_variance", "effects_drift", "effects_covariance", "untried_weights"],
}


@pytest.mark.parametrize(
    ("kind", "changed"),
    [(kind, name) for kind, names in LINKED.items() for name in [*names, *OF_BOTH]],
)
def test_arrays_whose_lengths_differ_are_refused(kind, changed):
    header, arrays = unpack(encode_state(a_state(kind)))
    with pytest.raises(DamagedStateError):
        decode_state(pack(header, {**arrays, changed: arrays[changed][:-1]}))


@pytest.mark.parametrize("step", [-1, 2.0, "2", None, True])
def test_a_step_of_a_tracker_that_is_no_count_is_refused(step):
    header, arrays = unpack(encode_state(a_state("tracker")))
    with pytest.raises(DamagedStateError):
        decode_state(pack({**header, "belief": {"step": step}}, arrays))


@pytest.mark.parametrize("capability", [True, 1, "0.5", [0.5]])
def test_a_capability_that_is_no_float_is_refused(capability):
    header, arrays = unpack(BLOB)
    with pytest.raises(DamagedStateError):
        decode_state(pack({**header, "belief": {**header["belief"], "capability": capability}}, arrays))


@pytest.mark.parametrize("scale", [0.0, -0.5, 1, "0.5", None])
def test_a_scale_that_counts_can_not_be_divided_by_is_refused(scale):
    header, arrays = unpack(BLOB)
    with pytest.raises(DamagedStateError):
        decode_state(pack({**header, "belief": {**header["belief"], "scale": scale}}, arrays))
