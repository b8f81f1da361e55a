"""The belief of BOTS as a sum: the prior, implicit evidence of each profile, explicit evidence of each task."""

import math
from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import (
    NO_TASKS,
    Floats,
    LayeredRows,
    Scores,
    TaskRows,
    Tasks,
    are_many,
    frozen,
    ordered_sum,
)
from bots_service.core.belief.distributions import Betas
from bots_service.core.evidence import NO_EVIDENCE, ClosingStep, Evidence
from bots_service.core.pool import Pool
from bots_service.core.portable_math import summed_rows
from bots_service.core.run_settings import CapabilityRule, RunSettings
from bots_service.errors import InvalidSettingsError

BLOCK = 1 << 14  # rows read at a time: intermediate values then stay in the processor's cache


def implied_rates(references: Floats, capability: float) -> Floats:
    """Return q, the implied success probability of each row: clip(w + c (r - w), 0, 1), [G]; NaN where r is unknown.

    references: [G, M] pass rates, weakest model first; c: the position along them, also beyond [0, M - 1].
    """
    models = references.shape[1]
    if models == 0:
        return np.full(len(references), np.nan)
    if models == 1:
        rates = capability * references[:, 0]
    else:
        below = int(min(max(math.floor(capability), 0), models - 2))
        weak = references[:, below]
        rates = references[:, below + 1] - weak
        rates *= capability - below
        rates += weak
    return rates.clip(0.0, 1.0, out=rates)


def implied_counts(references: Floats, capability: float | None, booked: float) -> NDArray[np.float64]:
    """Return what one step implies for each row, [2, G]: rho m q successes and rho m (1 - q) failures.

    Rows of unknown pass rates, and all where c is None, get zeros. booked: rho m.
    """
    if capability is None or booked == 0.0:
        return np.zeros((2, len(references)))
    counts = np.empty((2, len(references)))
    np.multiply(implied_rates(references, capability), booked, out=counts[0])
    np.subtract(booked, counts[0], out=counts[1])
    unknown = np.isnan(counts[0])
    if np.count_nonzero(unknown):
        counts[:, unknown] = 0.0
    return counts


def with_implied(
    counts: NDArray[np.float64], references: Floats, capability: float | None, booked: float, *, kept: float
) -> NDArray[np.float64]:
    """Return implied counts one step later, [2, G]: the share `kept` of what they were, and what the step implies."""
    grown = np.empty_like(counts)
    for start in range(0, len(references), BLOCK):
        rows = slice(start, start + BLOCK)
        block = np.multiply(counts[:, rows], kept, out=grown[:, rows])
        block += implied_counts(references[rows], capability, booked)
    return grown


# Keeps the paper's quotient finite where both references agree on the batch; the reference implementation's value.
TINY = 1e-6
# References whose means are closer than this say nothing to the quotient: it would be a thousand times the noise.
LEAST_GAP = 1e-3


@dataclass(frozen=True, slots=True)
class Capability:
    """An estimate of c.

    value: c; None before the first batch that has a task whose references are all known.
    sums: [2, P] S, the sum of d^2, and T, the sum of d (y - w), over all batches, fading by the momentum at each,
        of each of the P pairs of neighbouring references w and r = w + d, weakest first. y is what the model in
        training reached. P is 0 before the first such batch.
    """

    value: float | None
    sums: NDArray[np.float64]

    def after(self, references: Floats, pass_rates: Floats, *, rule: CapabilityRule, momentum: float) -> "Capability":
        """Return the estimate after one more batch.

        references: [B, M] pass rates of the reference models on the batch's tasks; rows with NaN say nothing.
        pass_rates: [B] y. momentum: gamma, the share that a batch leaves of what was remembered. Both rules keep the
        sums, so that a run can go from one to the other.
        """
        references, pass_rates = _of_known(references, pass_rates)
        if len(references) == 0:
            return self
        sums = _batch_sums(references, pass_rates)
        if self.sums.shape[1]:
            sums += momentum * self.sums
        if rule == "least_squares":
            value: float | None = least_squares(sums)
        else:  # the first c_hat as it is, then gamma c + (1 - gamma) c_hat; without one, c stays
            value, found = self.value, quotient(references, pass_rates)
            if found is not None:
                value = found if value is None else momentum * value + (1.0 - momentum) * found
        return Capability(value, frozen(sums))


