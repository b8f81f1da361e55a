"""What a belief says of tasks in one way, it says of them in another."""

import numpy as np
from hypothesis import given

from tests.core.journals import Story, stories


@given(stories())
def test_tasks_apart_are_believed_the_same_whether_looked_for_or_not(story: Story):
    belief = story.replayed()[0].belief
    whole, one_by_one = belief.own_distributions(story.pool), belief.distributions(story.pool, belief.own_tasks)
    np.testing.assert_array_equal([whole.mean, *whole.interval()], [one_by_one.mean, *one_by_one.interval()])
