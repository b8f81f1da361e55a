"""How the tracker's belief follows a model in training: a Gaussian filter over logits.

After t closed steps task k succeeds with probability sigmoid(theta_k),

    theta_k = phi_k . beta + r_k

phi_k: the features of the task's profile, and 0 for the velocity. beta: the effects that all tasks share (the ability,
slopes on references and predictions, offsets, the ability's velocity), one Gaussian. r_k: its residual. All drift.

Rollouts enter as one Gaussian observation of theta_k, the one that leads to the mean and the variance of the exact
posterior (moment matching, as in expectation propagation: Minka, UAI 2001). Three variances are no settings: they are
means over grids, weighted by the likelihood of all evidence so far. Everything is elementwise and in a fixed order, so
that every machine gets the same bits; docs/tracker.md has the equations.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import NO_NUMBERS, NO_TASKS, Flags, Floats, LayeredRows, TaskRows, Tasks, frozen
from bots_service.core.belief.distributions import NODES, WEIGHTS, LogitNormals
from bots_service.core.evidence import ClosingStep
from bots_service.core.pool import Pool
from bots_service.core.portable_math import exp, inverse, log, sigmoid, summed, summed_rows
from bots_service.core.run_settings import RunSettings

HALF_SQUARES = frozen(0.5 * NODES * NODES)
MIDDLE = len(NODES) // 2  # the place of node 0
LN2 = 0.6931471805599453

ABILITY_VARIANCE = UNKNOWN_VARIANCE = 4.0  # of logits, before any evidence
TAG_VARIANCE = 1.0
PREDICTION_VARIANCE = 0.25  # of a slope whose mean is 0: with means of 1/3 or 1/2, wrong predictions cost more
SLOPE_DRIFT = UNKNOWN_DRIFT = 0.1  # times the ability's
TAG_DRIFT = 0.5
VELOCITY_VARIANCE = 0.02**2  # stationary; (logits a step)^2
DAMPING = 0.99  # of the velocity, a step

# The grids of the three learned variances, per step except the first.
UNTRIED_VARIANCES = frozen(2.0 ** np.arange(-4, 5))
RESIDUAL_DRIFTS = frozen(2.0 ** np.arange(-16, 1, 2))
ABILITY_DRIFTS = frozen(2.0 ** np.arange(-16, -1, 2))
GRIDS = frozen(np.concatenate([UNTRIED_VARIANCES, RESIDUAL_DRIFTS, ABILITY_DRIFTS]))
GRID_CENTRE, GRID_SPREAD = 4.0, 2.0  # places: what is likely before any evidence


@dataclass(frozen=True)
class Variances:
    """Log weights of the grids of three variances, the largest of each grid 0.

    untried: [9] of untried tasks' residuals (tau^2); residual: [9] of what tried tasks' ones gain a step (kappa);
    ability: [8] of what the ability gains a step (q).
    """

    untried: Floats
    residual: Floats
    ability: Floats

    @cached_property
    def estimates(self) -> tuple[float, float, float]:
        """tau^2, kappa and q: means over the grids."""
        weights = exp(np.concatenate([self.untried, self.residual, self.ability]))
        weighted, weights = (weights * GRIDS).tolist(), weights.tolist()
        ends = (0, len(UNTRIED_VARIANCES), len(UNTRIED_VARIANCES) + len(RESIDUAL_DRIFTS), len(GRIDS))
        tau2, kappa, q = (
            math.fsum(weighted[begin:end]) / math.fsum(weights[begin:end]) for begin, end in pairwise(ends)
        )
        return tau2, kappa, q


FIRST_VARIANCES = Variances(  # what is likely before any evidence
    *(
        frozen(-0.5 * ((np.arange(float(len(grid))) - GRID_CENTRE) / GRID_SPREAD) ** 2)
        for grid in (UNTRIED_VARIANCES, RESIDUAL_DRIFTS, ABILITY_DRIFTS)
    )
)


@dataclass(frozen=True, slots=True)
class Effects:
    """The effects that tasks share, N(mean, covariance), [d] and [d, d].

    They are, in order: the ability, a slope on each reference, the offset of unknown references, an offset of each tag,
    a slope on each column of predictions, the offset where each is unknown, and the ability's velocity.

    drift: [d] the variance that each gains a step, as a multiple of the ability's; the velocity has its own.
    """

    mean: Floats
    covariance: Floats
    drift: Floats

    def a_step_later(self) -> "Effects":
        """Return the effects after a step without evidence, before they drift: the velocity moved the ability."""
        mean, covariance = self.mean.copy(), self.covariance.copy()
        mean[0] += mean[-1]
        mean[-1] *= DAMPING
        covariance[0] += covariance[-1]
        covariance[:, 0] += covariance[:, -1]
        covariance[-1] *= DAMPING  # only now: the other order would round both halves of the matrix differently
        covariance[:, -1] *= DAMPING
        covariance[-1, -1] += VELOCITY_VARIANCE * (1 - DAMPING**2)
        return Effects(frozen(mean), frozen(covariance), self.drift)

    def drifted(self, by: float) -> "Effects":
        """Return the effects once they drifted, the ability by this variance."""
        covariance = self.covariance.copy()
        diagonal(covariance)[:] += by * self.drift
        return Effects(self.mean, frozen(covariance), self.drift)


def diagonal(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a view of the diagonals of square matrices, [d] of [d, d] or [d, j] of [d, d, j]."""
    size = len(matrices)
    return matrices.reshape(size * size, *matrices.shape[2:])[:: size + 1]


