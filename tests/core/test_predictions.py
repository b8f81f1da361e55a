"""Predictions: rounded, part of a pool's profiles, and trusted by the tracker as far as evidence tells."""

from dataclasses import replace

import numpy as np
import pytest

from bots_service.core.arrays import frozen
from bots_service.core.beginnings import Refold
from bots_service.core.belief.protocol import PoolSize
from bots_service.core.comparison.candidates import Candidate, candidates_for, view
from bots_service.core.comparison.messages import pack_pool, unpack_pool
from bots_service.core.entries import Body, Entry, Report
from bots_service.core.evidence import Evidence
from bots_service.core.pool import Pool
from bots_service.core.predictions import MOST_PROFILES, PARTS, UNKNOWN, Predictions, rounded, seen_with
from bots_service.core.run_settings import RunSettings
from bots_service.core.state import advance, fresh_state

SIZE = 400
RNG = np.random.default_rng(5)
TRUTH = RNG.random(SIZE)
REFERENCES = np.round(RNG.random((SIZE, 1)) * 16) / 16
TAGS = {"even": np.arange(0, SIZE, 2, dtype=np.int32)}
POOL = Pool.of_tasks(REFERENCES, TAGS, ("even",))


def seen(rates: np.ndarray, pool: Pool = POOL) -> Pool:
    return seen_with(pool, [rounded("probe", rates, pool, [])])


def reported(rng: np.random.Generator, success: np.ndarray = TRUTH) -> Report:
    tasks = np.sort(rng.choice(SIZE, 32, replace=False)).astype(np.int32)
    solved = rng.binomial(16, success[tasks]).astype(float)
    effective = (solved > 0) & (solved < 16)
    return Report(Evidence(*map(frozen, (tasks, solved, 16.0 - solved, effective))), None, None)


def estimates(pool: Pool, steps: int = 20) -> dict[str, float]:
    state, rng = fresh_state(RunSettings(), pool), np.random.default_rng(1)
    for seq in range(1, steps + 1):
        state, _ = advance(state, Entry(seq, 0, pool.profiles, reported(rng)), pool)
    return state.belief.estimates(pool)


def test_each_task_keeps_its_rates_tags_and_prediction_in_its_profile():
    rates = np.where(np.arange(SIZE) < 300, TRUTH, np.nan)
    pool = seen(rates)
    np.testing.assert_array_equal(pool.references[pool.profile_of], REFERENCES)
    np.testing.assert_array_equal(pool.carried[pool.profile_of], np.arange(SIZE) % 2 == 0)
    np.testing.assert_array_equal(pool.predictions[pool.profile_of, 0], np.rint(rates * 16) / 16)
    rows = {(*REFERENCES[task], task % 2, np.nan_to_num(np.rint(rates[task] * 16), nan=-1)) for task in range(SIZE)}
    assert pool.profiles == len(rows)


def test_profiles_are_numbered_by_their_first_task_so_that_appended_tasks_renumber_nothing():
    whole, column = seen(TRUTH), rounded("probe", TRUTH, POOL, [])
    tags = {"even": np.arange(0, 100, 2, dtype=np.int32)}
    part = seen_with(Pool.of_tasks(REFERENCES[:100], tags, ("even",)), [replace(column, levels=column.levels[:100])])
    np.testing.assert_array_equal(whole.profile_of[:100], part.profile_of)


def test_without_predictions_a_pool_stays_as_it_is():
    assert seen_with(POOL, []) is POOL


def test_features_tell_the_logit_of_a_prediction_and_whether_it_is_unknown():
    pool = seen(np.where(np.arange(SIZE) < 300, TRUTH, np.nan))
    slope, unknown = pool.features[-2:, pool.profile_of]
    counted = (16 * np.rint(TRUTH * 16) / 16 + 0.5) / 17
    np.testing.assert_allclose(slope[:300], np.log(counted / (1 - counted))[:300], atol=1e-12)
    assert not slope[300:].any()
    np.testing.assert_array_equal(unknown, np.arange(SIZE) >= 300)


def test_predictions_are_rounded_more_coarsely_where_there_would_be_too_many_profiles():
    size = 40 * MOST_PROFILES
    many = Pool.of_tasks(np.round(np.random.default_rng(2).random((size, 1)) * 600) / 600)
    rates = np.random.default_rng(3).random(size)
    column = rounded("probe", rates, many, [])
    assert column.parts == next(parts for parts in PARTS if 601 * (parts + 1) <= MOST_PROFILES)
    assert seen_with(many, [column]).profiles <= MOST_PROFILES


