"""The tracker against golden numbers of four small journals, made by an independent implementation."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from scipy.optimize import brentq

from bots_service.core import arrays as rows
from bots_service.core.belief import tracker as tracker_filter
from bots_service.core.belief.distributions import LogitNormals
from bots_service.core.belief.tracker import (
    FIRST_VARIANCES,
    Effects,
    LaggedEvidence,
    TrackerBelief,
    absorb,
    moments,
    observed,
)
from bots_service.core.evidence import NO_EVIDENCE, ClosingStep, Evidence
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings, settings_from
from bots_service.core.state import RunState, fresh_state, parts_of
from tests.core.journals import Piece, Story, evidence_of, pool_of, replay, report_of, stories, tracker_settings

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "data/tracker_golden.json").read_text())
SETTINGS = RunSettings(belief="tracker")
ROLLOUTS = 16.0

Batch = tuple[int, list[int], list[float], list[float]]  # lag, tasks, successes, failures
Journal = tuple[Pool, Sequence[Sequence[Batch]]]  # for each step, its pieces


def pool_of_profiles(references: Sequence[Sequence[float]], carried: Sequence[int] = ()) -> Pool:
    """Return a pool in which every task is a profile of its own; `carried`: for each, its tags as bits."""
    tasks = np.arange(len(references), dtype=np.int32)
    tags = tuple(f"tag {bit}" for bit in range(max(carried, default=0).bit_length()))
    rates = np.array(references).reshape(len(references), -1)
    return Pool(rates, tasks, offset_tags=tags, carried=np.array(carried, np.uint32))


def folded(pool: Pool, steps: Sequence[Sequence[Batch]], *, trains: bool = True) -> TrackerBelief:
    """Fold steps; `trains`: whether groups that are not all alike have a gradient."""
    belief = TrackerBelief.fresh(SETTINGS, pool)
    for number, pieces in enumerate(steps, start=1):
        batches = tuple((lag, evidence(tasks, solved, failed, trains)) for lag, tasks, solved, failed in pieces)
        belief, _ = belief.fold(pool, ClosingStep(number, batches, NO_EVIDENCE, ROLLOUTS), SETTINGS)
    return belief


def evidence(tasks: list[int], solved: list[float], failed: list[float], trains: bool) -> Evidence:
    successes, failures = np.array(solved, float), np.array(failed, float)
    effective = trains & (successes > 0) & (failures > 0)
    return Evidence(np.array(tasks, np.int32), successes, failures, effective)


# Two references, evidence on time, success rates of exactly 0 and 1.
ON_TIME: Journal = (
    pool_of_profiles([(0, 0.25), (0.25, 0.75), (0.5, 1), (0.0625, 0.125), (0.25, 0.75), (1, 1)]),
    [
        [(0, [0, 1, 2], [3, 9, 16], [13, 7, 0])],
        [(0, [1, 3, 4], [10, 0, 7], [6, 16, 9])],
        [(0, [1, 2, 5], [12, 15, 16], [4, 1, 0])],
    ],
)
# No references; 1, 4 and 512 rollouts; fractional rewards; an empty step; a batch that comes two steps late.
LATE: Journal = (
    pool_of_profiles([(), (), (), (), ()]),
    [
        [(0, [0, 1], [1, 0], [0, 1])],
        [(0, [0, 2], [300.5, 1.25], [211.5, 2.75])],
        [],
        [(2, [1, 3], [8, 4], [8, 12]), (0, [0, 4], [512, 0], [0, 512])],
    ],
)
# One reference, unknown for task 2; two tags; task 0 solved 512 of 512 times in each of 60 steps.
TAGGED: Journal = (
    pool_of_profiles([(0.5,), (0.875,), (math.nan,), (0.0625,), (0.3,)], carried=(0b01, 0b01, 0b10, 0b10, 0b11)),
    [
        [(0, [0, 2], [8, 3], [8, 13])],
        [(0, [1, 3], [16, 2], [0, 14])],
        [(0, [2, 4], [5, 6], [11, 10])],
        *[[(0, [0], [512.0], [0.0])]] * 60,
    ],
)
# Tasks that come back, with and without a gradient; some two steps late.
RETURNING: Journal = (
    pool_of_profiles([(0.25, 0.5), (0.5, 0.75), (0.1, 0.9), (0, 0.5), (0.75, 1), (0.4, 0.4)]),
    [
        [(0, [0, 1, 2], [4, 8, 12], [12, 8, 4])],
        [(0, [0, 3], [7, 0], [9, 16])],
        [(0, [1, 2, 3], [12, 16, 1], [4, 0, 15])],
        [],
        [(2, [0, 4], [11, 15], [5, 1]), (0, [1, 2, 5], [15, 13, 6], [1, 3, 10])],
        [(0, [0, 1, 3], [16, 16, 5], [0, 0, 11])],
        [(0, [0, 1, 2, 3], [14, 15, 14, 8], [2, 1, 2, 8])],
    ],
)
JOURNALS = {"on time": ON_TIME, "late": LATE, "tagged": TAGGED, "returning": RETURNING}


@pytest.mark.parametrize("case", list(GOLDEN))
def test_the_golden_numbers_come_out(case: str):
    """Those where nothing is trained are the numbers of a tracker that knows of no practice."""
    journal, _, untrained = case.partition(", ")
    pool, steps = JOURNALS[journal]
    belief = folded(pool, steps, trains=not untrained)
    rows = belief.residuals.whole
    distributions = belief.distributions(pool, np.arange(len(pool), dtype=np.int32))
    tau2, kappa, pi, q = belief.variances.estimates
    with_practice = np.delete(np.arange(len(belief.effects.mean)), -2 if untrained else [])
    found = {
        "step": belief.step,
        "b": belief.effects.mean[with_practice],
        "P_diagonal": np.diag(belief.effects.covariance)[with_practice],
        "P_0_last": belief.effects.covariance[0, -1],
        "tau2": tau2,
        "kappa": kappa,
        "q": q,
        "pi": pi,
        "practised": rows.practised,
        "tasks": rows.tasks,
        "last": rows.last_step,
        "r": rows.mean,
        "v": rows.variance,
        "theta_mean": distributions.location,
        "theta_variance": distributions.variance,
        "mean": distributions.mean,
        "effective_16": distributions.effective(ROLLOUTS),
    }
    assert found.keys() - GOLDEN[case].keys() == ({"pi", "practised"} if untrained else set())
    for name, wanted in GOLDEN[case].items():
        np.testing.assert_allclose(found[name], wanted, rtol=1e-9, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("tasks", [1, 2, 3, 7, 40])
def test_what_is_said_of_a_task_has_the_same_bits_however_many_profiles_there_are(tasks: int):
    rng = np.random.default_rng(tasks)
    rates = rng.random((300, 3))
    belief = folded(Pool.of_tasks(rates[:40]), [[(0, [0, 1, 2, 3, 4], [3, 9, 16, 0, 5], [13, 7, 0, 16, 11])]] * 3)
    asked = np.arange(tasks, dtype=np.int32)
    small, large = (belief.distributions(Pool.of_tasks(rates[:size]), asked).mean for size in (40, 300))
    among_all = belief.profile_distributions(Pool.of_tasks(rates)).mean[5:tasks]
    np.testing.assert_array_equal(small, large)
    np.testing.assert_array_equal(small[5:], among_all)


# --- what the tracker learns: how tasks differ, how fast they change, which way the model moves ----------------------

POOL = pool_of(*[(0.25, 0.75)] * 40, (0.5, 0.5))
TRIALS = 64.0
ALL = np.arange(len(POOL), dtype=np.int32)


def tracker(state: RunState) -> TrackerBelief:
    assert isinstance(state.belief, TrackerBelief)
    return state.belief


def told(state: RunState, *tasks: int) -> LogitNormals:
    return tracker(state).distributions(POOL, np.array(tasks, np.int32))


def solved(tasks: range, rates: list[float]) -> list[Piece]:
    """Every task solved at the rate whose turn it is."""
    return [
        (task, rates[turn % len(rates)] * TRIALS, TRIALS - rates[turn % len(rates)] * TRIALS)
        for turn, task in enumerate(tasks)
    ]


def test_a_model_that_improves_is_expected_to_improve_while_nothing_is_reported():
    rising = [report_of(*solved(range(step, 40, 8), [0.1 + 0.02 * step])) for step in range(40)]
    state = replay(POOL, rising, SETTINGS)
    later = replay(POOL, [report_of(close=True)] * 10, SETTINGS, state)
    assert tracker(state).effects.mean[-1] > 0
    assert (told(later, 0, 40).location > told(state, 0, 40).location).all()
    assert (told(later, 0, 40).variance > told(state, 0, 40).variance).all()


def test_what_trained_tasks_gain_is_not_taken_for_a_gain_of_all():
    """The same rollouts, of tasks that improve as they come back: with a gradient, and as if nobody trained on them."""
    steps = [[(0, [0, 1, 2, 3], [2.0 + step] * 4, [14.0 - step] * 4)] for step in range(12)]
    beliefs = [folded(POOL, steps, trains=trains) for trains in (True, False)]
    slope, none = (belief.estimates(POOL)["practice_slope"] for belief in beliefs)
    assert slope > 0.2
    assert none == 0
    trained, untrained = (belief.distributions(POOL, ALL).location for belief in beliefs)
    assert trained[0] == pytest.approx(untrained[0], abs=0.3)
    assert trained[20] < untrained[20] - 0.2  # a task that was never tried


def test_what_is_known_of_a_task_is_less_certain_with_each_step_and_never_as_if_it_was_never_tried():
    state = replay(POOL, [report_of((0, 8.0, 8.0))], SETTINGS)
    variances = []
    for _ in range(5):
        variances.append(float(told(state, 0).variance[0]))
        state = replay(POOL, [report_of(close=True)], SETTINGS, state)
    assert variances == sorted(set(variances))
    assert tracker(state).own_tasks.tolist() == [0]


@pytest.mark.parametrize("lag", [1, 64, 65, 500])
def test_evidence_counts_however_late_it_comes(lag: int):
    state = replay(POOL, [report_of((1, 8.0, 8.0)), *[report_of(close=True)] * lag], SETTINGS)
    late = replay(POOL, [report_of((0, 16.0, 0.0), made_at=state.step - lag)], SETTINGS, state)
    without = replay(POOL, [report_of(close=True)], SETTINGS, state)
    assert (late.totals.late, late.totals.expired) == (1, 0)
    assert told(late, 0).location > told(without, 0).location
    assert told(late, 0).variance < told(without, 0).variance


def test_how_many_rollouts_an_implied_observation_stands_for_changes_nothing():
    bodies = [report_of((0, 3.0, 1.0), (40, 1.0, 9.0)), report_of((1, 4.0, 0.0), made_at=0)]
    one = tracker(replay(POOL, bodies, SETTINGS))
    other = tracker(replay(POOL, bodies, structs.replace(SETTINGS, rollouts_per_task=1.0)))
    pairs = zip(parts_of(one), parts_of(other), strict=True)
    assert all(np.array_equal(part, another) for part, another in pairs if isinstance(part, np.ndarray))


@pytest.mark.parametrize("rollouts", [1e6, 1e12, 1e15])
@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_a_step_may_bring_more_rollouts_of_a_task_than_any_reports_could(rollouts: float, rate: float):
    state = fresh_state(SETTINGS, POOL)
    evidence = evidence_of((0, rate * rollouts, rollouts - rate * rollouts), (40, rollouts, 0.0))
    belief = tracker(state)
    for number in range(1, 6):
        belief, _ = belief.fold(POOL, ClosingStep(number, ((0, evidence),), evidence, rollouts), SETTINGS)
    assert np.isfinite(belief.effects.covariance).all()
    mean = belief.distributions(POOL, ALL).mean
    assert mean[0] == pytest.approx(rate, abs=0.02)
    assert mean[40] > 0.98


@given(stories(settings=tracker_settings))
def test_where_rows_stand_changes_nothing_that_is_believed(story: Story):
    """A tracker with many tried tasks keeps most of their rows in a table that is rarely copied."""
    together = tracker(story.replayed()[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "FEW_ROWS", 1)
        apart = tracker(story.replayed()[0])
    assert len(apart.residuals.recent) <= 1
    for one, other in zip(together.residuals.whole, apart.residuals.whole, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(together.effects.mean, apart.effects.mean)
    np.testing.assert_array_equal(together.effects.covariance, apart.effects.covariance)
    tasks = np.arange(len(story.pool), dtype=np.int32)
    told, wanted = (one.distributions(story.pool, tasks) for one in (apart, together))
    np.testing.assert_array_equal(told.location, wanted.location)
    np.testing.assert_array_equal(told.variance, wanted.variance)


def test_a_search_for_a_mode_that_is_cut_short_still_gives_moments(monkeypatch):
    prior, counts = (np.zeros(2), np.array([1.0, 4.0])), (np.array([3.0, 0.0]), np.array([500.0, 2.0]))
    mean, variance = moments(*prior, *counts)
    monkeypatch.setattr(tracker_filter, "FREE_STEPS", 1)
    monkeypatch.setattr(tracker_filter, "HELD_STEPS", 1)
    cut_mean, cut_variance = moments(*prior, *counts)
    np.testing.assert_allclose(cut_mean, mean, atol=0.01)
    np.testing.assert_allclose(cut_variance, variance, rtol=0.05)


# --- the tracker's filter against the joint Gaussian of one batch, and its kernels against dense ones ----------------

NODES_15, WEIGHTS_15 = np.polynomial.hermite_e.hermegauss(15)


def features(pool: Pool, task: int, lag: int = 0) -> np.ndarray:
    """Return what multiplies the effects: 1, logits of the pass rates, whether any is unknown, tags, the velocity."""
    profile = int(pool.profile_of[task])
    row = pool.references[profile].tolist()
    unknown = any(map(math.isnan, row))
    logits = [0.0 if unknown else math.log((16 * rate + 0.5) / (16 * (1 - rate) + 0.5)) for rate in row]
    carried = int(pool.carried[profile]) if pool.offset_tags else 0
    tags = [float(carried >> bit & 1) for bit in range(len(pool.offset_tags))]
    return np.array([1.0, *logits, float(unknown), *tags, -float(lag)])


def log_sigmoid(x: float) -> float:
    return -math.log1p(math.exp(-x)) if x > 0 else x - math.log1p(math.exp(x))


def plain_moments(mean: float, variance: float, successes: float, failures: float) -> tuple[float, float]:
    """Return mean and variance of N(mean, variance) sigmoid^s (1 - sigmoid)^f: 15 Gauss-Hermite nodes at the mode."""
    trials = successes + failures

    def slope(x: float) -> float:
        return successes - trials * math.exp(log_sigmoid(x)) - (x - mean) / variance

    low, high = mean - variance * failures, mean + variance * successes
    mode = brentq(slope, low - 1e-9, high + 1e-9, xtol=1e-13, rtol=1e-14)
    p = math.exp(log_sigmoid(mode))
    width = 1 / math.sqrt(trials * p * (1 - p) + 1 / variance)
    at = [mode + width * node for node in NODES_15]
    logs = [
        successes * log_sigmoid(x) + failures * log_sigmoid(-x) - (x - mean) ** 2 / (2 * variance) + node**2 / 2
        for x, node in zip(at, NODES_15, strict=True)
    ]
    weights = [weight * math.exp(each - max(logs)) for weight, each in zip(WEIGHTS_15, logs, strict=True)]
    total = math.fsum(weights)
    centre = math.fsum(weight * x for weight, x in zip(weights, at, strict=True)) / total
    return centre, math.fsum(weight * (x - centre) ** 2 for weight, x in zip(weights, at, strict=True)) / total


@pytest.mark.parametrize("lag", [0, 3])
@pytest.mark.parametrize("models", [0, 1, 3])
@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_a_batch_leaves_the_joint_gaussian_posterior_of_its_observations(models: int, lag: int, seed: int):
    rng, tasks = np.random.default_rng(seed), 7
    pool = pool_of(*rng.integers(0, 17, (tasks, models)) / 16, carried=rng.integers(0, 4, tasks).tolist())
    phi = np.array([features(pool, task, lag) for task in range(tasks)])
    size = phi.shape[1]
    root = rng.normal(size=(size, size))
    effects = Effects(rng.normal(size=(size,)), root @ root.T + 0.1 * np.eye(size), rng.random((size,)))
    residual, variance = rng.normal(size=tasks), rng.uniform(0.01, 4, tasks)
    solved, failed = rng.integers(0, 17, (2, tasks)) + 0.5
    tried = rng.random(tasks) < 0.5
    age = np.where(tried, 5.0, 0.0)
    batch = LaggedEvidence(phi.T[:-1], solved, failed, lag, residual, variance, tried, age, tried & (residual > 0))
    variances = FIRST_VARIANCES

    _, kappa, _, q = variances.estimates
    moved = lag * (kappa + q * (phi**2 @ effects.drift))
    prior = np.zeros((size + tasks,) * 2)
    prior[:size, :size], prior[size:, size:] = effects.covariance, np.diag(variance)
    sees = np.concatenate([phi, np.eye(tasks)], axis=1)
    before = np.concatenate([effects.mean, residual])
    excess, unsure = observed(sees @ before, np.diag(sees @ prior @ sees.T) + moved, solved, failed)
    gain = prior @ sees.T @ np.linalg.inv(sees @ prior @ sees.T + np.diag(unsure + moved))
    mean, covariance = before + gain @ excess, prior - gain @ sees @ prior

    after, _, means, spreads, _ = absorb(effects, variances, batch)
    found = [*after.mean, *means, *after.covariance.ravel(), *spreads]
    wanted = [*mean, *covariance[:size, :size].ravel(), *np.diag(covariance)[size:]]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * np.abs(prior).max())


def dense_moments(mean: float, variance: float, solved: float, failed: float) -> tuple[float, float]:
    """By thousands of points where the density counts, which is found with a coarser look."""

    def log_density(x: np.ndarray) -> np.ndarray:
        return solved * x - (solved + failed) * np.logaddexp(0, x) - (x - mean) ** 2 / (2 * variance)

    x = np.linspace(-110, 110, 20_001)  # 12 standard deviations of the widest prior
    within = x[log_density(x) > log_density(x).max() - 45]
    x = np.linspace(within[0], within[-1], 4001)
    weights = np.exp(log_density(x) - log_density(x).max())
    centre = float(np.average(x, weights=weights))
    return centre, float(np.average((x - centre) ** 2, weights=weights))


@pytest.mark.parametrize(("variance", "error"), [(0.001, 2e-3), (0.1, 2e-3), (1.0, 2e-3), (4.0, 2e-3), (64.0, 0.07)])
@pytest.mark.parametrize("mean", [-8.0, -2.0, 0.0, 3.0])
def test_moments_are_those_of_dense_quadrature(mean: float, variance: float, error: float):
    shares = (0.0, 0.02, 0.5, 0.95, 1.0)
    counts = [
        (share * trials, trials - share * trials) for trials in (1.0, 4.0, 16.0, 128.0, 512.0) for share in shares
    ]
    solved, failed = np.array(counts).T
    same = np.ones(len(counts))
    centre, spread = moments(mean * same, variance * same, solved, failed)
    dense = np.array([dense_moments(mean, variance, *count) for count in counts])
    np.testing.assert_allclose(spread, dense[:, 1], rtol=error)
    assert (np.abs(centre - dense[:, 0]) <= error * np.sqrt(dense[:, 1])).all()


@pytest.mark.parametrize("variance", [4.0, 64.0, 1e3, 1e5, 1e7])
@pytest.mark.parametrize("mean", [-40.0, -7.0, 0.0, 30.0])
def test_moments_are_those_around_the_mode_however_far_the_search_for_it(mean: float, variance: float):
    counts = [(0.0, 1.0), (1.0, 0.0), (3.5, 12.5), (512.0, 0.0)]
    found = moments(np.full(4, mean), np.full(4, variance), *np.array(counts).T)
    wanted = [plain_moments(mean, variance, *count) for count in counts]
    np.testing.assert_allclose(found, np.array(wanted).T, rtol=1e-6)


# --- what each kind of belief estimates about the model in training, by name -----------------------------------------

PAIR = pool_of((0.25, 0.75), (0.5, 0.875))
REPORTS = [report_of((0, 3.0, 13.0)), report_of((1, 9.0, 7.0))]


def test_bots_estimates_the_capability_once_a_step_has_closed():
    before, after = (replay(PAIR, reports, settings_from({"belief": "bots"})).belief for reports in ([], REPORTS))
    assert before.estimates(PAIR) == {}
    assert after.estimates(PAIR) == {"capability": after.capability}


@pytest.mark.parametrize("reports", [[], REPORTS], ids=["at first", "after two steps"])
def test_the_tracker_names_each_effect_and_each_learned_variance(reports):
    carried = np.array([1, 2], np.uint32)
    pool = Pool(PAIR.references, PAIR.profile_of, offset_tags=("unknown", "math"), carried=carried)
    belief = replay(pool, reports, settings_from({"belief": "tracker"})).belief
    assert isinstance(belief, TrackerBelief)
    ability, weak, strong, unknown, of_unknown, of_math, practice, velocity = belief.effects.mean.tolist()
    untried, residual, visit, drift = belief.variances.estimates
    assert belief.estimates(pool) == {
        "ability": ability,
        "slope_1": weak,
        "slope_2": strong,
        "unknown_offset": unknown,
        "tag_offset_unknown": of_unknown,  # of a tag of this name
        "tag_offset_math": of_math,
        "practice_slope": practice,
        "velocity": velocity,
        "untried_variance": untried,
        "residual_drift": residual,
        "ability_drift": drift,
        "visit_variance": visit,
    }