def first_effects(models: int, tags: int, predictions: int = 0) -> Effects:
    """Return the effects before any evidence: references tell how hard tasks are, predictions nothing yet."""
    counts, part = (1, models, 1, tags, predictions, predictions, 1), 1 / max(models, 1)
    mean = np.repeat((0.0, part, *[0.0] * 5), counts)
    rest = (UNKNOWN_VARIANCE, TAG_VARIANCE, PREDICTION_VARIANCE, UNKNOWN_VARIANCE, VELOCITY_VARIANCE)
    variance = np.repeat([ABILITY_VARIANCE, part**2, *rest], counts)
    drift = np.repeat([1.0, SLOPE_DRIFT, UNKNOWN_DRIFT, TAG_DRIFT, SLOPE_DRIFT, UNKNOWN_DRIFT, 0.0], counts)
    return Effects(frozen(mean), frozen(np.diag(variance)), frozen(drift))


@dataclass(frozen=True, slots=True)
class LaggedEvidence:
    """Evidence about n distinct tasks at one lag, and what was believed of their residuals.

    features: [d - 1, n] of the tasks' profiles; lag: how many steps ago the tasks were selected.
    successes, failures: [n] real counts, their sum > 0.
    residual, variance: [n] N(residual, variance) of each task; 0 and tau^2 for those never tried.
    tried: [n] whether there was evidence of the task before; age: [n] steps since, 0 for the others.
    """

    features: NDArray[np.float64]
    successes: Floats
    failures: Floats
    lag: int
    residual: Floats
    variance: Floats
    tried: Flags
    age: Floats


def absorb(
    effects: Effects, variances: Variances, batch: LaggedEvidence, undrifted: Effects | None = None
) -> tuple[Effects, Variances, Floats, Floats]:
    """Return effects, variances, and N(residual, variance) of each task, [n], after a batch.

    This is the exact Gaussian posterior, but that residuals stay independent of effects. Late evidence observes an
    older theta: what may have moved since is noise, and the ability was lower by what the velocity tells.
    undrifted: the effects before the drift of this step, for its first batch: that tells how fast they drift.
    """
    phi = np.concatenate([batch.features, np.full((1, len(batch.age)), -float(batch.lag))])
    squares = (phi[:, None] * phi).reshape(phi.shape[0] ** 2, phi.shape[1])
    _, kappa, q = variances.estimates
    # How far the effects may have moved the logits since evidence was due, and all that may have.
    moved: Floats | float = batch.lag * q * summed(effects.drift[:, None] * (phi * phi)) if batch.lag else 0.0
    noise = moved + batch.lag * kappa
    shared = summed(effects.covariance.reshape(-1, 1) * squares)
    mean = summed(effects.mean[:, None] * phi) + batch.residual
    excess, unsure = observed(mean, shared + batch.variance + noise, batch.successes, batch.failures)
    unexplained = shared + moved + unsure
    unexplained += np.where(batch.tried, batch.variance - kappa * batch.age, batch.lag * kappa)
    untried, residual = _likelihoods(batch, unexplained, excess)
    blur = unsure + noise
    total = batch.variance + blur
    information = summed_rows(squares / total).reshape(effects.covariance.shape)
    score = summed_rows(phi * (excess / total))
    posterior, shift, ability = _updated(effects, information, score, undrifted)
    share = batch.variance / total
    log_weights = variances.untried + untried, variances.residual + residual, variances.ability + ability
    return (
        Effects(frozen(effects.mean + shift), frozen(posterior), effects.drift),
        Variances(*(frozen(weights - weights.max()) for weights in log_weights)),
        batch.residual + share * (excess - summed(shift[:, None] * phi)),
        share * (blur + share * summed(posterior.reshape(-1, 1) * squares)),
    )


