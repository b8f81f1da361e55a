"""What a belief says of tasks in one way, it says of them in another."""

import numpy as np
from hypothesis import given

from tests.core.journals import Story, stories


@given(stories())
def test_tasks_apart_are_believed_the_same_whether_looked_for_or_not(story: Story):
    belief = story.replayed()[0].belief
    np.testing.assert_array_equal(belief.of_apart(story.pool), belief.of_tasks(story.pool, belief.apart))
