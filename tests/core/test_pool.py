"""Profiles: their numbering against a dict, and that appending renumbers nothing."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.pool import Pool, group_by_profile, number_profiles

rates = st.sampled_from([0.0, -0.0, 1.0, 0.5, 1 / 3, math.nan]) | st.floats(0, 1)


@st.composite
def tables(draw):
    models = draw(st.integers(1, 3))
    rows = draw(st.lists(st.tuples(*[rates] * models), max_size=12))
    rows += draw(st.lists(st.sampled_from(rows), max_size=6)) if rows else []
    return np.array(rows, np.float64).reshape(-1, models)


def numbered_by_dict(rows):
    numbers: dict = {}
    keys = ["unknown" if any(map(math.isnan, row)) else tuple(row) for row in rows.tolist()]
    return [numbers.setdefault(key, len(numbers)) for key in keys], list(numbers)


@given(tables())
def test_profiles_are_numbered_in_order_of_appearance(rows):
    references, profile_of = number_profiles(rows)
    numbers, keys = numbered_by_dict(rows)
    assert profile_of.tolist() == numbers
    assert ["unknown" if math.isnan(row[0]) else tuple(row) for row in references.tolist()] == keys
    assert all(np.isnan(row).all() or not np.isnan(row).any() for row in references)
    assert not np.signbit(references).any()
    assert profile_of.dtype == np.int32
    assert references.shape[1] == rows.shape[1]
    assert not any(array.flags.writeable for array in (references, profile_of))


@given(tables(), st.data())
def test_appending_tasks_renumbers_nothing(rows, data):
    cut = data.draw(st.integers(0, len(rows)))
    before, before_of = number_profiles(rows[:cut])
    after, after_of = number_profiles(rows)
    assert before.tobytes() == after[: len(before)].tobytes()
    assert before_of.tolist() == after_of[:cut].tolist()


@pytest.mark.parametrize(("tasks", "profiles"), [(0, 0), (1, 1), (7, 1)])
def test_without_reference_models_all_tasks_share_one_profile(tasks, profiles):
    references, profile_of = number_profiles(np.empty((tasks, 0)))
    assert references.shape == (profiles, 0)
    assert profile_of.tolist() == [0] * tasks
    assert not any(array.flags.writeable for array in (references, profile_of))


@given(tables(), st.data())
def test_tasks_are_grouped_by_profile_in_ascending_order(rows, data):
    references, profile_of = number_profiles(rows)
    chosen = sorted(data.draw(st.sets(st.sampled_from(range(len(rows)))) if len(rows) else st.just(set())))
    members = group_by_profile(np.array(chosen, np.int32), profile_of, len(references))
    for profile in range(len(references)):
        group = members.order[members.starts[profile] : members.starts[profile + 1]].tolist()
        assert group == [task for task in chosen if profile_of[task] == profile]
        assert members.sizes[profile] == len(group)
    assert len(members) == len(chosen)


def test_a_pool_groups_all_of_its_tasks_once():
    pool = Pool(*number_profiles(np.array([[0.5], [0.25], [0.5]])))
    assert (len(pool), pool.profiles, pool.members.order.tolist()) == (3, 2, [0, 2, 1])
    assert pool.members is pool.members
    assert pool.retired.tolist() == []
