"""Every state that a journal leads to may be imported; of others, those that could not go on are refused."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from bots_service.core.belief.protocol import PoolSize
from bots_service.core.belief.tracker import TrackerBelief
from bots_service.core.codec import decode_state, encode_state, pack, unpack
from bots_service.core.plausibility import is_possible_state
from bots_service.core.pool import Pool
from bots_service.core.run_settings import settings_from
from bots_service.core.state import RunState, advance, fresh_state
from tests.core.journals import Story, pool_of, replay, report_of, stories


def size_of(pool: Pool) -> PoolSize:
    return PoolSize(len(pool), pool.profiles, pool.models, len(pool.offset_tags))


@given(stories())
def test_each_state_that_a_journal_leads_to_is_possible(story: Story):
    state, size = fresh_state(story.settings, story.pool), size_of(story.pool)
    assert is_possible_state(state, size)
    for entry in story.entries:
        state, _ = advance(state, entry, story.pool)
        assert is_possible_state(state, size)


POOL = pool_of((0.25, 0.75), (0.5, 0.875), (math.nan, math.nan), carried=(0b01, 0b10, 0b10))
TRACKED = replay(
    POOL, [report_of((0, 3.0, 1.0), (2, 1.0, 1.0)), report_of((1, 0.5, 3.5))], settings_from({"belief": "tracker"})
)


def changed(name: str, change: Callable[[np.ndarray], Any]) -> RunState:
    """Return the state with one of its belief's arrays changed in its bytes, their checksum right."""
    header, arrays = unpack(encode_state(TRACKED))
    array = arrays[name].copy()
    change(array)
    return decode_state(pack(header, {**arrays, name: array}))


def put(place: Any, value: float) -> Callable[[np.ndarray], None]:
    return lambda array: array.__setitem__(place, value)


IMPOSSIBLE = [
    *(("effects_mean", put(0, value)) for value in (math.nan, math.inf, -1e300)),
    *(("effects_covariance", put((0, 0), value)) for value in (math.nan, math.inf, 0.0, -1.0)),
    ("effects_covariance", put((0, 1), 0.5)),  # one half of it only
    ("effects_covariance", put((slice(None), slice(None)), 1.0)),  # of rank 1
    ("effects_drift", put(0, 2.0)),
    *(
        (f"{name}_weights", put(slice(None), value))
        for name in ("untried", "residual", "ability")
        for value in (math.nan, -1.0, 1.0, -math.inf)
    ),
    *(("recent_tasks", put(place, value)) for place, value in ((0, 1), (2, 3), (0, -1))),
    *(("recent_last_step", put(0, value)) for value in (-1, 3)),
    *(("recent_mean", put(0, value)) for value in (math.nan, math.inf, -1e300)),
    *(("recent_variance", put(0, value)) for value in (math.nan, math.inf, 0.0, -1.0)),
]


@pytest.mark.parametrize(("name", "change"), IMPOSSIBLE)
def test_a_tracker_that_could_not_go_on_is_impossible(name, change):
    assert not is_possible_state(changed(name, change), size_of(POOL))


def test_a_tracker_of_another_step_or_of_another_pool_is_impossible():
    assert is_possible_state(TRACKED, size_of(POOL))
    assert isinstance(TRACKED.belief, TrackerBelief)
    assert not is_possible_state(replace(TRACKED, belief=replace(TRACKED.belief, step=1)), size_of(POOL))
    for size in (PoolSize(2, 3, 2, 2), PoolSize(3, 3, 1, 2), PoolSize(3, 3, 2, 1)):
        assert not is_possible_state(TRACKED, size)
