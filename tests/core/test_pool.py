"""Profiles: their numbering against a dict, and that appending renumbers nothing."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.pool import Pool, number_profiles

rates = st.sampled_from([0.0, -0.0, 1.0, 0.5, 1 / 3, math.nan]) | st.floats(0, 1)


@st.composite
def tables(draw):
    models = draw(st.integers(1, 3))
    rows = draw(st.lists(st.tuples(*[rates] * models), max_size=12))
    rows += draw(st.lists(st.sampled_from(rows), max_size=6)) if rows else []
    return np.array(rows, np.float64).reshape(-1, models)


def numbered_by_dict(rows, carried):
    numbers: dict = {}
    keys = [
        ("unknown" if any(map(math.isnan, row)) else tuple(row), bits)
        for row, bits in zip(rows.tolist(), carried.tolist(), strict=True)
    ]
    return [numbers.setdefault(key, len(numbers)) for key in keys], list(numbers)


@st.composite
def tagged_tables(draw):
    rows = draw(tables())
    bits = st.sampled_from([0, 1, 2, 3, 2**15, 2**16 - 1])
    return rows, np.array(draw(st.lists(bits, min_size=len(rows), max_size=len(rows))), np.uint32)


@given(tagged_tables())
def test_profiles_are_numbered_in_order_of_appearance(table):
    rows, of_tasks = table
    references, carried, profile_of = number_profiles(rows, of_tasks)
    numbers, keys = numbered_by_dict(rows, of_tasks)
    assert profile_of.tolist() == numbers
    found = ["unknown" if math.isnan(row[0]) else tuple(row) for row in references.tolist()]
    assert list(zip(found, carried.tolist(), strict=True)) == keys
    assert all(np.isnan(row).all() or not np.isnan(row).any() for row in references)
    assert not np.signbit(references).any()
    assert profile_of.dtype == np.int32
    assert carried.dtype == np.uint32
    assert references.shape[1] == rows.shape[1]
    assert not any(array.flags.writeable for array in (references, carried, profile_of))


@given(tagged_tables(), st.data())
def test_appending_tasks_renumbers_nothing(table, data):
    rows, carried = table
    cut = data.draw(st.integers(0, len(rows)))
    before, bits_before, before_of = number_profiles(rows[:cut], carried[:cut])
    after, bits_after, after_of = number_profiles(rows, carried)
    assert before.tobytes() == after[: len(before)].tobytes()
    assert bits_before.tolist() == bits_after[: len(before)].tolist()
    assert before_of.tolist() == after_of[:cut].tolist()


@pytest.mark.parametrize("tasks", [0, 1, 7])
def test_without_reference_models_only_tags_tell_profiles_apart(tasks):
    references, carried, profile_of = number_profiles(np.empty((tasks, 0)), np.arange(tasks, dtype=np.uint32) % 2)
    assert references.shape == (min(tasks, 2), 0)
    assert carried.tolist() == [0, 1][:tasks]
    assert profile_of.tolist() == [task % 2 for task in range(tasks)]


@given(tagged_tables())
def test_a_pool_knows_the_first_profile_of_the_same_pass_rates(table):
    rows, carried = table
    tags = {str(bit): np.flatnonzero(carried >> np.uint32(bit) & 1).astype(np.int32) for bit in range(16)}
    told_apart, by_rates = Pool.of_tasks(rows, tags, tuple(tags)), Pool.of_tasks(rows, tags)
    assert by_rates.alike.tolist() == list(range(by_rates.profiles))
    firsts: dict[int, int] = {}  # of each profile by pass rates, the first of those that tags tell apart
    for one, other in zip(by_rates.profile_of.tolist(), told_apart.profile_of.tolist(), strict=True):
        assert told_apart.alike[other] == firsts.setdefault(one, other)
    assert told_apart.carried[told_apart.profile_of].tolist() == carried.tolist()


@given(tables(), st.data())
def test_tasks_are_grouped_by_profile_in_ascending_order(rows, data):
    about = Pool.of_tasks(rows)
    chosen = sorted(data.draw(st.sets(st.sampled_from(range(len(rows)))) if len(rows) else st.just(set())))
    part = about.listed(np.array(chosen, np.int32))
    for profile in range(about.profiles):
        group = part.order[part.starts[profile] : part.starts[profile + 1]].tolist()
        assert group == [task for task in chosen if about.profile_of[task] == profile]
        assert part.sizes[profile] == len(group)
    assert len(part) == len(chosen)


def test_a_pool_groups_all_of_its_tasks_once():
    pool = Pool.of_tasks(np.array([[0.5], [0.25], [0.5]]))
    assert (len(pool), pool.profiles, pool.part().order.tolist()) == (3, 2, [0, 2, 1])
    assert pool.part() is pool.part()
    assert pool.retired.tolist() == []
