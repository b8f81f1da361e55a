"""How the tracker's belief follows a model in training: a Gaussian filter over logits.

After t closed steps task k succeeds with probability sigmoid(theta_k),

    theta_k = phi_k . beta + r_k

phi_k: the features of the task's profile, and 0 for the velocity. beta: the effects that all tasks share (the ability,
a slope on each reference, the offset where references are unknown, and the ability's velocity), one Gaussian. r_k: the
task's own residual. With each step all of them drift.

Rollouts enter as one Gaussian observation of theta_k, the one that leads to the mean and the variance of the exact
posterior (moment matching, as in expectation propagation: Minka, UAI 2001). Three variances are no settings: they are
means over grids, weighted by the likelihood of all evidence so far.

Everything is elementwise and in a fixed order, so that every machine gets the same bits.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Flags, Floats, frozen
from bots_service.core.portable_math import exp, inverse, log, product, sigmoid, summed, summed_rows

# The positive half of 15-point Gauss-Hermite quadrature for N(0, 1). Literals: computed ones differ in the last bits.
HALF_NODES = (
    0.79912906832455,
    1.60671006902873,
    2.43243682700976,
    3.28908242439877,
    4.19620771126902,
    5.19009359130478,
    6.36394788882984,
)
HALF_WEIGHTS = (
    0.23246229360973225,
    0.08941779539984437,
    0.01736577449213762,
    0.00156735750354996,
    5.642146405189e-05,
    5.9754195979e-07,
    8.5896499e-10,
)
NODES = frozen(np.array([*(-x for x in reversed(HALF_NODES)), 0.0, *HALF_NODES]))
WEIGHTS = frozen(np.array([*reversed(HALF_WEIGHTS), 0.31825951825951815, *HALF_WEIGHTS]))

ABILITY_VARIANCE = UNKNOWN_VARIANCE = 4.0  # of logits, before any evidence
TAG_VARIANCE = 1.0
SLOPE_DRIFT = UNKNOWN_DRIFT = 0.1  # times the ability's
TAG_DRIFT = 0.5
VELOCITY_VARIANCE = 0.02**2  # stationary; (logits a step)^2
DAMPING = 0.99  # of the velocity, a step

# The grids of the three learned variances, per step except the first.
UNTRIED_VARIANCES = frozen(2.0 ** np.arange(-4, 5))
RESIDUAL_DRIFTS = frozen(2.0 ** np.arange(-16, 1, 2))
ABILITY_DRIFTS = frozen(2.0 ** np.arange(-16, -1, 2))
GRID_CENTRE, GRID_SPREAD = 4.0, 2.0  # places: what is likely before any evidence


@dataclass(frozen=True)
class Variances:
    """Log weights of the grids of three variances, the largest of each grid 0.

    untried: [9] of the variance of untried tasks' residuals (tau^2).
    residual: [9] of the variance that a tried task's residual gains a step (kappa).
    ability: [8] of the variance that the ability gains a step (q).
    """

    untried: Floats
    residual: Floats
    ability: Floats

    @cached_property
    def estimates(self) -> tuple[float, float, float]:
        """tau^2, kappa and q: means over the grids."""
        weights = exp(np.concatenate([self.untried, self.residual, self.ability]))
        ends = (0, len(self.untried), len(self.untried) + len(self.residual), len(weights))
        grids = (UNTRIED_VARIANCES, RESIDUAL_DRIFTS, ABILITY_DRIFTS)
        parts = [weights[begin:end] for begin, end in pairwise(ends)]
        tau2, kappa, q = (math.fsum(w * x) / math.fsum(w) for w, x in zip(parts, grids, strict=True))
        return tau2, kappa, q

    def plus(self, untried: Floats, residual: Floats, ability: Floats) -> "Variances":
        """Return the weights after evidence with these log likelihoods."""
        summed_up = (self.untried + untried, self.residual + residual, self.ability + ability)
        return Variances(*(frozen(each - each.max()) for each in summed_up))


def first_variances() -> Variances:
    """Return what is likely before any evidence."""
    untried, residual, ability = (
        frozen(-0.5 * ((np.arange(float(len(grid))) - GRID_CENTRE) / GRID_SPREAD) ** 2)
        for grid in (UNTRIED_VARIANCES, RESIDUAL_DRIFTS, ABILITY_DRIFTS)
    )
    return Variances(untried, residual, ability)


@dataclass(frozen=True, slots=True)
class Effects:
    """The effects that tasks share, N(mean, covariance).

    They are, in order: the ability, a slope on each reference, the offset of unknown references, an offset of each tag,
    and the ability's velocity.

    mean: [d]; covariance: [d, d].
    drift: [d] the variance that each effect gains a step, as a multiple of the ability's; the velocity has its own.
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
        return Effects(self.mean, frozen(self.covariance + np.diag(by * self.drift)), self.drift)


