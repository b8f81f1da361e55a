"""What the last steps showed by tag, compared with sums by hand."""

from dataclasses import replace

import numpy as np
import pytest

from bots_service.core.entries import Entry
from bots_service.core.pool import Pool
from bots_service.core.receipt import Receipt
from bots_service.core.run_settings import settings_from
from bots_service.core.state import advance, fresh_state
from bots_service.core.summary import MOST_TAGS_LISTED, listed_tags, tag_rows
from tests.core.journals import report_of
from tests.core.pools import tasks

TAGS = {"hard": tasks(4), "math": tasks(0, 1, 2), "odd": tasks(1, 3, 5)}
POOL = Pool.of_tasks(np.empty((6, 0)), TAGS)
STATE = fresh_state(settings_from({}), POOL)


def step(*outcomes: tuple[int, float, float]) -> Receipt:
    return advance(STATE, Entry(1, 0, POOL.profiles, report_of(*outcomes)), POOL)[1]


EARLIER = step((0, 1.0, 3.0), (4, 0.0, 4.0))
SECOND = step((0, 2.0, 2.0), (1, 4.0, 0.0))
THIRD = step((0, 0.0, 4.0), (3, 3.0, 1.0))


def test_a_tag_s_row_holds_what_its_own_tasks_showed_in_these_steps_and_before():
    rows = {row.tag: row for row in tag_rows(POOL, [SECOND, THIRD], [EARLIER])}
    math_row, hard = rows["math"], rows["hard"]
    assert (math_row.tasks, math_row.pool_share) == (3, 3 / 6)
    assert (math_row.reported, math_row.selected_share, math_row.rollouts) == (3, 3 / 4, 12.0)
    assert (math_row.effective, math_row.effective_task_ratio) == (1, 1 / 3)
    assert math_row.mean_pass_rate == pytest.approx((2 / 4 + 4 / 4 + 0 / 4) / 3)
    assert math_row.earlier_mean_pass_rate == 1 / 4
    assert (hard.reported, hard.selected_share, hard.effective_task_ratio, hard.mean_pass_rate) == (0, 0.0, None, None)
    assert hard.earlier_mean_pass_rate == 0.0


def test_without_a_step_a_row_holds_the_pool_alone():
    row, *_ = tag_rows(POOL, [], [])
    assert (row.tag, row.tasks, row.pool_share, row.reported, row.rollouts) == ("math", 3, 0.5, 0, 0.0)
    assert row.selected_share is row.effective_task_ratio is row.mean_pass_rate is row.earlier_mean_pass_rate is None


def test_the_tags_with_most_available_tasks_come_first_and_those_without_any_are_left_out():
    assert listed_tags(POOL) == [("math", 3), ("odd", 3), ("hard", 1)]
    retired = replace(POOL, retired=tasks(0, 4))
    assert listed_tags(retired) == [("odd", 3), ("math", 2)]
    assert [row.pool_share for row in tag_rows(retired, [], [])] == [3 / 4, 2 / 4]
    many = Pool.of_tasks(np.empty((1, 0)), {f"tag-{number:03}": tasks(0) for number in range(MOST_TAGS_LISTED + 1)})
    assert [tag for tag, _ in listed_tags(many)] == [f"tag-{number:03}" for number in range(MOST_TAGS_LISTED)]
