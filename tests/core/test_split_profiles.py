"""Tags that tell profiles apart change nothing for a belief that makes nothing of tags."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.draw.selection import NamedTasks, select_tasks
from bots_service.core.pool import Pool
from bots_service.core.run_settings import settings_from
from bots_service.core.state import advance, fresh_state
from tests.core.journals import Story, bots_settings, replay, report_of, stories
from tests.core.pools import a_request, assert_same_shares, assert_same_values, beta_parameters, context_of, tasks

TAGS = ("a", "b")
REPEATS = 600


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
        assert receipt_apart == receipt
        np.testing.assert_array_equal(
            beta_parameters(other.belief.distributions(apart, everyone)),
            beta_parameters(one.belief.distributions(story.pool, everyone)),
        )


def test_appended_tasks_that_differ_only_by_tags_start_where_those_before_them_stand():
    # Steps are remembered for 64: a profile that was told apart only later must not miss what came before.
    rates = np.array([(0.25, 0.75), (0.0, 0.5), (0.25, 0.75)])
    before = Pool.of_tasks(rates[:2], {"a": tasks(0)}, ("a",))
    after = Pool.of_tasks(rates, {"a": tasks(0)}, ("a",))
    chosen = settings_from({"belief": "bots", "forgetting": 0.001, "capability": "paper", "capability_momentum": 0.0})
    early, late = (report_of((1, solved, 16.0 - solved)) for solved in (16.0, 0.0))
    state = replay(before, [*[early] * 50, *[late] * 70], chosen)
    state = replay(after, [late], chosen, state)
    alpha, beta = beta_parameters(state.belief.distributions(after, tasks(0, 2)))
    assert (after.profiles, alpha[0], beta[0]) == (3, alpha[1], beta[1])


@given(stories(settings=bots_settings), st.data())
def test_what_is_said_of_some_tasks_is_what_the_whole_belief_says_of_them(story: Story, data):
    state = fresh_state(story.settings, story.pool)
    for entry in story.entries[: data.draw(st.integers(0, len(story.entries)))]:
        state, _ = advance(state, entry, story.pool)
    some = data.draw(st.lists(st.integers(0, len(story.pool) - 1)).map(lambda numbers: tasks(*numbers)))
    whole = state.belief.extended(story.pool, story.pool.profiles)
    np.testing.assert_array_equal(
        beta_parameters(state.belief.distributions(story.pool, some)),
        beta_parameters(whole.distributions(story.pool, some)),
    )


@pytest.mark.no_cover
@pytest.mark.parametrize("strategy", ["thompson", "uniform"])
def test_selections_keep_their_distribution(strategy):
    rates = np.repeat([(0.25, 0.75), (0.0, 0.5), (np.nan, np.nan)], 8, axis=0)
    whole = Pool.of_tasks(rates)
    apart = split(whole, [task % 3 for task in range(24)])
    assert (whole.profiles, apart.profiles) == (3, 9)
    chosen = settings_from({"belief": "bots", "strategy": strategy})
    told = [report_of((0, 9.0, 7.0), (9, 1.0, 15.0)), report_of((17, 5.0, 11.0))]
    found = []
    for seed, pool in enumerate((whole, apart)):
        state, rng = replay(pool, told, chosen), np.random.default_rng(seed)
        context = context_of(rng, strategy=strategy)
        drawn = [
            select_tasks(state.belief, pool, a_request(6), context, named=NamedTasks(), leased=tasks(3, 20))
            for _ in range(REPEATS)
        ]
        found.append([np.array(column) for column in zip(*(one_of(each, rng) for each in drawn), strict=True)])
    (whole_tasks, whole_draws), (apart_tasks, apart_draws) = found
    assert_same_shares(whole_tasks, apart_tasks)
    if strategy == "thompson":
        assert_same_values(whole_draws, apart_draws)


def one_of(drawn, rng):
    """Return one of a selection's tasks at random, with its draw."""
    place = rng.integers(len(drawn.tasks))
    return drawn.tasks[place], drawn.draws[place]
