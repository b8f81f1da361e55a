"""Sorted arrays of tasks behave like sets."""

from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.arrays import contained, first_places, united, without
from tests.core.pools import tasks

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


def test_no_sets_together_have_no_tasks():
    got = united()
    assert (got.dtype, got.tolist()) == (tasks().dtype, [])


@given(LISTS)
def test_each_task_has_one_first_place(some):
    places = first_places(tasks(*some)).tolist()
    assert places == [place for place, task in enumerate(some) if task not in some[:place]]