def first_effects(models: int, tags: int) -> Effects:
    """Return the effects before any evidence: tasks are as hard as the mean of the references' logits says."""
    part = 1 / max(models, 1)
    mean = np.array([0.0, *[part] * models, 0.0, *[0.0] * tags, 0.0])
    spread = [ABILITY_VARIANCE, *[part**2] * models, UNKNOWN_VARIANCE, *[TAG_VARIANCE] * tags, VELOCITY_VARIANCE]
    drift = np.array([1.0, *[SLOPE_DRIFT] * models, UNKNOWN_DRIFT, *[TAG_DRIFT] * tags, 0.0])
    return Effects(frozen(mean), frozen(np.diag(spread)), frozen(drift))


@dataclass(frozen=True, slots=True)
class LaggedEvidence:
    """Evidence about n distinct tasks at one lag, and what was believed of their residuals.

    features: [d - 1, n] of the tasks' profiles.
    successes, failures: [n] real counts, their sum > 0.
    lag: how many steps ago the tasks were selected; from old logs it may be a fraction.
    residual, variance: [n] N(residual, variance) of each task; 0 and tau^2 for those never tried.
    tried: [n] whether there was evidence of the task before; age: [n] steps since, 0 for the others.
    """

    features: NDArray[np.float64]
    successes: Floats
    failures: Floats
    lag: float
    residual: Floats
    variance: Floats
    tried: Flags
    age: Floats


@dataclass(frozen=True, slots=True)
class Absorbed:
    """What a batch left: effects, the variances' weights, and N(residual, variance) of each task's residual, [n]."""

    effects: Effects
    variances: Variances
    residual: Floats
    variance: Floats


def absorb(effects: Effects, variances: Variances, batch: LaggedEvidence, undrifted: Effects | None = None) -> Absorbed:
    """Return the belief after a batch: the exact Gaussian posterior, but that residuals stay independent of effects.

    Late evidence observes an older theta: what may have moved since is noise, and the ability was lower by what the
    velocity tells.

    Args:
        effects: at the step that closes.
        variances: before the batch.
        batch: the evidence.
        undrifted: the effects before the drift of this step, for its first batch: that tells how fast they drift.
    """
    _, kappa, q = variances.estimates
    phi = np.concatenate([batch.features, np.full((1, len(batch.age)), -float(batch.lag))])
    wiggle = product(effects.drift[None, :], phi * phi)[0]
    noise = batch.lag * (kappa + q * wiggle)
    shared = summed(phi * product(effects.covariance, phi))
    mean = product(effects.mean[None, :], phi)[0] + batch.residual
    seen = observed(mean, shared + batch.variance + noise, batch.successes, batch.failures)
    unexplained = shared + batch.lag * q * wiggle + seen.variance
    unexplained += np.where(batch.tried, batch.variance - kappa * batch.age, batch.lag * kappa)
    untried, residual = _likelihoods(batch, unexplained, seen.excess)
    blur = seen.variance + noise
    total = batch.variance + blur
    weighted = phi / total
    information = summed_rows(weighted[:, None, :] * phi[None, :, :])
    score = summed_rows(weighted * seen.excess)
    posterior, shift, ability = _updated(effects, information, score, undrifted)
    share = batch.variance / total
    return Absorbed(
        effects=Effects(frozen(effects.mean + shift), frozen(posterior), effects.drift),
        variances=variances.plus(untried, residual, ability),
        residual=batch.residual + share * (seen.excess - product(shift[None, :], phi)[0]),
        variance=share * blur + share * share * summed(phi * product(posterior, phi)),
    )


def _likelihoods(batch: LaggedEvidence, unexplained: Floats, excess: Floats) -> tuple[Floats, Floats]:
    """Return the log likelihoods of the grids of tau^2 (untried tasks tell of it) and of kappa (tried ones), each [9].

    Args:
        unexplained: [n] the variance of the excess without what the grid's variance adds.
        excess: [n] observed less expected.
    """
    added = np.where(batch.tried, RESIDUAL_DRIFTS[:, None] * (batch.age + batch.lag), UNTRIED_VARIANCES[:, None])
    variance = unexplained + added
    fit = log(variance)
    fit += excess * excess / variance
    fit *= -0.5
    return summed_rows(np.where(batch.tried, 0.0, fit)), summed_rows(np.where(batch.tried, fit, 0.0))