def _of_known(references: Floats, pass_rates: Floats) -> tuple[Floats, Floats]:
    """Return the rows whose references are all known, [n, M >= 2], with their pass rates; none without models."""
    if references.shape[1] == 0:
        return references[:0], pass_rates[:0]
    if np.count_nonzero(unknown := np.isnan(references)):
        known = ~unknown.any(axis=1)
        references, pass_rates = references[known], pass_rates[known]
    if references.shape[1] == 1:  # the strong one; the weak one solves nothing
        references = np.concatenate([np.zeros_like(references), references], axis=1)
    return references, pass_rates


NO_CAPABILITY = Capability(None, frozen(np.zeros((2, 0))))


def _batch_sums(references: Floats, pass_rates: Floats) -> NDArray[np.float64]:
    rates = references.T
    parts = np.empty((2, len(rates) - 1, len(references)))  # of each task: d, then d * d, and y - w, then d * (y - w)
    gaps, excess = np.subtract(rates[1:], rates[:-1], out=parts[0]), np.subtract(pass_rates, rates[:-1], out=parts[1])
    excess *= gaps
    gaps *= gaps
    return summed_rows(parts).copy()


def least_squares(sums: NDArray[np.float64]) -> float:
    """Return the c that minimises the sum of (y - q(c))^2, plus (c - (M - 1) / 2)^2.

    q is linear between neighbouring references, so the sum is a parabola in each of the P >= 1 segments; S and T tell
    its shape and how far it starts above the one before. Without the last term, which stands for no data, c of
    references that agree would be noise divided by nothing. With two references this is c = (T + 1/2) / (S + 1).
    """
    segments = sums.shape[1]
    middle = segments / 2
    best: float = middle
    least, start = math.inf, 0.0
    pairs: list[tuple[float, float]] = sums.T.tolist()
    for below, (squares, products) in enumerate(pairs):
        share = (products + middle - below) / (squares + 1.0)
        # Only the outermost segments extend beyond their ends.
        share = max(share, 0.0) if below else share
        share = min(share, 1.0) if below < segments - 1 else share
        cost = start + share * (share * squares - 2.0 * products) + (below + share - middle) ** 2
        if cost < least:
            best, least = below + share, cost
        start += squares - 2.0 * products
    return best


def quotient(references: Floats, pass_rates: Floats) -> float | None:
    """Return c_hat = (mean(y) - mean(w)) / (mean(r) - mean(w) + 1e-6), BOTS (arXiv:2510.26374).

    Of more than two references, w and r are the neighbours between whose means mean(y) lies; None where they agree.
    references: [B, M >= 2], all known; pass_rates: [B] y.
    """
    means = [ordered_sum(column) / len(column) for column in references.T]
    reached = ordered_sum(pass_rates) / len(pass_rates)
    # The running maximum orders the means for the search; the quotient keeps the means themselves.
    rising = list(accumulate(means, max))
    below = min(max(bisect_right(rising, reached) - 1, 0), len(means) - 2)
    gap = means[below + 1] - means[below] + TINY
    if abs(gap) < LEAST_GAP:
        return None
    return below + (reached - means[below]) / gap


@dataclass(frozen=True, slots=True)
class Rows(TaskRows):
    """Evidence of some tasks.

    counts: [2, R] of success and of failure; last_step: [R] the number of the last step that brought any.
    steps: [R] bit j is set if the task was tried in the step that closed j steps before its last one.
    """

    counts: NDArray[np.float64]
    steps: NDArray[np.uint64]
    last_step: NDArray[np.int32]


NO_ROWS = Rows(NO_TASKS, frozen(np.empty((2, 0))), frozen(np.empty(0, np.uint64)), NO_TASKS)

REMEMBERED = 64  # steps; evidence later than that counts for nothing, and the answer says so


@dataclass(frozen=True, slots=True)
class NewestSteps:
    """The newest closed steps, at most 64.

    steps: [3, S], oldest first: c after each step, NaN where there was none yet; rho m, what each step booked for every
        task by its implied rate; and 1 - lambda of each step.
    """

    steps: NDArray[np.float64]

    def __len__(self) -> int:
        return int(self.steps.shape[1])

    def then(self, capability: float | None, booked: float, kept: float) -> "NewestSteps":
        """Return the past with one more closed step."""
        newest = np.array([[np.nan if capability is None else capability], [booked], [kept]])
        return NewestSteps(frozen(np.concatenate([self.steps[:, -REMEMBERED + 1 :], newest], axis=1)))

    def at(self, lag: int) -> tuple[float | None, float, float]:
        """Return c and rho m of the step that closed `lag` steps ago, 1 for the newest, and the share kept of it."""
        capability, booked, _ = self.steps[:, -lag].tolist()
        kept_since = 1.0
        for kept in self.steps[2, len(self) - lag + 1 :].tolist():
            kept_since *= kept
        return (None if np.isnan(capability) else capability), booked, kept_since

    def implied(self, references: Floats) -> NDArray[np.float64]:
        """Return [2, G] the implied counts that these steps leave in new profiles with these pass rates, [G, M]."""
        counts = np.zeros((2, len(references)))
        for capability, booked, kept in self.steps.T.tolist():
            known = None if np.isnan(capability) else capability
            counts = with_implied(counts, references, known, booked, kept=kept)
        return counts


