"""The tracker: a belief that follows the model's ability, and learns how fast to forget and what references tell."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Floats, Tasks, frozen
from bots_service.core.belief.logit_normals import LogitNormals
from bots_service.core.belief.protocol import Belief, ClosingStep
from bots_service.core.belief.tracker_filter import (
    Effects,
    LaggedEvidence,
    Variances,
    absorb,
    first_effects,
    first_variances,
)
from bots_service.core.evidence import Evidence
from bots_service.core.pool import Pool
from bots_service.core.portable_math import summed
from bots_service.core.rows import LayeredRows, TaskRows
from bots_service.core.run_settings import RunSettings

BLOCK = 2048  # profiles at a time: their numbers stay in the processor's cache
FOLD_NUMBERS = 20_000  # a fold of 32 tasks takes as long as one that touches so many numbers


@dataclass(frozen=True, slots=True)
class Residuals(TaskRows):
    """How tasks that were tried differ from what their profiles say: N(mean, variance) of the logit, as of `last_step`.

    mean, variance: [R].
    last_step: [R] the number of the last step that brought evidence of the task.
    """

    mean: Floats
    variance: Floats
    last_step: NDArray[np.int32]


_NOTHING, _NO_NUMBER = frozen(np.empty(0, np.int32)), frozen(np.empty(0))
NO_RESIDUALS = Residuals(_NOTHING, _NO_NUMBER, _NO_NUMBER, _NOTHING)


@dataclass(frozen=True)
class TrackerBelief(Belief):
    """A Gaussian belief about every task's logit; docs/tracker.md has the equations, `tracker_filter` the filter.

    step: how many steps closed.
    effects: what tasks share.
    variances: how fast things drift, and how much untried tasks differ.
    residuals: of tasks that were tried; their variances grow from then on, which is added when they are read.
    """

    step: int
    effects: Effects
    variances: Variances
    residuals: LayeredRows[Residuals]

    @classmethod
    def fresh(cls, settings: RunSettings, pool: Pool) -> "TrackerBelief":  # noqa: ARG003 - it has no settings
        """Return the belief before any evidence."""
        return cls(
            0,
            first_effects(pool.models, len(pool.offset_tags), len(pool.prediction_names)),
            first_variances(),
            LayeredRows(NO_RESIDUALS, NO_RESIDUALS),
        )

    # --- what changes it ---------------------------------------------------------------------------------------------

    @property
    def longest_lag(self) -> int:
        """As many steps as closed: no evidence of this run comes too late, for it observes what was then."""
        return self.step

    def fold(self, pool: Pool, step: ClosingStep, settings: RunSettings) -> "TrackerBelief":  # noqa: ARG002
        """Return the belief after one closed step."""
        undrifted = self.effects.a_step_later()
        _, _, ability_drift = self.variances.estimates
        belief = replace(self, step=step.number, effects=undrifted.drifted(ability_drift))
        for place, (lag, evidence) in enumerate(step.batches):
            # One batch a step tells how fast the ability drifts.
            belief = belief._after(pool, evidence, lag, None if place else undrifted)
        return belief

    def forgotten(self, tasks: Tasks) -> "TrackerBelief":
        """Return the belief without the residuals of these tasks."""
        return replace(self, residuals=self.residuals.without(tasks))

    def _after(self, pool: Pool, evidence: Evidence, lag: int, undrifted: Effects | None) -> "TrackerBelief":
        """Return the belief after one batch of the step that closes."""
        rows = self.residuals.of(evidence.tasks)
        features = pool.features.take(pool.profile_of.take(evidence.tasks), axis=1)
        batch = LaggedEvidence(features, evidence.successes, evidence.failures, lag, *self._residual(rows))
        found = absorb(self.effects, self.variances, batch, undrifted)
        rows = Residuals(evidence.tasks, found.residual, found.variance, np.full(len(rows), self.step, np.int32))
        residuals = self.residuals.with_rows(rows.frozen())
        return TrackerBelief(self.step, found.effects, found.variances, residuals)

    def _residual(self, rows: Residuals) -> tuple[Floats, Floats, NDArray[np.bool_], Floats]:
        """Return the residuals' means and variances now, whether each task was tried, and how many steps ago; [n]."""
        tau2, kappa, _ = self.variances.estimates
        tried = rows.variance > 0.0  # 0 in the rows of tasks of which nothing is known
        age = np.where(tried, self.step - rows.last_step, 0.0)
        return rows.mean, np.where(tried, rows.variance + kappa * age, tau2), tried, age

    # --- what it says of tasks ---------------------------------------------------------------------------------------

    @property
    def own_tasks(self) -> Tasks:
        """Sorted tasks that were tried."""
        return self.residuals.whole.tasks

    def profile_distributions(self, pool: Pool) -> LogitNormals:
        """[G] of tasks that were never tried."""
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

    # --- what it says of itself --------------------------------------------------------------------------------------

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
        """About how many numbers a fold touches."""
        return FOLD_NUMBERS + 4 * len(self.residuals.recent)
