"""The tracker's filter written slowly and plainly: one dense Gaussian over effects and residuals for each batch."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from bots_service.core.belief.tracker import TrackerBelief
from bots_service.core.pool import Pool
from bots_service.core.state import RunState
from tests.core.journals import DenseRun, Piece

Vector = NDArray[np.float64]

UNTRIED = [2.0**power for power in range(-4, 5)]
RESIDUAL_DRIFTS = [2.0**power for power in range(-16, 1, 2)]
ABILITY_DRIFTS = [2.0**power for power in range(-16, -1, 2)]
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(15)


def features(pool: Pool, task: int, lag: int = 0) -> Vector:
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


def moments(mean: float, variance: float, successes: float, failures: float) -> tuple[float, float]:
    """Return mean and variance of N(mean, variance) sigmoid^s (1 - sigmoid)^f: 15 Gauss-Hermite nodes at the mode."""
    trials = successes + failures

    def slope(x: float) -> float:
        return successes - trials * math.exp(log_sigmoid(x)) - (x - mean) / variance

    low, high = mean - variance * failures, mean + variance * successes
    mode = brentq(slope, low - 1e-9, high + 1e-9, xtol=1e-13, rtol=1e-14)
    p = math.exp(log_sigmoid(mode))
    width = 1 / math.sqrt(trials * p * (1 - p) + 1 / variance)
    at = [mode + width * node for node in NODES]
    logs = [
        successes * log_sigmoid(x) + failures * log_sigmoid(-x) - (x - mean) ** 2 / (2 * variance) + node**2 / 2
        for x, node in zip(at, NODES, strict=True)
    ]
    weights = [weight * math.exp(each - max(logs)) for weight, each in zip(WEIGHTS, logs, strict=True)]
    total = math.fsum(weights)
    centre = math.fsum(weight * x for weight, x in zip(weights, at, strict=True)) / total
    return centre, math.fsum(weight * (x - centre) ** 2 for weight, x in zip(weights, at, strict=True)) / total


class Residual(NamedTuple):
    """N(mean, variance) of a task's residual as of a step."""

    mean: float
    variance: float
    step: int


def estimate(log_weights: list[float], grid: list[float]) -> float:
    weights = [math.exp(each - max(log_weights)) for each in log_weights]
    return math.fsum(weight * x for weight, x in zip(weights, grid, strict=True)) / math.fsum(weights)


def prior_weights(grid: list[float]) -> list[float]:
    return [-0.5 * ((place - 4) / 2) ** 2 for place in range(len(grid))]


