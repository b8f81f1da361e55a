"""How the tracker's belief follows a model in training: a Gaussian filter over logits.

After t closed steps task k succeeds with probability sigmoid(theta_k),

    theta_k = phi_k . beta + r_k

phi_k: the features of the task's profile, its score by a probe once there was one, its practice, and 0 for the
velocity. beta: the effects that all tasks share (the ability, slopes on references, the probe and practice, offsets,
the ability's velocity), one Gaussian. r_k: its residual. All drift. Practice is log(1 + n), n the visits of the task
that had a gradient: training lifts most what it is given, and without it that gain would be taken for one of all tasks.
For the same reason such a visit adds a variance to the residual, which the next visit of the task finds.

Rollouts enter as one Gaussian observation of theta_k, the one that leads to the mean and the variance of the exact
posterior (moment matching, as in expectation propagation: Minka, UAI 2001). Four variances are no settings: they are
means over grids, weighted by the likelihood of all evidence so far. Everything is elementwise and in a fixed order, so
that every machine gets the same bits; docs/tracker.md has the equations.
"""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import (
    NO_NUMBERS,
    NO_SCORES,
    NO_TASKS,
    SCORE_PARTS,
    Flags,
    Floats,
    LayeredRows,
    Scores,
    TaskRows,
    Tasks,
    frozen,
    united,
)
from bots_service.core.belief.distributions import NODES, WEIGHTS, LogitNormals
from bots_service.core.evidence import ClosingStep
from bots_service.core.pool import SLOPE_DRIFT, Pool
from bots_service.core.portable_math import exp, inverse, log, sigmoid, summed, summed_rows
from bots_service.core.run_settings import RunSettings

HALF_SQUARES = frozen(0.5 * NODES * NODES)
MIDDLE = len(NODES) // 2  # the place of node 0
LN2 = 0.6931471805599453

# Of slopes with mean 0; the probe's is in logits for each standard deviation.
PRACTICE_VARIANCE, PROBE_VARIANCE = 0.25, 0.25
VELOCITY_VARIANCE = 0.02**2  # stationary; (logits a step)^2
DAMPING = 0.99  # of the velocity, a step

# The grids of the four learned variances, the last two a step; and the place that is likeliest before any evidence.
UNTRIED_VARIANCES, VISIT_VARIANCES = frozen(2.0 ** np.arange(-4, 5)), frozen(2.0 ** np.arange(-12, 3, 2))
RESIDUAL_DRIFTS, ABILITY_DRIFTS = frozen(2.0 ** np.arange(-16, 1, 2)), frozen(2.0 ** np.arange(-16, -1, 2))
LIKELIEST = ((UNTRIED_VARIANCES, 4.0), (RESIDUAL_DRIFTS, 4.0), (VISIT_VARIANCES, 3.0), (ABILITY_DRIFTS, 4.0))
GRIDS = frozen(np.concatenate([grid for grid, _ in LIKELIEST]))
SIZES = [len(grid) for grid, _ in LIKELIEST]
ENDS = (0, *np.cumsum(SIZES).tolist())
GRID_SPREAD = 2.0  # places


@dataclass(frozen=True)
class Variances:
    """Log weights of the grids of four variances, [34], one grid behind the other, the largest of each 0.

    They are of untried tasks' residuals (tau^2), of what tried tasks' ones gain a step (kappa), of what a visit with a
    gradient adds to its task's (omega), and of what the ability gains a step (q).
    """

    log_weights: Floats

    @cached_property
    def estimates(self) -> tuple[float, float, float, float]:
        """tau^2, kappa, omega and q: means over the grids."""
        weights = exp(self.log_weights)
        weighted, weights = (weights * GRIDS).tolist(), weights.tolist()
        tau2, kappa, omega, q = (
            math.fsum(weighted[begin:end]) / math.fsum(weights[begin:end]) for begin, end in pairwise(ENDS)
        )
        return tau2, kappa, omega, q

    def after(self, likelihoods: Floats) -> "Variances":
        """Return them after evidence with these log likelihoods, [34]."""
        log_weights = self.log_weights + likelihoods
        return Variances(frozen(log_weights - np.maximum.reduceat(log_weights, ENDS[:-1]).repeat(SIZES)))


