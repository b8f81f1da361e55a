"""Task ids packed: found by their hash, told apart by themselves."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core import task_ids
from bots_service.core.task_ids import GrowingTaskIds

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


@pytest.fixture(params=[str, Twin], ids=["as they hash", "all colliding"])
def make(request):
    return request.param


def test_ids_are_kept_in_order_and_found_again(make):
    @given(ids, ids)
    def check(kept, others):
        kept = list(dict.fromkeys(kept))
        packed = packed_of(map(make, kept))
        assert list(packed) == kept
        wanted = {task_id: task for task, task_id in enumerate(kept)}
        asked = [make(task_id) for task_id in [*others, *kept, *kept]]
        assert packed.find(asked).tolist() == [wanted.get(str(task_id), -1) for task_id in asked]
        assert packed.first_repeat() is None

    check()


def test_a_repeat_is_found_among_ids_with_the_same_hash(make):

    @given(ids.filter(bool), st.data())
    def check(kept, data):
        kept = list(dict.fromkeys(kept))
        repeated = data.draw(st.sampled_from(kept))
        place = data.draw(st.integers(0, len(kept)))
        with_repeat = [*kept[:place], repeated, *kept[place:]]
        first = with_repeat.index(repeated)
        assert packed_of(map(make, with_repeat)).first_repeat() == (first, with_repeat.index(repeated, first + 1))

    check()


def test_ids_that_come_in_pieces_are_those_that_come_at_once(make):

    @given(st.lists(ids, max_size=6))
    def check(pieces):
        pieces = [[task_id for task_id in piece if task_id] for piece in pieces]
        whole = list(dict.fromkeys(task_id for piece in pieces for task_id in piece))
        growing, rest = GrowingTaskIds(), iter(whole)
        for piece in pieces:
            growing.add([make(task_id) for task_id in itertools.islice(rest, len(piece))])
        growing.add([make(task_id) for task_id in rest])
        assert list(growing.packed()) == whole
        assert growing.packed().find([make(task_id) for task_id in whole]).tolist() == list(range(len(whole)))

    check()


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