@dataclass
class SlowTracker(DenseRun):
    """A run whose belief is the tracker's; `DenseRun` knows which evidence a step closes with."""

    mean: Vector = field(init=False)
    covariance: Vector = field(init=False)
    drift: Vector = field(init=False)
    residuals: dict[int, Residual] = field(default_factory=dict)
    untried: list[float] = field(default_factory=lambda: prior_weights(UNTRIED))
    residual: list[float] = field(default_factory=lambda: prior_weights(RESIDUAL_DRIFTS))
    ability: list[float] = field(default_factory=lambda: prior_weights(ABILITY_DRIFTS))

    def __post_init__(self) -> None:
        models, tags = self.pool.models, len(self.pool.offset_tags)
        part = 1 / max(models, 1)
        self.mean = np.array([0.0, *[part] * models, 0.0, *[0.0] * tags, 0.0])
        self.covariance = np.diag([4.0, *[part**2] * models, 4.0, *[1.0] * tags, 0.02**2])
        self.drift = np.array([1.0, *[0.1] * models, 0.1, *[0.5] * tags, 0.0])

    @property
    def variances(self) -> tuple[float, float, float]:
        """tau^2, kappa and q."""
        grids = (UNTRIED, RESIDUAL_DRIFTS, ABILITY_DRIFTS)
        tau2, kappa, q = map(estimate, (self.untried, self.residual, self.ability), grids)
        return tau2, kappa, q

    def close(self) -> None:
        batches: dict[int, dict[int, list[Piece]]] = {}
        for task, successes, failures, _, made_at in self.waiting:
            batches.setdefault(self.step - made_at, {}).setdefault(task, []).append((task, successes, failures))
        super().close()
        step = np.eye(len(self.mean))
        step[0, -1], step[-1, -1] = 1.0, 0.99
        pushed = np.zeros_like(step)
        pushed[-1, -1] = 0.02**2 * (1 - 0.99**2)
        self.mean = step @ self.mean
        undrifted = step @ self.covariance @ step.T + pushed
        self.covariance = undrifted + self.variances[2] * np.diag(self.drift)
        is_first = True
        for lag in sorted(batches, reverse=True):
            self.absorb(batches[lag], lag, undrifted if is_first else None)
            is_first = False

    def known(self, task: int) -> tuple[float, float]:
        """N(mean, variance) of a task's residual now."""
        tau2, kappa, _ = self.variances
        if task not in self.residuals:
            return 0.0, tau2
        mean, variance, step = self.residuals[task]
        return mean, variance + kappa * (self.step - step)

    def absorb(self, batch: dict[int, list[Piece]], lag: int, undrifted: Vector | None) -> None:
        _, kappa, q = self.variances
        tasks, effects = sorted(batch), len(self.mean)
        phi = np.array([features(self.pool, task, lag) for task in tasks])
        before = [self.known(task) for task in tasks]
        joint_mean = np.array([*self.mean, *(mean for mean, _ in before)])
        joint = np.zeros((effects + len(tasks),) * 2)
        joint[:effects, :effects] = self.covariance
        joint[effects:, effects:] = np.diag([variance for _, variance in before])
        seen = np.concatenate([phi, np.eye(len(tasks))], axis=1)  # what of the joint vector each observation sees

        excess, blur, total = np.empty(len(tasks)), np.empty(len(tasks)), np.empty(len(tasks))
        untried, residual = [0.0] * len(UNTRIED), [0.0] * len(RESIDUAL_DRIFTS)
        for place, task in enumerate(tasks):
            wiggle = math.fsum(phi[place] ** 2 * self.drift)
            moved = lag * (kappa + q * wiggle)
            shared = float(phi[place] @ self.covariance @ phi[place])
            expected, variance = float(seen[place] @ joint_mean), shared + before[place][1] + moved
            successes, failures = (math.fsum(piece[column] for piece in batch[task]) for column in (1, 2))
            mean_after, variance_after = moments(expected, variance, successes, failures)
            gain = max(1 / variance_after - 1 / variance, 1e-9 / variance)
            excess[place] = (mean_after - expected) / (variance_after * gain)
            blur[place] = 1 / gain + moved
            total[place] = before[place][1] + blur[place]
            rest = shared + lag * q * wiggle + 1 / gain
            if task in self.residuals:
                own, age = self.residuals[task].variance, self.step - self.residuals[task].step
                for j, drift in enumerate(RESIDUAL_DRIFTS):
                    residual[j] += log_likelihood(excess[place], rest + own + drift * (age + lag))
            else:
                for j, spread in enumerate(UNTRIED):
                    untried[j] += log_likelihood(excess[place], rest + lag * kappa + spread)

        if undrifted is not None:
            self.ability = [
                weight + log_evidence(excess, phi @ (undrifted + drift * np.diag(self.drift)) @ phi.T + np.diag(total))
                for weight, drift in zip(self.ability, ABILITY_DRIFTS, strict=True)
            ]
        self.untried = [weight + more for weight, more in zip(self.untried, untried, strict=True)]
        self.residual = [weight + more for weight, more in zip(self.residual, residual, strict=True)]

        gains = joint @ seen.T @ np.linalg.inv(seen @ joint @ seen.T + np.diag(blur))
        joint_mean = joint_mean + gains @ excess
        joint = joint - gains @ seen @ joint
        self.mean, self.covariance = joint_mean[:effects], joint[:effects, :effects]
        for place, task in enumerate(tasks, start=effects):
            self.residuals[task] = Residual(float(joint_mean[place]), float(joint[place, place]), self.step)

    def logit(self, task: int) -> tuple[float, float]:
        """Mean and variance of a task's logit."""
        phi = features(self.pool, task)
        mean, variance = self.known(task)
        return float(phi @ self.mean) + mean, float(phi @ self.covariance @ phi) + variance


def log_likelihood(excess: float, variance: float) -> float:
    return -0.5 * (math.log(variance) + excess**2 / variance)


def log_evidence(excess: Vector, covariance: Vector) -> float:
    """Log of the density of N(0, covariance), but for a constant."""
    _, log_determinant = np.linalg.slogdet(covariance)
    return float(-0.5 * (excess @ np.linalg.solve(covariance, excess) + log_determinant))


def assert_close(found: object, wanted: object) -> None:
    np.testing.assert_allclose(np.array(found), np.array(wanted), rtol=1e-8, atol=1e-8)


def assert_same(state: RunState, slow: SlowTracker) -> None:
    """Check that the state believes what the slow run does."""
    belief, tasks = state.belief, np.arange(len(slow.pool), dtype=np.int32)
    assert isinstance(belief, TrackerBelief)
    assert_close(belief.effects.mean, slow.mean)
    assert_close(belief.effects.covariance, slow.covariance)
    assert_close(belief.variances.estimates, slow.variances)
    assert belief.own_tasks.tolist() == sorted(slow.residuals)
    rows = belief.residuals.whole
    wanted = [slow.residuals[task] for task in sorted(slow.residuals)]
    found = list(zip(rows.mean.tolist(), rows.variance.tolist(), rows.last_step.tolist(), strict=True))
    assert_close(found, wanted)
    told = belief.distributions(slow.pool, tasks)
    logits = np.array([slow.logit(task) for task in tasks.tolist()]).T
    assert_close([told.location, told.variance], logits)