def _likelihoods(batch: LaggedEvidence, unexplained: Floats, excess: Floats) -> tuple[Floats, Floats]:
    """[9] log likelihoods of the grid of tau^2, by untried tasks, and [9] of that of kappa, by the others.

    unexplained: [n] the variance of the excess, observed less expected, [n], without what the grid's variance adds.
    """
    variance = np.where(batch.tried, RESIDUAL_DRIFTS[:, None] * (batch.age + batch.lag), UNTRIED_VARIANCES[:, None])
    variance += unexplained
    fit = log(variance)
    fit += excess * excess / variance
    fit *= -0.5
    tells = np.array([~batch.tried, batch.tried])
    untried, residual = summed_rows(np.where(tells[:, None, :], fit, 0.0))
    return untried, residual


def _updated(
    effects: Effects, information: Floats, score: Floats, undrifted: Effects | None
) -> tuple[Floats, Floats, Floats]:
    """Return the posterior covariance, the shift of the mean, and log likelihoods of the grid of q, [8]."""
    if undrifted is None:
        priors = effects.covariance[:, :, None]
    else:  # then as each drift of the grid would have it
        priors = np.empty((*effects.covariance.shape, 1 + len(ABILITY_DRIFTS)))
        priors[:, :, 0] = effects.covariance
        priors[:, :, 1:] = undrifted.covariance[:, :, None]
        diagonal(priors)[:, 1:] += effects.drift[:, None] * ABILITY_DRIFTS
    precisions, pivots = inverse(priors)
    posteriors, pivots_after = inverse(precisions + information[:, :, None])
    shifts = summed(posteriors * score[:, None, None])
    posterior, shift = posteriors[:, :, 0], shifts[:, 0]
    if undrifted is None:
        return posterior, shift, np.zeros(len(ABILITY_DRIFTS))
    # The determinants after are of precisions, so their logarithms add.
    determinants = summed(log(np.concatenate([pivots, pivots_after])))
    fits = 0.5 * (summed(shifts * score[:, None]) - determinants)
    return posterior, shift, fits[1:]


LEAST_GAIN = 1e-9


def observed(mean: Floats, variance: Floats, successes: Floats, failures: Floats) -> tuple[Floats, Floats]:
    """Return the Gaussian observations z of theta ~ N(mean, variance) that lead to the posterior's means and variances.

    [n] z less what was expected, and [n] the variance of z. The likelihood is log-concave, so the posterior is never
    wider than the prior, except by rounding.
    """
    posterior_mean, posterior_variance = moments(mean, variance, successes, failures)
    precision = 1 / variance
    gain = np.maximum(1 / posterior_variance - precision, LEAST_GAIN * precision)
    return (posterior_mean - mean) / (posterior_variance * gain), 1 / gain