def _updated(
    effects: Effects, information: Floats, score: Floats, undrifted: Effects | None
) -> tuple[Floats, Floats, Floats]:
    """Return the posterior covariance, the shift of the mean, and log likelihoods of the grid of q, [8]."""
    priors = effects.covariance[None]
    if undrifted is not None:
        drifts = ABILITY_DRIFTS[:, None, None] * np.diag(effects.drift)
        priors = np.concatenate([priors, undrifted.covariance + drifts])
    precisions, log_determinants = inverse(priors)
    posteriors, log_determinants_after = inverse(precisions + information)
    shifts = summed_rows(posteriors * score)
    if undrifted is None:
        return posteriors[0], shifts[0], np.zeros(len(ABILITY_DRIFTS))
    # `log_determinants_after` are of precisions, so they add.
    fits = 0.5 * (summed_rows(shifts * score) - log_determinants_after - log_determinants)
    return posteriors[0], shifts[0], fits[1:]


NEWTON_STEPS = 80
PRECISION = 1e-7  # of the mode, in logits: only the quadrature's nodes depend on it
LEAST_GAIN = 1e-9


@dataclass(frozen=True, slots=True)
class Observation:
    """Gaussian observations z of logits: excess: [n] z less what was expected; variance: [n] of z."""

    excess: Floats
    variance: Floats


def observed(mean: Floats, variance: Floats, successes: Floats, failures: Floats) -> Observation:
    """Return the observation of theta ~ N(mean, variance) that leads to the posterior's mean and variance.

    The likelihood is log-concave, so the posterior is never wider than the prior, except by rounding.
    """
    posterior_mean, posterior_variance = moments(mean, variance, successes, failures)
    gain = np.maximum(1 / posterior_variance - 1 / variance, LEAST_GAIN / variance)
    return Observation((posterior_mean - mean) / (posterior_variance * gain), 1 / gain)


def moments(mean: Floats, variance: Floats, successes: Floats, failures: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of N(mean, variance) sigmoid^s (1 - sigmoid)^f, normalised; each [n].

    15-point Gauss-Hermite quadrature around the mode, with the curvature there: right to 0.2 % of the variance for
    prior variances up to 4 and from 1 to 512 rollouts, to 7 % at 64.
    """
    trials, precision = successes + failures, 1 / variance
    mode = _mode(mean, variance, successes, failures)
    p = sigmoid(mode)
    width = 1 / np.sqrt(trials * p * (1 - p) + precision)
    logits = mode + width * NODES[:, None]
    softplus = np.maximum(logits, 0.0) + log(1.0 + exp(-np.abs(logits)))
    density = successes * logits - trials * softplus
    density -= 0.5 * precision * (logits - mean) ** 2
    density += 0.5 * (NODES * NODES)[:, None]
    weights = exp(density - density.max(axis=0))
    weights *= WEIGHTS[:, None]
    weights /= summed(weights)
    centre = summed(weights * logits)
    logits -= centre
    return centre, summed(weights * logits * logits)


def _mode(mean: Floats, variance: Floats, successes: Floats, failures: Floats) -> Floats:
    """[n] where the density is largest: Newton's method, held within a bracket."""
    trials, precision = successes + failures, 1 / variance
    low, high = mean - variance * failures, mean + variance * successes  # the gradient's sign is known there
    rate = (successes + 0.5) / (trials + 1)
    known = trials * rate * (1 - rate)
    mode = (mean * precision + known * log(rate / (1 - rate))) / (precision + known)
    mode = np.minimum(np.maximum(mode, low), high)
    moved = high - low
    for _ in range(NEWTON_STEPS):
        p = sigmoid(mode)
        slope = successes - trials * p - (mode - mean) * precision
        low, high = np.where(slope > 0, mode, low), np.where(slope > 0, high, mode)
        step = slope / (trials * p * (1 - p) + precision)
        ahead, size = mode + step, np.abs(step)
        # A step below the precision is the last one: halving the bracket would only lead away from the mode again.
        is_astray = (size > PRECISION) & ((ahead < low) | (ahead > high) | (size > 0.5 * moved))
        ahead = np.where(is_astray, 0.5 * (low + high), ahead)
        moved = np.abs(ahead - mode)
        mode = ahead
        if moved.max() < PRECISION:
            break
    return mode
