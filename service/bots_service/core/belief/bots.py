"""The belief of BOTS as a sum: the prior, implicit evidence of each profile, explicit evidence of each task."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Floats, Tasks, frozen
from bots_service.core.belief.betas import Betas
from bots_service.core.belief.capability import NO_CAPABILITY, Capability, implied_counts, with_implied
from bots_service.core.belief.protocol import Belief, ClosingStep
from bots_service.core.belief.tried import NO_TRIES, NOTHING_PAST, Past, Tried
from bots_service.core.evidence import NO_EVIDENCE, Evidence
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings


@dataclass(frozen=True, slots=True)
class BotsBelief(Belief):
    """A Beta belief about every task of a pool.

    prior: alpha_0 and beta_0.
    implied: [2, G] A and B: decayed implied successes and failures of each profile.
    tried: what rollouts showed of tasks tried in recent steps, less what was implied for them.
    estimate: of c, where the model stands along the reference models.
    past: what the last closed steps booked, so that late evidence can enter with the weight that it has by now.
    """

    prior: tuple[float, float]
    implied: NDArray[np.float64]
    tried: Tried
    estimate: Capability
    past: Past

    @classmethod
    def fresh(cls, settings: RunSettings, pool: Pool) -> "BotsBelief":  # noqa: ARG003 - other kinds need it
        """Return the belief before any evidence: every task at the prior."""
        nothing = frozen(np.zeros((2, 0)))
        return cls(settings.prior, nothing, NO_TRIES, NO_CAPABILITY, NOTHING_PAST)

    @property
    def capability(self) -> float | None:
        """c; None before the first estimate."""
        return self.estimate.value

    @property
    def longest_lag(self) -> int:
        """How many steps late evidence may come: as many as are remembered."""
        return len(self.past)

    def estimates(self, pool: Pool) -> dict[str, float]:  # noqa: ARG002 - other kinds need it
        """Return the capability, once there is one."""
        return {} if self.capability is None else {"capability": self.capability}

    def forgotten_share(self, settings: RunSettings) -> float:
        """Return lambda."""
        return settings.forgetting

    @property
    def own_tasks(self) -> Tasks:
        """Sorted tasks with evidence of their own; all others follow their profile."""
        return self.tried.whole.tasks

    def profile_distributions(self, pool: Pool) -> Betas:
        """[G] of tasks without evidence of their own."""
        implied = self.extended(pool, pool.profiles).implied
        return Betas(self.prior[0] + implied[0], self.prior[1] + implied[1], self.prior)

    def distributions(self, pool: Pool, tasks: Tasks) -> Betas:
        """[n] of the given tasks."""
        excess = self.extended(pool, pool.profiles).implied.take(pool.profile_of.take(tasks), axis=1)
        excess += self.tried.counts_of(tasks)
        # In exact arithmetic neither sum can fall below zero: what was taken off had been booked. Rounding can.
        np.maximum(excess, 0.0, out=excess)
        return Betas(self.prior[0] + excess[0], self.prior[1] + excess[1], self.prior)

    def extended(self, pool: Pool, profiles: int) -> "BotsBelief":
        """Return the belief with room for profiles that were appended since.

        A new profile starts with what the remembered steps would have implied for it, as if it had been there; or
        with what one that differs only by its tags has, for here tags say nothing.
        """
        have = self.implied.shape[1]
        if profiles <= have:
            return self
        if not (have or len(self.past)):  # the first step of a run makes room for its whole pool
            return replace(self, implied=frozen(np.zeros((2, profiles))))
        added = self.past.implied(pool.references[have:profiles])
        alike = pool.alike[have:profiles]
        is_known = alike < have
        added[:, is_known] = self.implied[:, alike[is_known]]
        return replace(self, implied=frozen(np.concatenate([self.implied, added], axis=1)))

    def fold(self, pool: Pool, step: ClosingStep, settings: RunSettings) -> "BotsBelief":
        """Return the belief after one closed step.

        Late evidence is put where it would stand by now; then the step closes with the evidence that was on time. c is
        estimated from the evidence on time, and from the late evidence only where nothing came on time: a pipelined
        trainer, whose every report is one step late, has no other.
        """
        belief, on_time = self, NO_EVIDENCE
        for lag, evidence in step.batches:
            if lag == 0:
                on_time = evidence
            else:
                belief = belief._with_late(pool, evidence, lag=lag, step=step.number)
        return belief._closed(pool, on_time, step, settings)

    def _with_late(self, pool: Pool, late: Evidence, *, lag: int, step: int) -> "BotsBelief":
        """Return the belief as if this evidence had been there `lag` steps ago, and c the same all the same.

        a_k' = a_k + w (s_k - rho m q_k(c of that step)), w = (1 - lambda)^lag counting up to the last closed step.

        Args:
            pool: the tasks.
            late: each task once, ascending.
            lag: how many steps closed since the evidence was due, 1 to `longest_lag`.
            step: the number of the step that is about to close.
        """
        capability, booked, kept_since = self.past.at(lag)
        unbooked = implied_counts(_references(pool, late.tasks), capability, booked)
        tried = self.tried.with_counts(late, unbooked, weight=kept_since, lag=lag, step=step)
        return replace(self, tried=tried)

    def _closed(self, pool: Pool, on_time: Evidence, step: ClosingStep, settings: RunSettings) -> "BotsBelief":
        """Return the belief after a step whose late evidence is in already."""
        own, taught = _references(pool, on_time.tasks), on_time if len(on_time) else step.whole
        estimate = self._estimated(own if len(on_time) else _references(pool, taught.tasks), taught, settings)
        kept = 1.0 - settings.forgetting
        booked = settings.implicit_weight * step.rollouts
        unbooked = implied_counts(own, estimate.value, booked)
        references = pool.references[: self.implied.shape[1]]
        aged = self.tried.aged(kept, step=step.number)
        return BotsBelief(
            prior=self.prior,
            implied=frozen(with_implied(self.implied, references, estimate.value, booked, kept=kept)),
            tried=aged.with_counts(on_time, unbooked, weight=1.0, lag=0, step=step.number),
            estimate=estimate,
            past=self.past.then(estimate.value, booked, kept),
        )

    def _estimated(self, references: Floats, evidence: Evidence, settings: RunSettings) -> Capability:
        """Return the estimate of c after a step that brought this evidence, of tasks with these references, [n, M]."""
        return self.estimate.after(
            references,
            evidence.successes / (evidence.successes + evidence.failures),
            rule=settings.capability,
            momentum=settings.capability_momentum,
        )

    def forgotten(self, tasks: Tasks) -> "BotsBelief":
        """Return the belief without the counts of these tasks' own."""
        return replace(self, tried=self.tried.without(tasks))

    @property
    def fold_numbers(self) -> int:
        """About how many numbers a fold touches."""
        return self.implied.size + 4 * (len(self.tried.settled) + len(self.tried.recent))

    def fits(self, pool: Pool) -> bool:
        """Return whether the pool has every profile that the belief knows."""
        return bool(self.implied.shape[1] <= pool.profiles)


def _references(pool: Pool, tasks: Tasks) -> Floats:
    """Return the reference pass rates of these tasks, [n, M]."""
    return pool.references.take(pool.profile_of.take(tasks), axis=0)
