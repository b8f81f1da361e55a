"""Tags that tell profiles apart change nothing for a belief that makes nothing of tags."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from bots_service.core.pool import Pool
from bots_service.core.state import advance, fresh_state
from tests.core.journals import Story, bots_settings, stories
from tests.core.pools import beta_parameters

TAGS = ("a", "b")


def split(pool: Pool, of_tasks: list[int]) -> Pool:
    """Return the same tasks, whose tags tell them apart; `of_tasks`: for each, its tags as bits."""
    bits = np.array(of_tasks, np.uint32)
    tags = {tag: np.flatnonzero(bits >> np.uint32(bit) & 1).astype(np.int32) for bit, tag in enumerate(TAGS)}
    return Pool.of_tasks(pool.references[pool.profile_of], tags, TAGS)


def known_profiles(pool: Pool, profiles: int, other: Pool) -> int:
    """Return how many profiles of the other pool the tasks have that give this pool so many."""
    beyond = np.flatnonzero(pool.profile_of >= profiles)
    known = int(beyond[0]) if len(beyond) else len(pool)
    return int(other.profile_of[:known].max(initial=-1)) + 1


@given(stories(settings=bots_settings), st.data())
def test_the_belief_about_every_task_stays_the_same_bit_for_bit(story: Story, data):
    apart = split(
        story.pool, data.draw(st.lists(st.integers(0, 3), min_size=len(story.pool), max_size=len(story.pool)))
    )
    everyone = np.arange(len(apart), dtype=np.int32)
    one, other = fresh_state(story.settings, story.pool), fresh_state(story.settings, apart)
    for entry in story.entries:
        one, receipt = advance(one, entry, story.pool)
        profiles = known_profiles(story.pool, entry.profiles, apart)
        other, receipt_apart = advance(other, type(entry)(entry.seq, entry.epoch, profiles, entry.body), apart)
        assert structs.replace(receipt_apart, tags=receipt.tags) == receipt
        np.testing.assert_array_equal(
            beta_parameters(other.belief.distributions(apart, everyone)),
            beta_parameters(one.belief.distributions(story.pool, everyone)),
        )