def moments(mean: Floats, variance: Floats, successes: Floats, failures: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of N(mean, variance) sigmoid^s (1 - sigmoid)^f, normalised; each [n].

    15-point Gauss-Hermite quadrature around the mode, with the curvature there: right to 0.2 % of the variance for
    prior variances up to 4 and from 1 to 512 rollouts, to 7 % at 64.
    """
    trials, precision = successes + failures, 1 / variance
    mode, curvature = _mode(mean, precision, successes, failures)
    away = NODES[:, None] / np.sqrt(curvature)
    logits = mode + away
    softplus = np.maximum(log(1.0 + exp(logits)), logits)  # of logits beyond 700 it is the logit, and exp is cut
    softplus *= trials
    # Logarithms of the density, less those of the normal density with this mode and curvature.
    weights = (successes - (mode - mean) * precision) * away
    weights -= softplus
    weights += HALF_SQUARES[:, None] * (1.0 - precision / curvature)
    weights -= weights[MIDDLE].copy()  # exp stays a number: none exceeds the mode's by more than its half square, 20
    weights = exp(weights)
    weights *= WEIGHTS[:, None]
    weights /= summed(weights)
    weights *= away
    shift = summed(weights)
    weights *= away
    return mode + shift, summed(weights) - shift * shift


FREE_STEPS = 6  # of the search for a mode; typical evidence takes 2 or 3
HELD_STEPS = 80  # of the search within a bracket, which costs as much again: where the other one leads nowhere
PRECISION = 1e-3  # in logits: a step of Halley's below it leaves about its cube, 1e-9


def _mode(mean: Floats, precision: Floats, successes: Floats, failures: Floats) -> tuple[Floats, Floats]:
    """[n] where the density is largest, and [n] the curvature of its logarithm there, negative."""
    # A mean of the prior's mode and the evidence's, whose logarithm the parts of a float tell to 0.06.
    mantissas, powers = np.frexp((successes + 0.5) / (failures + 0.5))
    known = (successes + 0.5) * (failures + 0.5) / (successes + failures + 1.0)
    mode = (mean * precision + known * LN2 * (powers + (2.0 * mantissas - 2.0))) / (precision + known)
    for _ in range(FREE_STEPS):
        _, step, curvature = _ascent(mode, mean, precision, successes, failures)
        mode += step
        if np.abs(step).max() < PRECISION:
            return mode, curvature
    return _held_mode(mode, mean, precision, successes, failures)


def _held_mode(
    mode: Floats, mean: Floats, precision: Floats, successes: Floats, failures: Floats
) -> tuple[Floats, Floats]:
    """[n] mode and [n] curvature, wherever the search begins: it is held within a bracket."""
    low, high = mean - failures / precision, mean + successes / precision  # the slope's sign is known there
    moved = high - low
    for _ in range(HELD_STEPS):
        slope, step, _ = _ascent(mode, mean, precision, successes, failures)
        is_below = slope > 0
        low = np.where(is_below, np.maximum(mode, low), low)
        high = np.where(is_below, high, np.minimum(mode, high))
        ahead, size = mode + step, np.abs(step)
        # A step below the precision is the last one: halving the bracket would only lead away from the mode again.
        is_astray = (size > PRECISION) & ((ahead < low) | (ahead > high) | (size > 0.5 * moved))
        ahead = np.where(is_astray, 0.5 * (low + high), ahead)
        moved = np.abs(ahead - mode)
        mode = ahead
        if size.max() < PRECISION:
            break
    _, _, curvature = _ascent(mode, mean, precision, successes, failures)
    return mode, curvature


def _ascent(
    at: Floats, mean: Floats, precision: Floats, successes: Floats, failures: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return the logarithm's slope at these logits, Halley's step towards the mode, and the curvature after it."""
    trials = successes + failures
    p = sigmoid(at)
    expected = trials * p
    spread = expected - expected * p
    bend = spread - 2.0 * spread * p
    curvature = spread + precision
    slope = successes - expected - (at - mean) * precision
    step = slope / curvature
    step /= np.maximum(1.0 + 0.5 * step * bend / curvature, 0.5)
    return slope, step, np.maximum(curvature + bend * step, precision)


BLOCK = 2048  # profiles at a time: their numbers stay in the processor's cache
FOLD_NUMBERS = 20_000  # a fold of 32 tasks takes as long as one that touches so many numbers


@dataclass(frozen=True, slots=True)
class Residuals(TaskRows):
    """How tried tasks differ from what their profiles say: N(mean, variance) of the logit at their last step, [R]."""

    mean: Floats
    variance: Floats
    last_step: NDArray[np.int32]


NO_RESIDUALS = Residuals(NO_TASKS, NO_NUMBERS, NO_NUMBERS, NO_TASKS)


@dataclass(frozen=True)
class TrackerBelief:
    """A Gaussian belief about every task's logit.

    residuals: of tasks that were tried; their variances grow from then on, which is added when they are read.
    """

    step: int
    effects: Effects
    variances: Variances
    residuals: LayeredRows[Residuals]

    @classmethod
    def fresh(cls, settings: RunSettings, pool: Pool) -> "TrackerBelief":  # noqa: ARG003 - it has no settings
        """Return the belief before any evidence."""
        effects = first_effects(pool.models, len(pool.offset_tags), len(pool.prediction_names))
        return cls(0, effects, FIRST_VARIANCES, LayeredRows(NO_RESIDUALS, NO_RESIDUALS))

    @property
    def capability(self) -> None:
        """None: this kind estimates no place along the references."""

    @property
    def longest_lag(self) -> int:
        """As many steps as closed: no evidence of this run comes too late, for it observes what was then."""
        return self.step

    def fits(self, pool: Pool) -> bool:  # noqa: ARG002 - other kinds need it
        """Return True: the belief keeps nothing of profiles."""
        return True

    def extended(self, pool: Pool, profiles: int) -> "TrackerBelief":  # noqa: ARG002 - other kinds need it
        """Return the belief, which has room for any profiles."""
        return self

    def fold(self, pool: Pool, step: ClosingStep, settings: RunSettings) -> "TrackerBelief":  # noqa: ARG002
        """Return the belief after one closed step."""
        undrifted = self.effects.a_step_later()
        _, _, ability_drift = self.variances.estimates
        belief = replace(self, step=step.number, effects=undrifted.drifted(ability_drift))
        for place, (lag, evidence) in enumerate(step.batches):
            rows = belief.residuals.of(evidence.tasks)
            features = pool.features.take(pool.profile_of.take(evidence.tasks), axis=1)
            batch = LaggedEvidence(features, evidence.successes, evidence.failures, lag, *belief._residual(rows))
            # One batch a step tells how fast the ability drifts.
            effects, variances, mean, variance = absorb(
                belief.effects, belief.variances, batch, None if place else undrifted
            )
            rows = Residuals(evidence.tasks, mean, variance, np.full(len(rows), step.number, np.int32))
            residuals = belief.residuals.with_rows(rows.frozen())
            belief = TrackerBelief(step.number, effects, variances, residuals)
        return belief

    def _residual(self, rows: Residuals) -> tuple[Floats, Floats, Flags, Floats]:
        """Return the residuals' means and variances now, whether each task was tried, and how many steps ago; [n]."""
        tau2, kappa, _ = self.variances.estimates
        tried = rows.variance > 0.0  # 0 in the rows of tasks of which nothing is known
        age = np.where(tried, self.step - rows.last_step, 0.0)
        return rows.mean, np.where(tried, rows.variance + kappa * age, tau2), tried, age

    @property
    def own_tasks(self) -> Tasks:
        """Sorted tasks with evidence of their own; all others follow their profile."""
        return self.residuals.whole.tasks

    def own_distributions(self, pool: Pool) -> LogitNormals:
        """[T] of the tasks with evidence of their own."""
        return self._of_rows(pool, self.residuals.whole)

    def profile_distributions(self, pool: Pool) -> LogitNormals:
        """[G] of each profile's tasks that have no evidence of their own."""
        shared = self._shared(pool.features)
        return LogitNormals(shared.location, shared.variance + self.variances.estimates[0])

    def distributions(self, pool: Pool, tasks: Tasks) -> LogitNormals:
        """[n] of the given tasks."""
        return self._of_rows(pool, self.residuals.of(tasks))

    def _of_rows(self, pool: Pool, rows: Residuals) -> LogitNormals:
        profiles = pool.profile_of.take(rows.tasks).astype(np.int64)
        if len(rows) < pool.profiles:
            shared = self._shared(pool.features.take(profiles, axis=1))
        else:
            shared = self._shared(pool.features).at(profiles)
        mean, variance, _, _ = self._residual(rows)
        return LogitNormals(shared.location + mean, shared.variance + variance)

    def _shared(self, features: NDArray[np.float64]) -> LogitNormals:
        """[n] what the shared effects alone say of the logits of profiles with these features, [d - 1, n]."""
        mean, covariance = self.effects.mean[:-1, None], self.effects.covariance[:-1, :-1, None]
        location, variance = np.empty((2, features.shape[1]))
        for start in range(0, len(location), BLOCK):
            block = features[:, start : start + BLOCK]
            # Not by products of matrices: their last bits depend on how many profiles there are by now.
            location[start : start + BLOCK] = summed(mean * block)
            variance[start : start + BLOCK] = summed(summed(covariance * block[:, None]) * block)
        return LogitNormals(location, variance)

    def estimates(self, pool: Pool) -> dict[str, float]:
        """Return the means of the effects, in logits (the velocity: a step), and the three learned variances."""
        slopes = (f"slope_{place}" for place in range(1, pool.models + 1))
        offsets = (f"tag_offset_{tag}" for tag in pool.offset_tags)
        kinds = ("prediction_slope", "unpredicted_offset")
        predictions = (f"{kind}_{name}" for kind in kinds for name in pool.prediction_names)
        effects = ("ability", *slopes, "unknown_offset", *offsets, *predictions, "velocity")
        variances = ("untried_variance", "residual_drift", "ability_drift")
        return {
            **dict(zip(effects, self.effects.mean.tolist(), strict=True)),
            **dict(zip(variances, self.variances.estimates, strict=True)),
        }

    @property
    def fold_numbers(self) -> int:
        """About how many numbers a fold touches: tells whether it is quick enough for the event loop."""
        return FOLD_NUMBERS + 4 * len(self.residuals.recent)
