"""How many tasks are enough for so many effective groups."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.draw import SelectRequest, enough_tasks

CHANCES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=300)


@given(CHANCES, st.integers(1, 40))
def test_no_fewer_tasks_are_enough_and_no_more_are_taken(chances, wanted):
    asked = []

    def expected(count):
        asked.append(count)
        return float(np.sum(chances[:count]))

    found = enough_tasks(expected, wanted, len(chances))
    enough = [count for count in range(1, len(chances)) if expected(count) >= wanted]
    asked = asked[: len(asked) - len(chances) + 1]
    assert found == (min(enough) if enough else len(chances))
    assert len(asked) <= 16
    assert all(1 <= count <= len(chances) for count in asked)


def test_of_tasks_that_all_teach_equally_few_are_looked_at():
    asked = []

    def expected(count):
        asked.append(count)
        return 0.4 * count

    assert enough_tasks(expected, 32, 256) == 80
    assert len(asked) <= 4


def test_a_wish_for_effective_groups_has_no_count():
    with pytest.raises(ValueError, match="without a count"):
        _ = SelectRequest("guru", want_effective=3).task_count
