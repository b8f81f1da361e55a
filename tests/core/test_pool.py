"""Profiles: their numbering against a dict, and that appending renumbers nothing."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core import pool as rule
from bots_service.core import task_ids
from bots_service.core.arrays import contained, first_places, united, without
from bots_service.core.belief import KINDS
from bots_service.core.entries import Entry, Report
from bots_service.core.evidence import Evidence
from bots_service.core.pool import (
    Pool,
    choose_offset_tags,
    number_profiles,
)
from bots_service.core.run_settings import settings_from
from bots_service.core.state import advance, fresh_state
from bots_service.core.task_ids import GrowingTaskIds
from tests.core.pools import tasks

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


# --- which tags tell profiles apart, against the rule written slowly; and which tasks they change --------------------

TASKS = 24
FEWEST, MOST, PROFILES = 3, 4, 8  # instead of 30, 16 and 2048
names = st.integers(0, 9).map(lambda number: f"tag-{number}")


@pytest.fixture
def small_limits(monkeypatch):
    for name, value in {"FEWEST_TASKS": FEWEST, "MOST_OFFSET_TAGS": MOST, "MOST_PROFILES": PROFILES}.items():
        monkeypatch.setattr(rule, name, value)


def carriers(tags_of):
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


def test_of_no_tasks_and_no_tags_none_is_chosen():
    assert choose_offset_tags({}, np.zeros(100, np.int32)) == ()
    assert choose_offset_tags({}, np.empty(0, np.int32)) == ()


# --- an appended task begins with what its references and its tags tell of it, as if it had been there all along -----

RATES = np.array([[0.25, 0.75], [0.5, 0.5], [0.25, 0.75], [0.0, 1.0]])
TAGGED = {"hard": tasks(1, 3)}
# Of the appended tasks, the first is like task 0; the next two combine a row and a tag as none before; the last's rates
# are new.
MORE = np.array([[0.25, 0.75], [0.25, 0.75], [0.5, 0.5], [0.375, 0.875]])
APPENDED, TAGGED_ALL = (4, 5, 6, 7), {"hard": tasks(1, 3, 5, 7)}
BEFORE = Pool.of_tasks(RATES, TAGGED, ("hard",))
AFTER = Pool.of_tasks(np.concatenate([RATES, MORE]), TAGGED_ALL, ("hard",))


def reports(steps):
    for step in range(steps):
        solved = np.array([5.0, 1.0, 6.0, 2.0]) + step % 3 / 4
        yield Report(Evidence(tasks(0, 1, 2, 3), solved, 8.0 - solved, np.ones(4, bool)), step, None)


def believed(kind, *, appended_after, steps=20):
    state = fresh_state(settings_from({"belief": kind}), BEFORE)
    for seq, report in enumerate(reports(steps), 1):
        pool = BEFORE if seq <= appended_after else AFTER
        state, _ = advance(state, Entry(seq, 0, pool.profiles, report), AFTER)
    found = state.belief.distributions(AFTER, tasks(*APPENDED))
    return found.mean, found.effective(8.0), found.interval()[0]


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("after", [0, 7, 20])
def test_an_appended_task_is_believed_as_if_it_had_been_there_all_along(kind, after):
    assert BEFORE.profiles == 3
    assert AFTER.profiles == 6  # three of the four are of new profiles
    for now, always in zip(believed(kind, appended_after=after), believed(kind, appended_after=0), strict=True):
        np.testing.assert_allclose(now, always, rtol=1e-12)


def test_the_tracker_knows_an_appended_task_by_its_tag_and_its_references():
    mean, _, _ = believed("tracker", appended_after=20)
    assert mean[1] < mean[0]  # what was tagged hard was solved less often than its references tell
    fresh = fresh_state(settings_from({}), AFTER).belief.distributions(AFTER, tasks(*APPENDED)).mean
    assert (np.abs(mean - fresh) > 0.01).all()


def test_bots_knows_an_appended_task_by_its_references_alone():
    mean, _, _ = believed("bots", appended_after=20)
    assert mean[0] == mean[1]


# --- task ids packed: found by their hash, told apart by themselves --------------------------------------------------

ids = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6), max_size=20)


class Twin(str):
    """An id whose hash is that of every other one."""

    __slots__ = ()

    def __hash__(self):
        return 7


def packed_of(ids):
    growing = GrowingTaskIds()
    growing.add(list(ids))
    return growing.packed()


as_they_hash_or_all_colliding = pytest.mark.parametrize("make", [str, Twin])


@as_they_hash_or_all_colliding
@given(kept=ids, others=ids)
def test_ids_are_kept_in_order_and_found_again(make, kept, others):
    kept = list(dict.fromkeys(kept))
    packed = packed_of(map(make, kept))
    assert list(packed) == kept
    wanted = {task_id: task for task, task_id in enumerate(kept)}
    asked = [make(task_id) for task_id in [*others, *kept, *kept]]
    assert packed.find(asked).tolist() == [wanted.get(str(task_id), -1) for task_id in asked]
    assert packed.first_repeat() is None


@as_they_hash_or_all_colliding
@given(kept=ids.filter(bool), data=st.data())
def test_a_repeat_is_found_among_ids_with_the_same_hash(make, kept, data):
    kept = list(dict.fromkeys(kept))
    repeated = data.draw(st.sampled_from(kept))
    place = data.draw(st.integers(0, len(kept)))
    with_repeat = [*kept[:place], repeated, *kept[place:]]
    first = with_repeat.index(repeated)
    assert packed_of(map(make, with_repeat)).first_repeat() == (first, with_repeat.index(repeated, first + 1))


@as_they_hash_or_all_colliding
@given(pieces=st.lists(ids, max_size=6))
def test_ids_that_come_in_pieces_are_those_that_come_at_once(make, pieces):
    pieces = [[task_id for task_id in piece if task_id] for piece in pieces]
    whole = list(dict.fromkeys(task_id for piece in pieces for task_id in piece))
    growing, rest = GrowingTaskIds(), iter(whole)
    for piece in pieces:
        growing.add([make(task_id) for task_id in itertools.islice(rest, len(piece))])
    growing.add([make(task_id) for task_id in rest])
    assert list(growing.packed()) == whole
    assert growing.packed().find([make(task_id) for task_id in whole]).tolist() == list(range(len(whole)))


@pytest.mark.parametrize("task", [-1, 2, 10**12])
def test_an_index_outside_is_refused(task):
    with pytest.raises(IndexError):
        packed_of(["a", "b"])[task]


def test_no_ids_are_fine():
    empty = packed_of([])
    assert (len(empty), list(empty), empty.first_repeat()) == (0, [], None)
    assert empty.find(["a"]).tolist() == [-1]
    assert empty.find([]).tolist() == []
    assert not empty.find(["a"]).flags.writeable


def test_taking_ids_equals_looking_each_up():
    ids = ["a", "\u00e9t\u00e9", "", "task-17"]
    packed = packed_of(ids)
    order = np.array([3, 0, 2, 1, 3], np.int32)
    assert packed.take(order) == [ids[task] for task in order]
    assert packed.take(np.empty(0, np.int32)) == []


def lowered(text: str) -> str:
    """Return the text with ASCII letters, and no others, in lower case."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


