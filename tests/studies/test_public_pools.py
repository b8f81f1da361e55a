"""The public pools are what was measured, and each case changes what it says."""

import numpy as np
import pytest

from bots_service.demo.recording import STEPS
from bots_service.demo.recording import recorded_run as read_recording
from studies.environment import batch_of
from studies.public_pools import (
    LADDER,
    MODEL_CASES,
    POOLS,
    REFERENCE_CASES,
    SHIFT,
    Replayed,
    collapsing,
    inverted,
    permuted,
    reasoning_gym,
    reasoning_rates,
    recorded_run,
    scaled,
    shifted,
    static,
    sudden,
    with_one_reference,
    without_references,
)

SHAPES = {"recorded run": (500, 678), "reasoning gym": (400, 4490)}


@pytest.fixture(scope="module", params=list(POOLS))
def pool(request):
    return POOLS[request.param]()


@pytest.mark.parametrize("name", list(POOLS))
def test_a_pool_has_probabilities_for_each_step_and_task(name):
    pool = POOLS[name]()
    assert pool.success.shape == SHAPES[name]
    assert pool.references.shape == (SHAPES[name][1], len(pool.reference_models))
    for rates in (pool.success, pool.references):
        assert rates.min() >= 0
        assert rates.max() <= 1


def test_the_recorded_run_follows_five_visits():
    recording = read_recording().with_both_references()
    problem = int(np.flatnonzero(recording.visits == 50)[0])  # so that the middle of visit j is step 10 j + 5
    shares = np.diff(recording.solved[problem]) / recording.rollouts_per_visit
    success = recorded_run().success[:, problem]
    assert success[205] == pytest.approx(shares[18:23].mean())
    assert success[200] == pytest.approx((shares[17:22].mean() + shares[18:23].mean()) / 2)
    assert success[0] == pytest.approx((3 * shares[0] + shares[1] + shares[2]) / 5)  # before the first: as the first


def test_the_recorded_runs_weak_reference_is_its_first_two_visits():
    recording = read_recording().with_both_references()
    pool = recorded_run()
    assert len(pool.success) == STEPS
    assert pool.references[:, 0] == pytest.approx(recording.solved[:, 2] / 16)
    assert pool.references[:, 1].tolist() == recording.strong.tolist()


def test_reasoning_gyms_model_climbs_from_model_to_model():
    success = reasoning_gym().success
    means = success.mean(axis=1)
    assert np.all(np.diff(means) > 0)
    assert (means[0], means[-1]) == pytest.approx((0.268, 0.725), abs=5e-4)  # as published of the first and the last
    assert success[[0, -1]] * 3 == pytest.approx(np.rint(success[[0, -1]] * 3))  # of three attempts
    step = (len(success) - 1) / (len(LADDER) - 1)  # at which the model is as its second rung
    assert means[99] < np.interp(step, np.arange(len(means)), means) < means[100]


def test_cases_of_references_leave_the_model_alone(pool):
    for case in (permuted, inverted, shifted, scaled, without_references, with_one_reference):
        assert case(pool).success is pool.success


def test_permuted_references_are_the_same_ones_of_other_tasks(pool):
    found = permuted(pool).references
    assert sorted(found.tolist()) == sorted(pool.references.tolist())
    assert abs(np.corrcoef(found[:, 1], pool.success[0])[0, 1]) < 0.1


def test_references_are_inverted_shifted_and_scaled(pool):
    assert inverted(pool).references == pytest.approx(1 - pool.references)
    assert shifted(pool).references == pytest.approx(np.clip(pool.references + SHIFT, 0, 1))
    assert scaled(pool).references == pytest.approx(pool.references / 2)


def test_references_are_dropped_with_their_names(pool):
    bare, one = without_references(pool), with_one_reference(pool)
    assert (bare.references.shape, bare.reference_models) == ((len(pool.references), 0), ())
    assert one.references[:, 0].tolist() == pool.references[:, 1].tolist()
    assert one.reference_models == pool.reference_models[1:]


def test_cases_of_the_model_leave_references_alone(pool):
    for case in (static, sudden, collapsing):
        assert case(pool).references is pool.references
        assert case(pool).success.shape == pool.success.shape


def test_a_model_stays_jumps_or_falls_back(pool):
    half = len(pool.success) // 2
    start, end = pool.success[0], pool.success[-1]
    assert np.all(static(pool).success == start)
    assert np.all(sudden(pool).success[:half] == start)
    assert np.all(sudden(pool).success[half:] == end)
    assert np.all(collapsing(pool).success[:half] == pool.success[:half])
    assert np.all(collapsing(pool).success[half:] == start)


@pytest.mark.parametrize("case", list(REFERENCE_CASES | MODEL_CASES))
def test_every_case_has_probabilities_for_each_task(pool, case):
    varied = (REFERENCE_CASES | MODEL_CASES)[case](pool)
    assert varied.references.shape == (len(pool.references), len(varied.reference_models))
    assert varied.success.shape == pool.success.shape
    for rates in (varied.success, varied.references):
        assert rates.min(initial=0) >= 0
        assert rates.max(initial=0) <= 1


def test_a_replayed_pool_moves_on_whatever_is_trained_on(pool):
    environment = Replayed(pool)
    nothing = batch_of(np.empty(0, np.int32), np.empty(0), np.empty(0), np.empty(0, bool))
    for success in pool.success[:3]:
        assert environment.success().tolist() == success.tolist()
        environment.train(nothing)
    for _ in range(len(pool.success)):
        environment.train(nothing)
    assert environment.success().tolist() == pool.success[-1].tolist()


def test_a_tag_is_a_domain_of_reasoning_gym():
    pool = reasoning_gym()
    assert pool.tags is not None
    assert np.bincount(pool.tags).min() == 50
    assert len(np.unique(pool.tags)) == 11
    assert recorded_run().tags is None


def test_rates_of_nine_models_are_shares_of_their_attempts():
    rates = reasoning_rates()
    assert len(rates) == 9
    for model, of_tasks in rates.items():
        attempts = 1 if model == "llama-4-scout" else 3
        assert of_tasks * attempts == pytest.approx(np.rint(of_tasks * attempts))
    # As the source publishes them.
    means = [rates[model].mean() for model in ("llama-4-scout", "o3-mini", "claude-sonnet-4")]
    assert means == pytest.approx([0.401, 0.809, 0.668], abs=5e-4)