FIRST_VARIANCES = Variances(  # what is likely before any evidence
    frozen(np.concatenate([-0.5 * ((np.arange(len(grid)) - place) / GRID_SPREAD) ** 2 for grid, place in LIKELIEST]))
)


@dataclass(frozen=True, slots=True)
class Effects:
    """The effects that tasks share, N(mean, covariance), [d] and [d, d].

    They are those of the pool's columns, then the slopes on the probe, once there was one, and on practice, and the
    ability's velocity.

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

    def with_probe(self) -> "Effects":
        """Return the effects with a slope on the probe, in front of that on practice."""
        place = len(self.mean) - 2
        mean, drift = np.insert(self.mean, place, 0.0), np.insert(self.drift, place, SLOPE_DRIFT)
        covariance = np.insert(np.insert(self.covariance, place, 0.0, axis=0), place, 0.0, axis=1)
        covariance[place, place] = PROBE_VARIANCE
        return Effects(frozen(mean), frozen(covariance), frozen(drift))

    def drifted(self, by: float) -> "Effects":
        """Return the effects once they drifted, the ability by this variance."""
        covariance = self.covariance.copy()
        diagonal(covariance)[:] += by * self.drift
        return Effects(self.mean, frozen(covariance), self.drift)


def diagonal(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a view of the diagonals of square matrices, [d] of [d, d] or [d, j] of [d, d, j]."""
    size = len(matrices)
    return matrices.reshape(size * size, *matrices.shape[2:])[:: size + 1]


def first_effects(priors: NDArray[np.float64]) -> Effects:
    """Return the effects before any evidence. priors: those of the pool's columns, [D, 3]."""
    rest = [(0.0, PRACTICE_VARIANCE, SLOPE_DRIFT), (0.0, VELOCITY_VARIANCE, 0.0)]
    mean, variance, drift = np.concatenate([priors, rest]).T.copy()
    return Effects(frozen(mean), frozen(np.diag(variance)), frozen(drift))


@dataclass(frozen=True, slots=True)
class LaggedEvidence:
    """Evidence about n distinct tasks at one lag, and what was believed of their residuals.

    features: [d - 1, n] of the tasks' profiles, their scores and their practice; lag: steps since they were selected.
    successes, failures: [n] real counts, their sum > 0.
    residual, variance: [n] N(residual, variance) of each task; 0 and tau^2 for those never tried.
    tried: [n] whether there was evidence of the task before; age: [n] steps since, 0 for the others.
    trained: [n] whether its last visit had a gradient.
    """

    features: NDArray[np.float64]
    successes: Floats
    failures: Floats
    lag: int
    residual: Floats
    variance: Floats
    tried: Flags
    age: Floats
    trained: Flags