@given(
    st.lists(st.text("aAbB\u00e9\u00c9\u0130\x00", max_size=5), max_size=12),
    st.text("aAb\u00e9\u00c9\x00", min_size=1, max_size=4),
)
def test_a_search_finds_the_ids_that_contain_the_text(kept, text):
    found = packed_of(kept).containing(text)
    assert found.tolist() == [task for task, task_id in enumerate(kept) if lowered(text) in lowered(task_id)]
    assert found.dtype == np.int32
    assert not found.flags.writeable


def test_a_search_finds_every_id_however_many_there_are(monkeypatch):
    monkeypatch.setattr(task_ids, "SEARCHED", 7)
    kept = [f"math-{number}" for number in range(1000)]
    for text in ("7", "MATH", "-99", "9math", "0" * 128):
        wanted = [task for task, task_id in enumerate(kept) if text.lower() in task_id]
        assert packed_of(kept).containing(text).tolist() == wanted


# --- sorted arrays of tasks behave like sets -------------------------------------------------------------------------

SETS = st.sets(st.integers(0, 30))
LISTS = st.lists(st.integers(0, 30))


@given(SETS, SETS)
def test_sets_of_tasks_behave_like_sets(one, other):
    first, second = tasks(*sorted(one)), tasks(*sorted(other))
    assert without(first, second).tolist() == sorted(one - other)
    assert contained(first, (second, tasks())).tolist() == [task in other for task in sorted(one)]


@given(st.lists(LISTS))
def test_tasks_in_any_order_are_united(several):
    got = united(*(tasks(*one) for one in several))
    assert got.dtype == tasks().dtype
    assert got.tolist() == sorted(set().union(*several))


@given(LISTS)
def test_each_task_has_one_first_place(some):
    places = first_places(tasks(*some)).tolist()
    assert places == [place for place, task in enumerate(some) if task not in some[:place]]
