"""The tracker's filter against the joint Gaussian of one batch, and its kernels against dense ones."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from bots_service.core.belief.tracker import (
    FIRST_VARIANCES,
    Effects,
    LaggedEvidence,
    absorb,
    moments,
    observed,
)
from bots_service.core.pool import Pool
from tests.core.journals import pool_of

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
    batch = LaggedEvidence(phi.T[:-1], solved, failed, lag, residual, variance, tried, np.where(tried, 5.0, 0.0))
    variances = FIRST_VARIANCES

    _, kappa, q = variances.estimates
    moved = lag * (kappa + q * (phi**2 @ effects.drift))
    prior = np.zeros((size + tasks,) * 2)
    prior[:size, :size], prior[size:, size:] = effects.covariance, np.diag(variance)
    sees = np.concatenate([phi, np.eye(tasks)], axis=1)
    before = np.concatenate([effects.mean, residual])
    excess, unsure = observed(sees @ before, np.diag(sees @ prior @ sees.T) + moved, solved, failed)
    gain = prior @ sees.T @ np.linalg.inv(sees @ prior @ sees.T + np.diag(unsure + moved))
    mean, covariance = before + gain @ excess, prior - gain @ sees @ prior

    after, _, means, spreads = absorb(effects, variances, batch)
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
