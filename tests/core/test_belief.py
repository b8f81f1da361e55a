"""What a belief says of tasks in one way, it says of them in another."""

import numpy as np
from hypothesis import given

from tests.core.journals import Story, stories
from tests.core.pools import beta_parameters


@given(stories())
def test_tasks_apart_are_believed_the_same_whether_looked_for_or_not(story: Story):
    belief = story.replayed()[0].belief
    one_by_one = belief.distributions(story.pool, belief.own_tasks)
    np.testing.assert_array_equal(beta_parameters(belief.own_distributions(story.pool)), beta_parameters(one_by_one))