NOTHING_PAST = NewestSteps(frozen(np.empty((3, 0))))

FADED = 1e-9  # pseudo-counts below this no longer move a belief whose prior is about 1
LEAST_SCALE = 1e-60  # new counts are divided by it, and stay far from the largest double
SETTLED_EVERY = 64  # steps, at the latest
ONE = np.uint64(1)


@dataclass(frozen=True)
class RecentEvidence(LayeredRows[Rows]):
    """Evidence of tasks tried in recent steps, less what was implied for them; all counts are to be scaled, by > 0."""

    scale: float

    def counts_of(self, tasks: Tasks) -> NDArray[np.float64]:
        """Return decayed successes and failures, less the implied ones, [2, n]; 0 for tasks not tried recently."""
        return self.scale * self.of(tasks).counts

    def aged(self, kept: float, *, step: int) -> "RecentEvidence":
        """Return the evidence one step later, when the step of this number closes."""
        scale = self.scale * kept
        if scale >= LEAST_SCALE and step % SETTLED_EVERY and not are_many(self.recent, self.settled):
            return self.knowing(RecentEvidence(self.settled, self.recent, scale))
        rows = replace(self.whole, counts=frozen(scale * self.whole.counts))
        alive = step - rows.last_step < REMEMBERED
        if not alive.all():
            alive |= np.abs(rows.counts).max(axis=0) >= FADED
        return RecentEvidence(rows.where(alive), NO_ROWS, 1.0)

    def with_counts(
        self, evidence: Evidence, unbooked: NDArray[np.float64], *, weight: float, lag: int, step: int
    ) -> "RecentEvidence":
        """Return the evidence with more of one step, each task once, ascending.

        unbooked: [2, n] what was implied for these tasks at that step; taken off once a task and step.
        weight: the share of that step's evidence which is not forgotten yet.
        lag: 0 for the step that closes, which has the number `step`, 1 for the one before, up to 64.
        """
        if len(evidence) == 0:
            return self
        rows = self.of(evidence.tasks)
        since = (step - rows.last_step).astype(np.uint64)
        # A step after the task's last one is a shift by less than 0, which wraps to a huge one and so gives 0.
        first_then = (rows.steps >> (np.uint64(lag) - since)) & ONE == 0
        counts = first_then * unbooked
        np.subtract(evidence.successes, counts[0], out=counts[0])
        np.subtract(evidence.failures, counts[1], out=counts[1])
        counts *= weight / self.scale
        counts += rows.counts
        steps = (rows.steps << since) | np.uint64((1 << lag) % 2**64)  # 64 steps ago nobody remembers
        newer = Rows(evidence.tasks, counts, steps, np.full(len(evidence), step, np.int32))
        return RecentEvidence(self.settled, self.recent.overlaid(newer.frozen()), self.scale)


NO_TRIES = RecentEvidence(NO_ROWS, NO_ROWS, 1.0)


