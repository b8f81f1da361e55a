"""What a step amounts to by tag, against plain Python."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.receipt import MOST_TAGS, OTHER, metric_tags, sums_by_tag
from tests.core.journals import evidence_of
from tests.core.pools import tasks

TASKS = 12
names = st.integers(0, MOST_TAGS + 4).map(lambda number: f"tag-{number}") | st.just(OTHER)
tags_of_tasks = st.lists(st.sets(names, max_size=MOST_TAGS + 6), min_size=TASKS, max_size=TASKS)
quarters = st.integers(0, 64).map(lambda count: count / 4)
shown = st.tuples(quarters, quarters, st.booleans()).filter(lambda row: row[0] + row[1] > 0)
shown_of_tasks = st.dictionaries(st.integers(0, TASKS - 1), shown)


def carriers(of_tasks):
    """Return the tasks of each tag, as a pool holds them."""
    return {tag: tasks(*(task for task, tags in enumerate(of_tasks) if tag in tags)) for tag in set().union(*of_tasks)}


@given(tags_of_tasks, shown_of_tasks)
def test_each_tag_sums_up_the_tasks_that_carry_it(of_tasks, rows):
    told = metric_tags(carriers(of_tasks), TASKS)
    pieces = [(task, *rows[task][:2]) for task in sorted(rows)]
    sums = sums_by_tag(told, evidence_of(*pieces, effective=[rows[task][2] for task in sorted(rows)]))
    apart = set(told.names) - {OTHER}
    assert sums.names == told.names
    for place, name in enumerate(told.names):
        own = [
            row for task, row in rows.items() if (of_tasks[task] - apart if name == OTHER else name in of_tasks[task])
        ]
        assert sums.reported[place] == len(own)
        assert sums.effective[place] == sum(flag for _, _, flag in own)
        assert sums.rollouts[place] == sum(s + f for s, f, _ in own)
        assert sums.solved[place] == sum(s for s, _, _ in own)


@given(tags_of_tasks)
def test_the_tags_with_most_tasks_are_told_apart_and_the_others_as_one(of_tasks):
    frequent = Counter(tag for tags in of_tasks for tag in tags)
    told = metric_tags(carriers(of_tasks), TASKS)
    by_tasks = sorted(frequent.keys() - {OTHER}, key=lambda tag: (-frequent[tag], tag))
    rest = {*by_tasks[MOST_TAGS:], *(frequent.keys() & {OTHER})}
    assert told.names == (*by_tasks[:MOST_TAGS], *([OTHER] if rest else []))


@pytest.mark.parametrize("count", [MOST_TAGS, MOST_TAGS + 1])
def test_as_many_tags_as_may_be_need_no_other(count):
    told = metric_tags({f"tag-{number:02}": tasks(0) for number in range(count)}, 1)
    assert (OTHER in told.names) == (count > MOST_TAGS)
    sums = sums_by_tag(told, evidence_of((0, 1.0, 3.0)))
    assert np.array_equal(sums.rollouts, np.full(len(told.names), 4.0))  # of several others the task counts once