def absorb(
    effects: Effects, variances: Variances, batch: LaggedEvidence, undrifted: Effects | None = None
) -> tuple[Effects, Variances, Floats, Floats, LogitNormals]:
    """Return effects, variances, and N(residual, variance) of each task, [n], after a batch; and what was expected.

    This is the exact Gaussian posterior, but that residuals stay independent of effects. Late evidence observes an
    older theta: what may have moved since is noise, and the ability was lower by what the velocity tells.
    undrifted: the effects before the drift of this step, for its first batch: that tells how fast they drift.
    """
    phi = np.concatenate([batch.features, np.full((1, len(batch.age)), -float(batch.lag))])
    squares = (phi[:, None] * phi).reshape(phi.shape[0] ** 2, phi.shape[1])
    _, kappa, omega, q = variances.estimates
    # How far the effects may have moved the logits since evidence was due, and all that may have.
    moved: Floats | float = batch.lag * q * summed(effects.drift[:, None] * (phi * phi)) if batch.lag else 0.0
    noise = moved + batch.lag * kappa
    shared = summed(effects.covariance.reshape(-1, 1) * squares)
    mean = summed(effects.mean[:, None] * phi) + batch.residual
    excess, unsure = observed(mean, shared + batch.variance + noise, batch.successes, batch.failures)
    unexplained = shared + moved + unsure
    # Without what the grid of each variance adds: of tau^2 for untried tasks, else of kappa; and of omega.
    own = np.where(batch.tried, batch.variance - kappa * batch.age, batch.lag * kappa)
    others = batch.variance + batch.lag * kappa - omega * batch.trained
    likelihoods = _likelihoods(batch, unexplained + own, unexplained + others, excess)
    blur = unsure + noise
    total = batch.variance + blur
    information = summed_rows(squares / total).reshape(effects.covariance.shape)
    score = summed_rows(phi * (excess / total))
    posterior, shift, ability = _updated(effects, information, score, undrifted)
    share = batch.variance / total
    return (
        Effects(frozen(effects.mean + shift), frozen(posterior), effects.drift),
        variances.after(np.concatenate([likelihoods, ability])),
        batch.residual + share * (excess - summed(shift[:, None] * phi)),
        share * (blur + share * summed(posterior.reshape(-1, 1) * squares)),
        LogitNormals(mean, shared + batch.variance),
    )


def _likelihoods(batch: LaggedEvidence, own: Floats, others: Floats, excess: Floats) -> Floats:
    """[26] log likelihoods of the grids of tau^2, by untried tasks, of kappa, by the others, and of omega.

    own, others: [n] the variance of the excess, observed less expected, [n], without what the grids of tau^2 or kappa,
    and that of omega add.
    """
    first = np.where(batch.tried, RESIDUAL_DRIFTS[:, None] * (batch.age + batch.lag), UNTRIED_VARIANCES[:, None]) + own
    variance = np.concatenate([first, VISIT_VARIANCES[:, None] + others])
    fit = log(variance)
    fit += excess * excess / variance
    fit *= -0.5
    first, last = fit[: len(first)], fit[len(first) :]
    told = ((~batch.tried, first), (batch.tried, first), (batch.trained, last))
    return summed_rows(np.concatenate([np.where(tells, fits, 0.0) for tells, fits in told]))


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


PRACTICE = frozen(log(np.arange(1.0, 2**16)))  # log(1 + n); more visits count as the last of these
BLOCK = 2048  # profiles at a time: their numbers stay in the processor's cache
FOLD_NUMBERS = 20_000  # a fold of 32 tasks takes as long as one that touches so many numbers


@dataclass(frozen=True, slots=True)
class Residuals(TaskRows):
    """How tried tasks differ from what their profiles say: N(mean, variance) of the logit at their last step, [R].

    practised: how many of their visits had a gradient; trained: whether the last one had.
    """

    mean: Floats
    variance: Floats
    last_step: NDArray[np.int32]
    practised: NDArray[np.int32]
    trained: Flags


NO_RESIDUALS = Residuals(NO_TASKS, NO_NUMBERS, NO_NUMBERS, NO_TASKS, NO_TASKS, frozen(np.empty(0, bool)))