def test_the_coarsest_predictions_are_taken_whatever_the_number_of_profiles():
    pool = Pool.of_tasks(np.arange(3 * MOST_PROFILES, dtype=float)[:, None] // 3 / MOST_PROFILES)
    column = rounded("probe", np.tile([0.0, 0.5, 1.0], MOST_PROFILES), pool, [])
    assert column.parts == PARTS[-1]


def test_facts_of_predictions_count_only_known_ones():
    column = Predictions("probe", 4, np.array([0, UNKNOWN, 4, 2], np.uint8))
    assert (column.known, column.mean) == (3, 0.5)
    np.testing.assert_array_equal(column.rates(5), [0.0, np.nan, 1.0, 0.5, np.nan])
    assert column.digest != replace(column, parts=8).digest
    assert column.digest == replace(column, name="other").digest
    assert column.key == ("probe", column.digest)


@pytest.mark.parametrize(
    ("parts", "levels"), [(3, [1]), (4, [5]), (4, [UNKNOWN]), (4, [1, 1, 1])], ids=["parts", "level", "none", "size"]
)
def test_predictions_that_cannot_be_are_told(parts: int, levels: list[int]):
    assert Predictions("probe", 4, np.array([1, UNKNOWN], np.uint8)).are_possible(2)
    assert not Predictions("probe", parts, np.array(levels, np.uint8)).are_possible(2)


def test_the_tracker_trusts_good_predictions_and_no_others():
    assert estimates(seen(TRUTH))["prediction_slope_probe"] > 0.7
    assert estimates(seen(1 - TRUTH))["prediction_slope_probe"] < -0.7
    assert abs(estimates(seen(np.random.default_rng(9).permutation(TRUTH)))["prediction_slope_probe"]) < 0.15


def test_before_any_evidence_predictions_change_no_mean():
    pool, own = seen(TRUTH), np.arange(SIZE, dtype=np.int32)
    before, after = [fresh_state(RunSettings(), each).belief.distributions(each, own) for each in (POOL, pool)]
    np.testing.assert_array_equal(before.mean > 0.5, after.mean > 0.5)
    np.testing.assert_allclose(before.quantile(np.full(SIZE, 0.5)), after.quantile(np.full(SIZE, 0.5)), atol=1e-12)


def test_a_belief_with_predictions_is_possible_with_so_many_only():
    pool = seen(TRUTH)
    belief, settings = fresh_state(RunSettings(), pool).belief, RunSettings()
    sizes = [PoolSize(SIZE, pool.profiles, 1, 1, predictions) for predictions in (0, 1, 2)]
    assert [belief.is_possible(settings, 0, size) for size in sizes] == [False, True, False]


def test_bots_makes_no_use_of_predictions():
    settings, tasks = RunSettings(belief="bots", strategy="thompson"), np.arange(SIZE, dtype=np.int32)
    found = []
    for pool in (POOL, seen(TRUTH)):
        state, rng = fresh_state(settings, pool), np.random.default_rng(1)
        for seq in range(1, 6):
            state, _ = advance(state, Entry(seq, 0, pool.profiles, reported(rng)), pool)
        found.append(state.belief.distributions(pool, tasks).mean)
    np.testing.assert_array_equal(found[0], found[1])


def test_a_journal_refolded_with_predictions_is_the_one_that_had_them_from_the_start():
    pool, rng = seen(TRUTH), np.random.default_rng(3)
    bodies: list[Body] = [reported(rng) for _ in range(6)]
    for settings in (RunSettings(), RunSettings(belief="bots", strategy="thompson")):
        fold = Refold.of(fresh_state(RunSettings(), POOL), settings, pool)
        fold = fold.with_entries([Entry(seq, 0, POOL.profiles, body) for seq, body in enumerate(bodies, 1)], POOL)
        direct = fresh_state(settings, pool)
        for seq, body in enumerate(bodies, 1):
            direct, _ = advance(direct, Entry(seq, 0, pool.profiles, body), pool)
        assert fold.begin().belief.encoded()[0] == direct.belief.encoded()[0]
        for name, array in fold.begin().belief.encoded()[1].items():
            np.testing.assert_array_equal(array, direct.belief.encoded()[1][name])


def test_a_candidate_without_predictions_sees_the_pool_that_has_none():
    pool = seen(TRUTH)
    names = {each.name: each for each in candidates_for(RunSettings(), pool)}
    hidden = view(pool, names["tracker without predictions"])
    np.testing.assert_array_equal(hidden.pool.features, POOL.features)
    np.testing.assert_array_equal(hidden.pool.profile_of, POOL.profile_of)
    kept = view(pool, Candidate("tracker", RunSettings(), references=False)).pool
    np.testing.assert_array_equal(kept.predictions[kept.profile_of], pool.predictions[pool.profile_of])
    assert "tracker without predictions" not in [each.name for each in candidates_for(RunSettings(), POOL)]


def test_a_pool_with_predictions_reaches_the_process_that_compares():
    pool = seen(TRUTH)
    np.testing.assert_array_equal(unpack_pool(pack_pool(pool)).features, pool.features)
