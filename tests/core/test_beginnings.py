"""What a run begins with: another run's belief, trusted less; or another run's journal under other settings."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bots_service.core.beginnings import Refold, warm_start
from bots_service.core.belief.kinds import KINDS
from bots_service.core.codec import decode_state, encode_state
from bots_service.core.entries import Body, Entry, Forget, Rewind, SettingsChange
from bots_service.core.groups import NOTHING_UNFINISHED
from bots_service.core.open_step import NOTHING_OPEN
from bots_service.core.plausibility import is_possible_state
from bots_service.core.run_settings import FIXED, RunSettings, settings_from
from bots_service.core.state import advance, fresh_state
from tests.core.journals import Story, pool_of, replay, report_of, some_settings, stories
from tests.core.pools import beta_parameters
from tests.core.test_fold_laws import assert_within_range
from tests.core.test_plausibility import size_of

POOL = pool_of((0.25, 0.75), (0.5, 0.875), (0.25, 0.75), (math.nan, math.nan), (0.0, 1.0))
ALL = np.arange(len(POOL), dtype=np.int32)
STEPS: list[Body] = [report_of((0, 12.0, 4.0), (3, 1.0, 7.0)), report_of((1, 14.0, 2.0)), report_of((4, 3.0, 5.0))]


@pytest.fixture(params=sorted(KINDS))
def chosen(request: pytest.FixtureRequest) -> RunSettings:
    """The defaults of a run of each kind of belief."""
    return settings_from({"belief": request.param})


# --- warm starts -----------------------------------------------------------------------------------------------------


@given(stories(), st.sampled_from([0.0, 0.3, 1.0]) | st.floats(0, 1))
def test_a_warm_start_is_possible_counts_nothing_and_goes_on(story: Story, discount: float):
    parent, _ = story.replayed()
    pool, size = story.pool, size_of(story.pool)
    child = decode_state(encode_state(warm_start(parent, story.settings, discount, pool)))
    fresh = fresh_state(story.settings, pool)
    assert encode_state(replace(child, belief=fresh.belief)) == encode_state(fresh)
    assert is_possible_state(child, size)
    assert_within_range(child.belief.distributions(pool, np.arange(len(pool), dtype=np.int32)))
    later = replay(pool, [report_of((0, 1.0, 3.0), close=True)] * 3, story.settings, child)
    assert is_possible_state(later, size)
    assert_within_range(later.belief.profile_distributions(pool))


def test_a_warm_start_without_discount_believes_what_its_parent_does(chosen):
    parent = replay(POOL, STEPS, chosen)
    child = warm_start(parent, chosen, 0.0, POOL)
    for believed, other in (
        (child.belief.distributions(POOL, ALL), parent.belief.distributions(POOL, ALL)),
        (child.belief.profile_distributions(POOL), parent.belief.profile_distributions(POOL)),
    ):
        np.testing.assert_allclose(believed.mean, other.mean, rtol=1e-9)
        np.testing.assert_allclose(believed.interval(), other.interval(), rtol=1e-6)


def test_a_warm_start_that_drops_all_believes_nothing(chosen):
    child = warm_start(replay(POOL, STEPS, chosen), chosen, 1.0, POOL)
    assert encode_state(child) == encode_state(fresh_state(chosen, POOL))


def test_the_more_a_warm_start_drops_the_nearer_it_is_to_no_evidence(chosen):
    parent = replay(POOL, STEPS, chosen)
    start = fresh_state(chosen, POOL).belief.distributions(POOL, ALL).mean
    means = [warm_start(parent, chosen, share, POOL).belief.distributions(POOL, ALL).mean for share in (0, 0.5, 0.9, 1)]
    moved = [np.abs(mean - start).sum() for mean in means]
    assert moved == sorted(moved, reverse=True)
    assert moved[-1] == 0.0


def test_a_warm_start_of_bots_keeps_its_share_of_each_count_on_the_new_prior():
    chosen = settings_from({"belief": "bots"})
    parent = replay(POOL, STEPS, chosen)
    child = warm_start(parent, replace(chosen, prior=(2.0, 3.0)), 0.25, POOL)
    evidence = np.array(beta_parameters(parent.belief.distributions(POOL, ALL))) - 1
    expected = 0.75 * evidence + np.array([[2.0], [3.0]])
    np.testing.assert_allclose(beta_parameters(child.belief.distributions(POOL, ALL)), expected, rtol=1e-12)


def test_a_warm_start_keeps_the_papers_quotient_and_discounts_the_least_squares():
    paper = settings_from({"belief": "bots", "capability": "paper"})
    parent = replay(POOL, STEPS, paper)
    assert warm_start(parent, paper, 0.5, POOL).belief.capability == parent.belief.capability
    squares = replay(POOL, STEPS, settings_from({"belief": "bots"})).belief.capability
    assert squares is not None
    fitted = warm_start(parent, settings_from({"belief": "bots"}), 0.5, POOL).belief.capability
    assert fitted is not None
    assert abs(fitted - 0.5) < abs(squares - 0.5)  # halfway between the references is what no batch says


# --- replays ---------------------------------------------------------------------------------------------------------


def refolded(story: Story, settings: RunSettings, pages: int = 1) -> Refold:
    fold = Refold.of(fresh_state(story.settings, story.pool), settings, story.pool)
    for page in np.array_split(np.arange(len(story.entries)), pages):
        fold = fold.with_entries([story.entries[place] for place in page], story.pool)
    return fold


@given(stories(), st.integers(1, 3))
def test_a_journal_folded_under_its_own_settings_gives_its_own_state(story: Story, pages: int):
    state, _ = story.replayed()
    if any(isinstance(entry.body, SettingsChange) for entry in story.entries):
        return  # what was changed midway is not what the whole journal is folded under
    begin = refolded(story, story.settings, pages).begin()
    assert encode_state(begin) == encode_state(
        replace(state, seq=0, open_step=NOTHING_OPEN, unfinished=NOTHING_UNFINISHED)
    )


def test_a_journal_in_which_tasks_are_forgotten_is_folded_so():
    bodies = [*STEPS, Forget(np.array([0], np.int32))]
    entries = [Entry(seq, 0, POOL.profiles, body) for seq, body in enumerate(bodies, start=1)]
    story = Story(settings_from({"belief": "tracker"}), POOL, entries)
    assert encode_state(refolded(story, story.settings).begin()) == encode_state(replace(story.replayed()[0], seq=0))


@given(stories(), some_settings)
def test_a_journal_folded_under_others_keeps_its_steps_and_gives_their_belief(story: Story, others: RunSettings):
    state, _ = story.replayed()
    begin = refolded(story, others).begin()
    assert (begin.step, begin.totals, begin.settings) == (state.step, state.totals, others)
    for one, other in zip(begin.attempts.whole, state.attempts.whole, strict=True):
        np.testing.assert_array_equal(one, other)
    assert type(begin.belief) is KINDS[others.belief]
    assert is_possible_state(begin, size_of(story.pool))
    later = replay(story.pool, [report_of((0, 1.0, 3.0), close=True)], others, decode_state(encode_state(begin)))
    assert later.step == state.step + 1


def test_a_replay_believes_as_a_run_that_had_its_settings_from_the_start():
    tracked = settings_from({"belief": "tracker", "strategy": "thompson"})
    entries = [Entry(seq, 0, POOL.profiles, body) for seq, body in enumerate(STEPS, 1)]
    begin = refolded(Story(settings_from({"belief": "bots"}), POOL, entries), tracked).begin()
    state = replay(POOL, STEPS, tracked)
    assert encode_state(begin) == encode_state(replace(state, seq=0))


def test_a_replay_has_its_own_mean_of_rollouts_where_its_parent_was_given_one():
    given_one = settings_from({"belief": "bots", "rollouts_per_task": 1000, "implicit_weight": 1.0})
    learned = replace(given_one, rollouts_per_task=None)
    entries = [Entry(seq, 0, POOL.profiles, body) for seq, body in enumerate(STEPS, 1)]
    begin = refolded(Story(given_one, POOL, entries), learned).begin()
    assert encode_state(begin) == encode_state(replace(replay(POOL, STEPS, learned), seq=0))


def test_a_replay_goes_over_rewinds_whose_undone_entries_are_left_out(chosen):
    kept, undone, after = STEPS[0], STEPS[1], report_of((2, 3.0, 1.0))
    start = fresh_state(chosen, POOL)
    fold = Refold.of(start, chosen, POOL)
    fold = fold.with_entries([Entry(1, 0, POOL.profiles, kept)], POOL)
    tail = [Entry(3, 1, POOL.profiles, Rewind(1, 1)), Entry(4, 1, POOL.profiles, after)]
    begin = fold.with_entries(tail, POOL).begin()
    assert encode_state(begin) == encode_state(replace(replay(POOL, [kept, after], chosen), seq=0))
    base = replay(POOL, [kept], chosen)
    state = replay(POOL, [undone], chosen, base)
    state, _ = advance(state, tail[0], POOL, base=base)
    state, _ = advance(state, tail[1], POOL)
    assert encode_state(begin) == encode_state(replace(state, epoch=0, seq=0))


def test_a_replay_with_another_seed_walks_anew(chosen):
    other = replace(chosen, seed=7)
    assert all(getattr(other, name) == getattr(chosen, name) for name in FIXED)
    fold = Refold.of(fresh_state(chosen, POOL), other, POOL)
    assert fold.begin().walks == fresh_state(chosen, POOL).walks.restarted()
