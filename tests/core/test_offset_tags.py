"""Which tags tell profiles apart, against the rule written slowly; and which tasks they change."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core import pool as rule
from bots_service.core.pool import Pool, choose_offset_tags
from tests.core.pools import tasks

TASKS = 24
FEWEST, MOST, PROFILES = 3, 4, 8  # instead of 30, 16 and 2048
names = st.integers(0, 9).map(lambda number: f"tag-{number}")


@pytest.fixture
def small_limits(monkeypatch):
    for name, value in {"FEWEST_TASKS": FEWEST, "MOST_OFFSET_TAGS": MOST, "MOST_PROFILES": PROFILES}.items():
        monkeypatch.setattr(rule, name, value)


def carriers(tags_of):
    """Return the tasks of each tag, as a pool holds them."""
    return {tag: tasks(*(task for task, own in enumerate(tags_of) if tag in own)) for tag in set().union(*tags_of)}


def chosen_slowly(tags_of, profile_of):
    of_tag = {tag: {task for task, own in enumerate(tags_of) if tag in own} for tag in set().union(*tags_of)}
    by_frequency = sorted(of_tag, key=lambda tag: (-len(of_tag[tag]), tag))
    distinct = [
        tag for place, tag in enumerate(by_frequency) if of_tag[tag] not in map(of_tag.get, by_frequency[:place])
    ]
    wanted = [tag for tag in distinct if FEWEST <= len(of_tag[tag]) < len(tags_of)][:MOST]
    allowed = max(PROFILES, 2 * len(set(profile_of)))
    both = list(zip(profile_of, tags_of, strict=True))
    while len({(profile, *(tag in own for tag in wanted)) for profile, own in both}) > allowed:
        wanted.pop()
    return tuple(wanted)


@given(
    st.lists(st.sets(names, max_size=6), min_size=1, max_size=TASKS),
    st.lists(st.integers(0, 5), min_size=TASKS, max_size=TASKS),
)
@pytest.mark.usefixtures("small_limits")
def test_the_most_frequent_tags_are_chosen_as_the_rule_says(tags_of, groups):
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups[: len(tags_of)]))}
    profile_of = tasks(*(numbers[group] for group in groups[: len(tags_of)]))
    assert choose_offset_tags(carriers(tags_of), profile_of) == chosen_slowly(tags_of, profile_of.tolist())


def test_a_tag_needs_thirty_tasks_and_one_task_without_it():
    of_tag = {f"of {size}": tasks(*range(size)) for size in (29, 30, 99, 100)}
    assert choose_offset_tags(of_tag, np.zeros(100, np.int32)) == ("of 99", "of 30")


def test_of_tags_that_the_same_tasks_carry_the_first_by_name_is_chosen():
    of_tag = {tag: tasks(*range(first, first + 40)) for tag, first in (("b", 0), ("a", 0), ("c", 1))}
    assert choose_offset_tags(of_tag, np.zeros(99, np.int32)) == ("a", "c")


def test_sixteen_tags_are_chosen_at_most():
    of_tag = {f"{tag:02}": tasks(*range(tag, tag + 30)) for tag in range(20)}
    assert choose_offset_tags(of_tag, np.zeros(60, np.int32)) == tuple(f"{tag:02}" for tag in range(16))


@pytest.mark.parametrize(("profiles", "chosen"), [(1024, 1), (1025, 1), (2048, 1), (512, 2), (513, 1)])
def test_tags_may_double_the_profiles_or_make_2048_of_them(profiles, chosen):
    # Each profile has a task of each of the four kinds, so that each of two tags doubles the profiles.
    profile_of = np.repeat(np.arange(profiles, dtype=np.int32), 4)
    kind = np.arange(len(profile_of)) % 4
    of_tag = {"a": np.flatnonzero(kind < 2).astype(np.int32), "b": np.flatnonzero(kind % 2).astype(np.int32)}
    assert choose_offset_tags(of_tag, profile_of) == ("a", "b")[:chosen]


def test_tags_add_no_profile_where_each_task_is_one():
    rates = np.random.default_rng(3).random((6000, 2))
    of_tag = {tag: np.arange(place, 6000, 3, dtype=np.int32) for place, tag in enumerate("abc")}
    by_rates = Pool.of_tasks(rates, of_tag)
    offset_tags = choose_offset_tags(of_tag, by_rates.profile_of)
    assert offset_tags == ("a", "b", "c")
    assert Pool.of_tasks(rates, of_tag, offset_tags).profiles == by_rates.profiles == 6000


def test_of_no_tasks_and_no_tags_none_is_chosen():
    assert choose_offset_tags({}, np.zeros(100, np.int32)) == ()
    assert choose_offset_tags({}, np.empty(0, np.int32)) == ()
