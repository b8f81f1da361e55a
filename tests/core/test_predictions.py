"""Predictions: rounded, part of a pool's profiles, and trusted by the tracker as far as evidence tells."""

from dataclasses import replace

import numpy as np

from bots_service.core.arrays import frozen
from bots_service.core.entries import Entry, Report
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


def test_the_tracker_trusts_good_predictions_and_no_others():
    assert estimates(seen(TRUTH))["prediction_slope_probe"] > 0.7
    assert estimates(seen(1 - TRUTH))["prediction_slope_probe"] < -0.7
    assert abs(estimates(seen(np.random.default_rng(9).permutation(TRUTH)))["prediction_slope_probe"]) < 0.15


def test_before_any_evidence_predictions_change_no_mean():
    pool, own = seen(TRUTH), np.arange(SIZE, dtype=np.int32)
    before, after = [fresh_state(RunSettings(), each).belief.distributions(each, own) for each in (POOL, pool)]
    np.testing.assert_array_equal(before.mean > 0.5, after.mean > 0.5)
    np.testing.assert_allclose(before.quantile(np.full(SIZE, 0.5)), after.quantile(np.full(SIZE, 0.5)), atol=1e-12)


def test_bots_makes_no_use_of_predictions():
    settings, tasks = RunSettings(belief="bots", strategy="thompson"), np.arange(SIZE, dtype=np.int32)
    found = []
    for pool in (POOL, seen(TRUTH)):
        state, rng = fresh_state(settings, pool), np.random.default_rng(1)
        for seq in range(1, 6):
            state, _ = advance(state, Entry(seq, 0, pool.profiles, reported(rng)), pool)
        found.append(state.belief.distributions(pool, tasks).mean)
    np.testing.assert_array_equal(found[0], found[1])