@dataclass(frozen=True, slots=True)
class BotsBelief:
    """A Beta belief about every task of a pool.

    prior: alpha_0 and beta_0; implied: [2, G] A and B: decayed implied successes and failures of each profile.
    tried: what rollouts showed of tasks tried in recent steps, less what was implied for them.
    past: what the last closed steps booked, so that late evidence can enter with the weight that it has by now.
    """

    prior: tuple[float, float]
    implied: NDArray[np.float64]
    tried: RecentEvidence
    estimate: Capability
    past: NewestSteps

    @classmethod
    def fresh(cls, settings: RunSettings, pool: Pool) -> "BotsBelief":  # noqa: ARG003 - other kinds need it
        """Return the belief before any evidence: every task at the prior."""
        nothing = frozen(np.zeros((2, 0)))
        return cls(settings.prior, nothing, NO_TRIES, NO_CAPABILITY, NOTHING_PAST)

    @property
    def capability(self) -> float | None:
        """c, where the model stands along the references; None before the first estimate."""
        return self.estimate.value

    @property
    def longest_lag(self) -> int:
        """How many steps late evidence may come and still count."""
        return len(self.past)

    def estimates(self, pool: Pool) -> dict[str, float]:  # noqa: ARG002 - other kinds need it
        """Return the capability, once there is one."""
        return {} if self.capability is None else {"capability": self.capability}

    @property
    def own_tasks(self) -> Tasks:
        """Sorted tasks with evidence of their own; all others follow their profile."""
        return self.tried.whole.tasks

    def profile_distributions(self, pool: Pool) -> Betas:
        """[G] of each profile's tasks that have no evidence of their own."""
        implied = self.extended(pool, pool.profiles).implied
        return Betas(self.prior[0] + implied[0], self.prior[1] + implied[1], self.prior)

    def own_distributions(self, pool: Pool) -> Betas:
        """[T] of the tasks with evidence of their own."""
        own = self.tried.whole
        return self._with(pool, own.tasks, self.tried.scale * own.counts)

    def distributions(self, pool: Pool, tasks: Tasks) -> Betas:
        """[n] of the given tasks."""
        return self._with(pool, tasks, self.tried.counts_of(tasks))

    def _with(self, pool: Pool, tasks: Tasks, own: NDArray[np.float64]) -> Betas:
        excess = self.extended(pool, pool.profiles).implied.take(pool.profile_of.take(tasks), axis=1)
        excess += own
        # In exact arithmetic neither sum can fall below zero: what was taken off had been booked. Rounding can.
        np.maximum(excess, 0.0, out=excess)
        return Betas(self.prior[0] + excess[0], self.prior[1] + excess[1], self.prior)

    def probed(self, scores: Scores) -> "BotsBelief":  # noqa: ARG002 - the tracker needs it
        """Raise InvalidSettingsError: a probe has no place here."""
        raise InvalidSettingsError("the belief 'bots' makes no use of a probe; create a run with the belief 'tracker'")

    def extended(self, pool: Pool, profiles: int) -> "BotsBelief":
        """Return the belief with room for so many profiles.

        A new one starts with what the remembered steps would have implied for it; or with what one that differs only by
        its tags has, for here tags say nothing.
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

    def fold(self, pool: Pool, step: ClosingStep, settings: RunSettings) -> tuple["BotsBelief", Betas]:
        """Return the belief after one closed step, and what was expected of the step's tasks.

        Every profile of the pool has room in this belief.

        Late evidence is put where it would stand by now, c the same all the same: a_k' = a_k + w (s_k - rho m q_k(c of
        that step)), w = (1 - lambda)^lag. c is estimated from late evidence only where nothing came on time: a
        pipelined trainer, whose every report is one step late, has no other.
        """
        tried, on_time = self.tried, NO_EVIDENCE
        for lag, evidence in step.batches:
            if lag == 0:
                on_time = evidence
                continue
            capability, booked, kept_since = self.past.at(lag)
            unbooked = implied_counts(_references(pool, evidence.tasks), capability, booked)
            tried = tried.with_counts(evidence, unbooked, weight=kept_since, lag=lag, step=step.number)
        own, taught = _references(pool, on_time.tasks), on_time if len(on_time) else step.whole
        estimate = self.estimate.after(
            own if len(on_time) else _references(pool, taught.tasks),
            taught.successes / (taught.successes + taught.failures),
            rule=settings.capability,
            momentum=settings.capability_momentum,
        )
        kept, booked, have = 1.0 - settings.forgetting, settings.implicit_weight * step.rollouts, self.implied.shape[1]
        if have == pool.profiles <= BLOCK:  # so few are computed once, and those of the step's tasks are among them
            counts = implied_counts(pool.references, estimate.value, booked)
            implied, unbooked = self.implied * kept + counts, counts.take(pool.profile_of.take(on_time.tasks), axis=1)
        else:
            implied = with_implied(self.implied, pool.references[:have], estimate.value, booked, kept=kept)
            unbooked = implied_counts(own, estimate.value, booked)
        tried = tried.aged(kept, step=step.number)
        tried = tried.with_counts(on_time, unbooked, weight=1.0, lag=0, step=step.number)
        past = self.past.then(estimate.value, booked, kept)
        expected = self.distributions(pool, step.whole.tasks)
        return BotsBelief(self.prior, frozen(implied), tried, estimate, past), expected

    @property
    def fold_numbers(self) -> int:
        """About how many numbers a fold touches: tells whether it is quick enough for the event loop."""
        return self.implied.size + 4 * (len(self.tried.settled) + len(self.tried.recent))

    def fits(self, pool: Pool) -> bool:
        """Return whether the pool has every profile that the belief knows."""
        return bool(self.implied.shape[1] <= pool.profiles)


def _references(pool: Pool, tasks: Tasks) -> Floats:
    return pool.references.take(pool.profile_of.take(tasks), axis=0)