@dataclass(frozen=True)
class TrackerBelief:
    """A Gaussian belief about every task's logit.

    residuals: of tasks that were tried; their variances grow from then on, which is added when they are read.
    probe: [n] scores of the first n tasks, 0 of others; empty before the first probe.
    """

    step: int
    effects: Effects
    variances: Variances
    residuals: LayeredRows[Residuals]
    probe: Scores = field(default_factory=lambda: NO_SCORES)

    @classmethod
    def fresh(cls, settings: RunSettings, pool: Pool) -> "TrackerBelief":  # noqa: ARG003 - it has no settings
        """Return the belief before any evidence."""
        return cls(0, first_effects(pool.known.priors), FIRST_VARIANCES, LayeredRows(NO_RESIDUALS, NO_RESIDUALS))

    @property
    def capability(self) -> None:
        """None: this kind estimates no place along the references."""

    @property
    def longest_lag(self) -> int:
        """As many steps as closed: no evidence of this run comes too late, for it observes what was then."""
        return self.step

    def fits(self, pool: Pool) -> bool:
        """Return whether the pool has all tasks of the probe; the belief keeps nothing of profiles."""
        return len(self.probe) <= len(pool)

    def extended(self, pool: Pool, profiles: int) -> "TrackerBelief":  # noqa: ARG002 - other kinds need it
        """Return the belief, which has room for any profiles."""
        return self

    def probed(self, scores: Scores) -> "TrackerBelief":
        """Return the belief after a probe. The slope stays, for it is that of the same number.

        So do the scores of tried tasks: their residuals were learned beside these, and noise that is new would move
        them although their rollouts tell more.
        """
        effects, tried = self.effects if len(self.probe) else self.effects.with_probe(), self.residuals.whole.tasks
        probe = np.zeros(max(len(scores), len(self.probe)), np.int8)
        probe[: len(scores)] = scores
        tried = tried[tried < len(probe)]
        probe[tried] = self._scores_of(tried)
        return replace(self, effects=effects, probe=frozen(probe))

    def _scores_of(self, tasks: Tasks) -> Scores:
        probe = self.probe if len(self.probe) else np.zeros(1, np.int8)
        return np.where(tasks < len(probe), probe.take(tasks, mode="clip"), np.int8(0))

    def fold(
        self,
        pool: Pool,
        step: ClosingStep,
        settings: RunSettings,  # noqa: ARG002 - other kinds need it
    ) -> tuple["TrackerBelief", LogitNormals]:
        """Return the belief after one closed step, and what was expected of the step's tasks."""
        undrifted = self.effects.a_step_later()
        belief = replace(self, step=step.number, effects=undrifted.drifted(self.variances.estimates[-1]))
        is_on_time = [lag for lag, _ in step.batches] == [0]  # then `absorb` says what was expected
        expected = LogitNormals(NO_NUMBERS, NO_NUMBERS) if is_on_time else belief.distributions(pool, step.whole.tasks)
        for place, (lag, evidence) in enumerate(step.batches):
            now, before = belief.residuals.of(evidence.tasks), self.residuals.of(evidence.tasks)
            is_again = now.last_step == step.number  # nobody trained on the task between two batches of a step
            rows = replace(now, practised=before.practised, trained=before.trained & ~is_again)
            shared = pool.known.features.take(pool.profile_of.take(evidence.tasks), axis=1)
            features = np.vstack([shared, self._own_features(rows)])
            batch = LaggedEvidence(
                features, evidence.successes, evidence.failures, lag, *belief._residual(rows), rows.trained
            )
            # One batch a step tells how fast the ability drifts.
            effects, variances, mean, variance, found = absorb(
                belief.effects, belief.variances, batch, None if place else undrifted
            )
            expected = found if is_on_time else expected
            last_step = np.full(len(rows), step.number, np.int32)
            practised = np.maximum(now.practised, before.practised + evidence.effective)
            trained = evidence.effective | (now.trained & is_again)
            rows = Residuals(evidence.tasks, mean, variance, last_step, practised, trained)
            residuals = belief.residuals.with_rows(rows.frozen())
            belief = replace(belief, effects=effects, variances=variances, residuals=residuals)
        return belief, expected

    def _residual(self, rows: Residuals) -> tuple[Floats, Floats, Flags, Floats]:
        """Return the residuals' means and variances now, whether each task was tried, and how many steps ago; [n]."""
        tau2, kappa, omega, _ = self.variances.estimates
        tried = rows.variance > 0.0  # 0 in the rows of tasks of which nothing is known
        age = np.where(tried, self.step - rows.last_step, 0.0)
        return rows.mean, np.where(tried, rows.variance + kappa * age + omega * rows.trained, tau2), tried, age

    def _own_features(self, rows: Residuals) -> NDArray[np.float64]:
        """[j, n] what multiplies the slope on the probe, if there ever was one, and that on practice."""
        practice = PRACTICE.take(rows.practised, mode="clip")
        return np.vstack([self._scores_of(rows.tasks) / SCORE_PARTS, practice]) if len(self.probe) else practice[None]

    @cached_property
    def _own_rows(self) -> Residuals:
        whole = self.residuals.whole
        return whole.of(united(whole.tasks, np.flatnonzero(self.probe).astype(np.int32))) if len(self.probe) else whole

    @property
    def own_tasks(self) -> Tasks:
        """Sorted tasks with evidence or a score of their own; all others follow their profile."""
        return self._own_rows.tasks

    def own_distributions(self, pool: Pool) -> LogitNormals:
        """[T] of these tasks."""
        return self._of_rows(pool, self._own_rows)

    def profile_distributions(self, pool: Pool) -> LogitNormals:
        """[G] of each profile's tasks that have no evidence and no score of their own."""
        location, variance, *_ = self._shared(pool.known.features)
        return LogitNormals(location, variance + self.variances.estimates[0])

    def distributions(self, pool: Pool, tasks: Tasks) -> LogitNormals:
        """[n] of the given tasks."""
        return self._of_rows(pool, self.residuals.of(tasks))

    def _of_rows(self, pool: Pool, rows: Residuals) -> LogitNormals:
        profiles = pool.profile_of.take(rows.tasks).astype(np.int64)
        if len(rows) < pool.profiles:
            shared = self._shared(pool.known.features.take(profiles, axis=1))
        else:
            shared = self._shared(pool.known.features).take(profiles, axis=1)
        mean, own, _, _ = self._residual(rows)
        features, slopes = self._own_features(rows), slice(len(pool.known.names), -1)
        spread = summed(self.effects.covariance[slopes, slopes, None] * features[:, None])
        return LogitNormals(
            shared[0] + summed(self.effects.mean[slopes, None] * features) + mean,
            shared[1] + summed((2.0 * shared[2:] + spread) * features) + own,
        )

    def _shared(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """[2 + j, n] mean and variance of what the pool's effects alone say of profiles with these features, [D, n].

        And the covariances of that with the slopes on what tasks have of their own, [j, n].
        """
        size = len(features)
        mean, covariance = self.effects.mean[:size, None], self.effects.covariance[:size, :-1, None]
        found = np.empty((2 + covariance.shape[1] - size, features.shape[1]))
        for start in range(0, features.shape[1], BLOCK):
            block, into = features[:, start : start + BLOCK], found[:, start : start + BLOCK]
            # Not by products of matrices: their last bits depend on how many profiles there are by now.
            products = summed(covariance * block[:, None])
            into[0], into[1], into[2:] = summed(mean * block), summed(products[:size] * block), products[size:]
        return found

    def estimates(self, pool: Pool) -> dict[str, float]:
        """Return the means of the effects, in logits (the velocity: a step), and the four learned variances."""
        effects = (*pool.known.names, *["probe_slope"] * (len(self.probe) > 0), "practice_slope", "velocity")
        variances = ("untried_variance", "residual_drift", "visit_variance", "ability_drift")
        return {
            **dict(zip(effects, self.effects.mean.tolist(), strict=True)),
            **dict(zip(variances, self.variances.estimates, strict=True)),
        }

    @property
    def fold_numbers(self) -> int:
        """About how many numbers a fold touches: tells whether it is quick enough for the event loop."""
        return FOLD_NUMBERS + 4 * len(self.residuals.recent)
