"""The belief of BOTS as a sum: the prior, implicit evidence of each profile, explicit evidence of each task."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Floats, Tasks, frozen
from bots_service.core.belief.betas import Betas
from bots_service.core.belief.capability import BLOCK, Capability, implied_counts, no_capability, with_implied
from bots_service.core.belief.protocol import ClosingStep
from bots_service.core.belief.tried import Past, Rows, Tried, no_tries
from bots_service.core.checks import Arrays, as_number, as_positive, require_arrays
from bots_service.core.evidence import NO_EVIDENCE, Evidence
from bots_service.core.pool import Pool

if TYPE_CHECKING:  # the settings name a kind of belief, so their module imports this one
    from bots_service.core.run_settings import RunSettings, StrategyName


@dataclass(frozen=True, slots=True)
class BotsBelief:
    """A Beta belief about every task of a pool.

    prior: alpha_0 and beta_0.
    implied: [2, G] A and B: decayed implied successes and failures of each profile.
    tried: what rollouts showed of tasks tried in recent steps, less what was implied for them.
    estimate: of c, where the model stands along the reference models.
    past: what the last closed steps booked, so that late evidence can enter with the weight that it has by now.
    """

    default_strategy: ClassVar["StrategyName"] = "thompson"
    own_settings: ClassVar[tuple[str, ...]] = (
        "forgetting",
        "implicit_weight",
        "prior",
        "capability",
        "capability_momentum",
    )

    prior: tuple[float, float]
    implied: NDArray[np.float64]
    tried: Tried
    estimate: Capability
    past: Past

    @classmethod
    def fresh(cls, settings: "RunSettings", pool: Pool) -> "BotsBelief":  # noqa: ARG003 - other kinds need it
        """Return the belief before any evidence: every task at the prior."""
        nothing = frozen(np.zeros((2, 0)))
        return cls(settings.prior, nothing, no_tries(), no_capability(), Past.empty())

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

    def forgotten_share(self, settings: "RunSettings") -> float:
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

    def own_distributions(self, pool: Pool) -> Betas:
        """[T] of the tasks with evidence of their own, without looking for each."""
        own = self.tried.whole
        return self._summed(pool, own.tasks, self.tried.scale * own.counts)

    def distributions(self, pool: Pool, tasks: Tasks) -> Betas:
        """[n] of the given tasks."""
        return self._summed(pool, tasks, self.tried.counts_of(tasks))

    def _summed(self, pool: Pool, tasks: Tasks, own: NDArray[np.float64]) -> Betas:
        """[n] of tasks with this evidence of their own, [2, n]."""
        excess = self._implied_of(pool, pool.profile_of.take(tasks))
        excess += own
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
        added = self._appended(pool, np.arange(have, profiles, dtype=np.int32))
        return replace(self, implied=frozen(np.concatenate([self.implied, added], axis=1)))

    def _implied_of(self, pool: Pool, profiles: Tasks) -> NDArray[np.float64]:
        """[2, n] the implied counts of these profiles, some of which may have no room here yet."""
        have = self.implied.shape[1]
        if pool.profiles <= have:
            return self.implied.take(profiles, axis=1)
        # Making room for ten million profiles takes long, and few are asked for.
        is_new, found = profiles >= have, np.empty((2, len(profiles)))
        found[:, ~is_new] = self.implied[:, profiles[~is_new]]
        found[:, is_new] = self._appended(pool, profiles[is_new])
        return found

    def _appended(self, pool: Pool, profiles: Tasks) -> NDArray[np.float64]:
        """[2, n] the implied counts of profiles that were appended since."""
        added = self.past.implied(pool.references[profiles])
        alike = pool.alike[profiles]
        is_known = alike < self.implied.shape[1]
        added[:, is_known] = self.implied[:, alike[is_known]]
        return added

    def fold(self, pool: Pool, step: ClosingStep, settings: "RunSettings") -> "BotsBelief":
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

    def _closed(self, pool: Pool, on_time: Evidence, step: ClosingStep, settings: "RunSettings") -> "BotsBelief":
        """Return the belief after a step whose late evidence is in already."""
        profiles = pool.profile_of.take(on_time.tasks)
        own, taught = pool.references.take(profiles, axis=0), on_time if len(on_time) else step.whole
        estimate = self._estimated(own if len(on_time) else _references(pool, taught.tasks), taught, settings)
        kept = 1.0 - settings.forgetting
        booked = settings.implicit_weight * step.rollouts
        have = self.implied.shape[1]
        if have == pool.profiles <= BLOCK:  # so few are computed once, and those of the step's tasks are among them
            counts = implied_counts(pool.references, estimate.value, booked)
            implied, unbooked = self.implied * kept, counts.take(profiles, axis=1)
            implied += counts
        else:
            implied = with_implied(self.implied, pool.references[:have], estimate.value, booked, kept=kept)
            unbooked = implied_counts(own, estimate.value, booked)
        aged = self.tried.aged(kept, step=step.number)
        return BotsBelief(
            prior=self.prior,
            implied=frozen(implied),
            tried=aged.with_counts(on_time, unbooked, weight=1.0, lag=0, step=step.number),
            estimate=estimate,
            past=self.past.then(estimate.value, booked, kept),
        )

    def _estimated(self, references: Floats, evidence: Evidence, settings: "RunSettings") -> Capability:
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

    @property
    def nbytes(self) -> int:
        """How much memory the arrays take."""
        return sum(array.nbytes for array in self.encoded()[1].values())

    def fits(self, pool: Pool) -> bool:
        """Return whether the pool has every task and every profile that the belief knows."""
        rows = (self.tried.settled.tasks, self.tried.recent.tasks)  # sorted
        knows_tasks = all(len(tasks) == 0 or tasks[-1] < len(pool) for tasks in rows)
        return knows_tasks and self.implied.shape[1] <= pool.profiles

    def encoded(self) -> tuple[dict[str, Any], Arrays]:
        """Return header and arrays."""
        settled, recent, past = self.tried.settled, self.tried.recent, self.past
        header = {
            "prior": self.prior,
            "capability": self.capability,
            "scale": self.tried.scale,
        }
        return header, {
            "implied": self.implied,
            "settled_counts": settled.counts,
            "settled_steps": settled.steps,
            "recent_counts": recent.counts,
            "recent_steps": recent.steps,
            "capability_sums": self.estimate.sums,
            "past_capability": past.capability,
            "past_booked": past.booked,
            "past_kept": past.kept,
            "settled_tasks": settled.tasks,
            "settled_last_step": settled.last_step,
            "recent_tasks": recent.tasks,
            "recent_last_step": recent.last_step,
        }

    @classmethod
    def decoded(cls, header: Mapping[str, Any], arrays: Arrays) -> "BotsBelief":
        """Return the belief that was encoded.

        Raises:
            LookupError, TypeError, ValueError: header or arrays are not those of a belief.
        """
        require_arrays(arrays, _shapes(arrays))
        (alpha, beta), capability = header["prior"], header["capability"]
        return cls(
            prior=(as_positive(alpha), as_positive(beta)),
            implied=arrays["implied"],
            tried=Tried(_rows("settled", arrays), _rows("recent", arrays), as_positive(header["scale"])),
            estimate=Capability(None if capability is None else as_number(capability), arrays["capability_sums"]),
            past=Past(*(arrays[f"past_{name}"] for name in ("capability", "booked", "kept"))),
        )


def _rows(table: str, arrays: Arrays) -> Rows:
    return Rows(*(arrays[f"{table}_{name}"] for name in ("tasks", "counts", "steps", "last_step")))


def _shapes(arrays: Arrays) -> dict[str, tuple[Any, ...]]:
    """Return the types and shapes that a belief's arrays must have, all of one length where they belong together."""
    settled, recent = len(arrays["settled_tasks"]), len(arrays["recent_tasks"])
    return {
        "implied": ("<f8", 2, arrays["implied"].shape[-1]),
        "settled_counts": ("<f8", 2, settled),
        "settled_steps": ("<u8", settled),
        "recent_counts": ("<f8", 2, recent),
        "recent_steps": ("<u8", recent),
        "capability_sums": ("<f8", 2, arrays["capability_sums"].shape[-1]),
        **{f"past_{name}": ("<f8", len(arrays["past_kept"])) for name in ("capability", "booked", "kept")},
        **{f"settled_{name}": ("<i4", settled) for name in ("tasks", "last_step")},
        **{f"recent_{name}": ("<i4", recent) for name in ("tasks", "last_step")},
    }


def _references(pool: Pool, tasks: Tasks) -> Floats:
    """Return the reference pass rates of these tasks, [n, M]."""
    return pool.references.take(pool.profile_of.take(tasks), axis=0)
