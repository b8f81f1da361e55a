"""Draws of generators: how often each is drawn, from which seeds, and what their reports come to."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from bots_service.core.belief.kinds import KINDS
from bots_service.core.codec import decode_state, encode_state
from bots_service.core.costs import cost_rows
from bots_service.core.draw.context import DrawContext
from bots_service.core.draw.generators import seeds_of, select_generators
from bots_service.core.draw.selection import LARGEST_COUNT, NamedTasks, SelectRequest
from bots_service.core.entries import Entry, Report
from bots_service.core.evidence import Evidence, joined_groups
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings, settings_from
from bots_service.core.state import RunState, advance, fresh_state, lesson_of
from bots_service.core.summary.tags import closed_steps_of
from bots_service.errors import InvalidSelectionError, PoolTooSmallError
from tests.core.pools import LEVEL, belief, tasks

SIZE, GROUP = 6, 8.0
TAGS = {"math": tasks(0, 1, 2), "code": tasks(2, 3, 4)}
POOL = replace(Pool.of_tasks(np.empty((SIZE, 0)), TAGS), generators=True)
ALPHA, BETA = [1.0, 30.0, 5.0, 2.0, 40.0, 9.0], [30.0, 1.0, 5.0, 9.0, 44.0, 2.0]
KNOWN = belief([1.0], [1.0], range(SIZE), ALPHA, BETA)
CHANCES = KNOWN.distributions(POOL, tasks(*range(SIZE))).effective(GROUP)


def drawn(count, *, seed=0, strategy="pass", named=NamedTasks(), pool=POOL, settings=None, **request):  # noqa: B008 - frozen
    settings = {"strategy": strategy, **(settings or {})}
    context = DrawContext(RunSettings(**settings), 0, np.random.default_rng(seed), group_size=GROUP)
    return select_generators(KNOWN, pool, SelectRequest("guru", count, **request), context, named=named)


def counts(*args, **more):
    return np.bincount(drawn(*args, **more).tasks, minlength=SIZE)


def plain_shares(weights, count, rng):
    """Systematic sampling one place after the other: where each of `count` needles falls."""
    order = rng.permutation(len(weights)).tolist()
    needle, times, passed = rng.random(), Counter[int](), 0.0
    for one in order:
        passed += float(weights[one]) / float(sum(weights)) * count
        while needle < passed - 1e-12 or (one == order[-1] and sum(times.values()) < count):
            times[one] += 1
            needle += 1
    return [times[one] for one in range(len(weights))]


@given(count=st.integers(1, 300), seed=st.integers(0, 10**6))
def test_a_pass_draws_each_generator_as_a_plain_one_would(count, seed):
    assert counts(count, seed=seed).tolist() == plain_shares(CHANCES, count, np.random.default_rng(seed))


@pytest.mark.no_cover
@pytest.mark.parametrize(("strategy", "weights"), [("pass", CHANCES), ("uniform", np.ones(SIZE))])
def test_each_draw_is_its_share_rounded_and_exact_on_average(strategy, weights):
    shares, turns = 10 * weights / weights.sum(), 4000
    found = np.array([counts(10, seed=seed, strategy=strategy) for seed in range(turns)])
    assert (found.sum(axis=1) == 10).all()
    assert (np.abs(found - shares) < 1).all()
    assert np.abs(found.mean(axis=0) - shares).max() < 4 * 0.5 / np.sqrt(turns)


def test_thompson_draws_as_if_each_generator_had_as_many_fresh_tasks_as_wanted():
    rng, count, turns = np.random.default_rng(1), 5, 1500
    dense, found = np.zeros(SIZE), np.zeros(SIZE)
    for seed in range(turns):
        found += counts(count, seed=seed, strategy="thompson")
        samples = rng.beta(np.array(ALPHA)[:, None], np.array(BETA)[:, None], (SIZE, count))
        nearest = np.argsort(np.abs(samples - 0.5), axis=None)[:count]
        dense += np.bincount(nearest // count, minlength=SIZE)
    seen = dense + found > 20
    assert chisquare(found[seen], dense[seen] * found[seen].sum() / dense[seen].sum()).pvalue > LEVEL
    one = drawn(count, strategy="thompson")
    assert (np.diff(np.abs(one.draws - 0.5)) >= 0).all()


def test_of_generators_that_teach_nothing_all_are_drawn_alike():
    hopeless = belief([1.0], [1.0], range(SIZE), [1e-3] * SIZE, [1e9] * SIZE)
    context = DrawContext(RunSettings(strategy="pass"), 0, np.random.default_rng(0), group_size=1.0)
    found = select_generators(hopeless, POOL, SelectRequest("guru", 60), context, named=NamedTasks())
    assert np.bincount(found.tasks, minlength=SIZE).tolist() == [10] * SIZE


def test_tags_first_and_excluded_ones_hold():
    assert set(drawn(50, tags=("math",)).tasks.tolist()) <= {0, 1, 2}
    named = NamedTasks(excluded=tasks(5), first=tasks(3, 5))
    first = drawn(8, named=named).tasks
    assert first[0] == 3
    assert len(first) == 8
    assert 5 not in first


def test_a_mix_holds_on_average_at_any_count():
    mix = {"code": 1.0, "math": 3.0, "nobody": 5.0}
    found = sum(counts(1, seed=seed, settings={"mix": mix}) for seed in range(2000))
    # A generator with both tags counts for code, the first in the alphabet.
    assert abs(found[[2, 3, 4]].sum() - 500) < 4 * np.sqrt(2000 * 0.25 * 0.75)
    assert found[5] == 0
    only = counts(10, settings={"mix": mix}, named=NamedTasks(excluded=tasks(0, 1)))
    assert only[[2, 3, 4]].sum() == 10
    nobody = counts(10, settings={"mix": {"nobody": 1.0}})
    assert nobody.sum() == 10


def test_what_can_not_be_drawn_is_refused():
    with pytest.raises(InvalidSelectionError) as told:
        drawn(1, strategy="shuffle")
    assert told.value.flaws[0].what.endswith("for generators take pass, thompson, uniform")
    with pytest.raises(PoolTooSmallError, match="1 tasks tagged math; 0 are available"):
        drawn(1, tags=("math",), named=NamedTasks(excluded=tasks(0, 1, 2)))
    assert len(drawn(1000, pool=replace(POOL, retired=tasks(0))).tasks) == 1000


def test_seeds_follow_from_their_place_alone_and_differ():
    places = [(0, 0, 3, 0), (0, 0, 3, 1), (0, 0, 4, 0), (0, 1, 3, 0), (1, 0, 3, 0)]
    seeds = np.concatenate([seeds_of(LARGEST_COUNT // 5, *place) for place in places])
    assert len(set(seeds.tolist())) == len(seeds)
    assert (seeds >= 0).all()
    assert (seeds < 2**53).all()
    assert seeds_of(7, *places[0]).tolist() == seeds_of(99, *places[0])[:7].tolist()


# --- what reports come to --------------------------------------------------------------------------------------------


def evidence(*pieces):
    of_task, solved, failed = (np.array(column) for column in zip(*pieces, strict=True))
    effective = (solved > 0) & (failed > 0)
    return Evidence(of_task.astype(np.int32), solved.astype(float), failed.astype(float), effective)


# Three groups of generator 1, one of which teaches, and one of generator 4.
GROUPS = evidence((1, 8, 0), (4, 3, 5), (1, 0, 8), (1, 4, 4))


def begun(pool=POOL, **settings) -> RunState:
    return fresh_state(settings_from(settings), pool)


def report_of(pieces=GROUPS, close=None):
    costs = cost_rows(pieces.tasks, np.full((2, len(pieces)), 10.0), np.full(len(pieces), 8.0))
    return Report(pieces, 0, close, costs=costs)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_groups_of_one_generator_count_one_by_one(kind):
    state, receipt = advance(begun(belief=kind), Entry(1, 0, POOL.profiles, report_of()), POOL)
    assert (receipt.tally.reported, receipt.tally.effective) == (4, 2)
    assert (receipt.tally.all_solved, receipt.tally.none_solved) == (1, 1)
    assert (receipt.tally.rollouts, state.rollouts_per_task) == (32.0, 8.0)
    assert (receipt.new_tasks, state.totals.distinct) == (2, 2)
    assert (receipt.costs.tokens.spent, receipt.costs.tokens.effective) == (40.0, 2)
    assert state.attempts.whole.visits.tolist() == [1, 1]
    assert encode_state(decode_state(encode_state(state))) == encode_state(state)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_belief_learns_from_all_rollouts_of_a_generator(kind):
    summed = evidence((1, 12, 12), (4, 3, 5))
    settings = {"belief": kind, "rollouts_per_task": 8}
    apart, _ = advance(begun(**settings), Entry(1, 0, POOL.profiles, report_of()), POOL)
    together, _ = advance(begun(**settings), Entry(1, 0, POOL.profiles, report_of(summed)), POOL)
    for one, other in zip(apart.belief.encoded()[1].values(), together.belief.encoded()[1].values(), strict=True):
        assert one.tobytes() == other.tobytes()


def test_groups_that_wait_are_counted_one_by_one():
    state = begun(tasks_per_step=5)
    state, receipt = advance(state, Entry(1, 0, POOL.profiles, report_of()), POOL)
    assert (receipt.closed, receipt.tally.reported) == (False, 4)
    one_more = report_of(evidence((1, 1, 7)))
    step = lesson_of(state, Entry(2, 0, POOL.profiles, one_more), POOL).step
    assert step is not None
    assert (len(step.groups), len(step.whole)) == (5, 2)
    whole = Entry(2, 0, POOL.profiles, report_of(evidence((1, 1, 7)), close=None))
    assert lesson_of(state, whole, replace(POOL, generators=False)).step is None
    state, receipt = advance(state, Entry(2, 0, POOL.profiles, one_more), POOL)
    assert (receipt.closed, receipt.tally.reported, receipt.tally.effective) == (True, 5, 3)
    (told,) = closed_steps_of([(1, report_of()), (2, one_more)], {2: (1, 5)}, 64, lease_s=3600.0, generators=True)
    assert len(told.evidence) == 5


def test_parts_of_one_seed_are_one_group_and_others_stay_apart():
    pieces = evidence((1, 4, 0), (4, 1, 0), (1, 0, 4), (1, 4, 0), (4, 0, 2), (1, 2, 0))
    found = joined_groups(pieces, [7, 7, 7, None, 7, None])
    assert found.tasks.tolist() == [1, 4, 1, 1]
    assert found.successes.tolist() == [4.0, 1.0, 4.0, 2.0]
    assert found.failures.tolist() == [4.0, 2.0, 0.0, 0.0]
    assert found.effective.tolist() == [True, True, False, False]
