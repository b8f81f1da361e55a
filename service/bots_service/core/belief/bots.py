"""The belief of BOTS as a sum: the prior, implicit evidence of each profile, explicit evidence of each task."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Floats, Tasks, frozen
from bots_service.core.belief.capability import Capability, implied_counts, no_capability, with_implied
from bots_service.core.belief.tried import Past, Tried, no_tries
from bots_service.core.evidence import Evidence
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings


@dataclass(frozen=True, slots=True)
class BetaSum:
    """A Beta belief about every task of a pool.

    prior: alpha_0 and beta_0.
    implied: [2, G] A and B: decayed implied successes and failures of each profile.
    tried: what rollouts showed of tasks tried lately, less what was implied for them.
    estimate: of c, where the model stands along the reference models.
    past: what the last closed steps booked, so that late evidence can enter with the weight that it has by now.
    """

    prior: tuple[float, float]
    implied: NDArray[np.float64]
    tried: Tried
    estimate: Capability
    past: Past

    @property
    def capability(self) -> float | None:
        """c; None before the first estimate."""
        return self.estimate.value

    @property
    def apart(self) -> Tasks:
        """Sorted tasks with evidence of their own; all others follow their profile."""
        return self.tried.whole.tasks

    def of_profiles(self, pool: Pool) -> tuple[Floats, Floats]:
        """Return alpha and beta, each [G], of tasks without evidence of their own."""
        implied = self.extended(pool, pool.profiles).implied
        return self.prior[0] + implied[0], self.prior[1] + implied[1]

    def of_apart(self, pool: Pool) -> tuple[Floats, Floats]:
        """Return alpha and beta, each [T], of the tasks apart, without looking for each."""
        own = self.tried.whole
        return self._summed(pool, own.tasks, self.tried.scale * own.counts)

    def of_tasks(self, pool: Pool, tasks: Tasks) -> tuple[Floats, Floats]:
        """Return alpha and beta, each [n], of the given tasks."""
        return self._summed(pool, tasks, self.tried.counts_of(tasks))

    def _summed(self, pool: Pool, tasks: Tasks, own: NDArray[np.float64]) -> tuple[Floats, Floats]:
        """Return alpha and beta, each [n], of tasks with this evidence of their own, [2, n]."""
        excess = self.extended(pool, pool.profiles).implied.take(pool.profile_of.take(tasks), axis=1)
        excess += own
        # In exact arithmetic neither sum can fall below zero: what was taken off had been booked. Rounding can.
        np.maximum(excess, 0.0, out=excess)
        return self.prior[0] + excess[0], self.prior[1] + excess[1]

    def mean(self, pool: Pool, tasks: Tasks) -> Floats:
        """Return the expected success probability of the given tasks, [n]."""
        alpha, beta = self.of_tasks(pool, tasks)
        return alpha / (alpha + beta)

    def extended(self, pool: Pool, profiles: int) -> "BetaSum":
        """Return the belief with room for profiles that were appended since.

        A new profile starts with what the remembered steps would have implied for it, as if it had been there.
        """
        have = self.implied.shape[1]
        if profiles <= have:
            return self
        added = self.past.implied(pool.references[have:profiles])
        return replace(self, implied=frozen(np.concatenate([self.implied, added], axis=1)))

    def with_late(self, pool: Pool, late: Evidence, *, lag: int, step: int) -> "BetaSum":
        """Return the belief as if this evidence had been there `lag` steps ago, and c the same all the same.

        a_k' = a_k + w (s_k - rho m q_k(c of that step)), w = (1 - lambda)^lag counting up to the last closed step.

        Args:
            pool: the tasks.
            late: each task once, ascending.
            lag: how many steps closed since the evidence was due, 1 to `len(past)`.
            step: the number of the step that is about to close.
        """
        capability, booked, kept_since = self.past.at(lag)
        unbooked = implied_counts(_references(pool, late.tasks), capability, booked)
        tried = self.tried.with_counts(late, unbooked, weight=kept_since, lag=lag, step=step)
        return replace(self, tried=tried)

    def fold(
        self,
        pool: Pool,
        evidence: Evidence,
        settings: RunSettings,
        *,
        estimating: Evidence,
        rollouts: float,
        step: int,
    ) -> "BetaSum":
        """Return the belief after one closed step.

        Args:
            pool: the tasks; every profile in it has room in this belief.
            evidence: each task once, ascending; empty where the step brought nothing on time.
            settings: lambda, rho, gamma and the rule for c of this step.
            estimating: each task once, ascending; what c is estimated from.
            rollouts: m, how many rollouts one implied observation stands for.
            step: the number of the step that closes.
        """
        estimate = self._estimated(pool, estimating, settings)
        kept = 1.0 - settings.forgetting
        booked = settings.implicit_weight * rollouts
        references = pool.references[: self.implied.shape[1]]
        unbooked = implied_counts(_references(pool, evidence.tasks), estimate.value, booked)
        return BetaSum(
            prior=self.prior,
            implied=frozen(with_implied(self.implied, references, estimate.value, booked, kept=kept)),
            tried=self.tried.aged(kept, step=step).with_counts(evidence, unbooked, weight=1.0, lag=0, step=step),
            estimate=estimate,
            past=self.past.then(estimate.value, booked, kept),
        )

    def _estimated(self, pool: Pool, evidence: Evidence, settings: RunSettings) -> Capability:
        """Return the estimate of c after a step that brought this evidence."""
        return self.estimate.after(
            _references(pool, evidence.tasks),
            evidence.successes / (evidence.successes + evidence.failures),
            rule=settings.capability,
            momentum=settings.capability_momentum,
        )


def fresh_belief(prior: tuple[float, float], profiles: int) -> BetaSum:
    """Return the belief before any evidence: every task at the prior."""
    return BetaSum(prior, frozen(np.zeros((2, profiles))), no_tries(), no_capability(), Past.empty())


def _references(pool: Pool, tasks: Tasks) -> Floats:
    """Return the reference pass rates of these tasks, [n, M]."""
    return pool.references.take(pool.profile_of.take(tasks), axis=0)
