"""The state of a run, and `advance`: the only way from one state to the next.

A run's state is a pure function of a prefix of its journal. Replay is a loop over `advance`, and two processes that
fold the same entries get the same bytes; so whatever the fold reads stands here.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bots_service.core.arrays import Floats
from bots_service.core.attempts import Attempts, no_attempts
from bots_service.core.belief.kinds import KINDS
from bots_service.core.belief.protocol import Belief, ClosingStep
from bots_service.core.costs import NO_RUN_COSTS, RunCosts, cost_sums
from bots_service.core.entries import Entry, GuardDecision, PastEvidence, Report, Rewind, SettingsChange
from bots_service.core.evidence import NO_EVIDENCE, Evidence
from bots_service.core.forecasts import NO_FORECASTS, Forecasts, chances_before
from bots_service.core.guard.guard import VerifierGuard
from bots_service.core.guard.watches import SeenGroups
from bots_service.core.mix_account import MixAccount, after_report
from bots_service.core.open_step import NOTHING_OPEN, OpenStep
from bots_service.core.past_evidence import NO_PAST, AgedEvidence
from bots_service.core.pool import Pool
from bots_service.core.receipt import Receipt, Tally, calibration, prediction_error, sums_by_tag, tally
from bots_service.core.run_settings import TYPICAL_ROLLOUTS, RunSettings, settings_from
from bots_service.core.walks import Walks


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all closed steps; a task counts once in each step that reported it.

    distinct: how many different tasks they reported.
    """

    reported: int = 0
    effective: int = 0
    all_solved: int = 0
    none_solved: int = 0
    rollouts: float = 0.0
    successes: float = 0.0
    late: int = 0
    expired: int = 0
    distinct: int = 0

    @property
    def rollouts_per_task(self) -> float | None:
        """How many rollouts a reported task had, on average; None before the first."""
        return self.rollouts / self.reported if self.reported else None

    def plus(self, step: Tally, open_step: OpenStep, new_tasks: int) -> "Totals":
        """Return the totals with one more closed step, of whose tasks so many were never reported before."""
        return Totals(
            reported=self.reported + step.reported,
            effective=self.effective + step.effective,
            all_solved=self.all_solved + step.all_solved,
            none_solved=self.none_solved + step.none_solved,
            rollouts=self.rollouts + step.rollouts,
            successes=self.successes + step.successes,
            late=self.late + open_step.late,
            expired=self.expired + open_step.expired,
            distinct=self.distinct + new_tasks,
        )


@dataclass(frozen=True, slots=True)
class RunState:
    """All that is known of a run after a prefix of its journal.

    epoch: how often the run was rewound.
    seq: the last entry that is folded in.
    step: how many steps closed in the present history.
    belief: about every task of the dataset.
    attempts: how often the closed steps tried each task.
    costs: what these attempts cost, as far as reports said it.
    walks: where the passes of the strategy `pass` stand.
    open_step: evidence that waits for its step to close.
    mix: what the tags of the run's mix were owed and given, by the reports of the open step too.
    guard: what is wrong with the rewards, and what waits outside the belief because of it.
    forecasts: how many groups the belief expected to be effective, and how many were.
    """

    epoch: int
    seq: int
    step: int
    settings: RunSettings
    belief: Belief
    attempts: Attempts
    costs: RunCosts
    walks: Walks
    open_step: OpenStep
    totals: Totals
    mix: MixAccount
    guard: VerifierGuard
    forecasts: Forecasts = NO_FORECASTS

    @property
    def rollouts_per_task(self) -> float | None:
        """M in use: the setting, otherwise the average of the reports; None before the first report."""
        return _rollouts_per_task(self.settings, self.totals)

    @property
    def group_size(self) -> float:
        """How many rollouts to expect of a selected task: m in use, or what is usual before the first report."""
        return self.rollouts_per_task or TYPICAL_ROLLOUTS

    @property
    def nbytes(self) -> int:
        """How much memory the arrays of the state take."""
        evidence, made_at = self.open_step.evidence, self.open_step.made_at
        waiting = (evidence.tasks, evidence.successes, evidence.failures, made_at)
        arrays = (*waiting, *self.open_step.costs)
        parts = (self.belief, self.attempts, self.costs, self.guard)
        return sum(part.nbytes for part in parts) + sum(int(each.nbytes) for each in arrays)

    @property
    def fold_numbers(self) -> int:
        """About how many numbers the fold of one report touches."""
        rows = len(self.open_step.evidence) + len(self.attempts.recent) + len(self.costs.by_task.recent)
        return self.belief.fold_numbers + 4 * rows

    def fits(self, pool: Pool) -> bool:
        """Return whether the pool has every task and every profile that the state knows: else it is an older one."""
        waiting = (self.open_step.evidence.tasks, self.open_step.costs.tasks, self.guard.held.evidence.tasks)
        largest = max(int(tasks.max(initial=-1)) for tasks in waiting)
        return max(largest, self.attempts.largest_task, self.costs.largest_task) < len(pool) and self.belief.fits(pool)


def fresh_state(settings: RunSettings, pool: Pool) -> RunState:
    """Return the state of a run whose journal is empty."""
    belief = KINDS[settings.belief].fresh(settings, pool)
    guard = VerifierGuard.fresh(pool)
    return RunState(0, 0, 0, settings, belief, no_attempts(), NO_RUN_COSTS, Walks(), NOTHING_OPEN, Totals(), (), guard)


def advance(state: RunState, entry: Entry, pool: Pool, *, base: RunState | None = None) -> tuple[RunState, Receipt]:
    """Return the state after one more entry, and what the entry did; the arguments stay as they were.

    Args:
        state: the state after entry `entry.seq - 1`.
        entry: the next entry.
        pool: the tasks, at the entry's version or a later one.
        base: for a rewind or a fork, the state from which it continues.

    Raises:
        ValueError: the entry is not the next one, its base is missing, or the pool is older than the entry.
    """
    if entry.seq != state.seq + 1:
        raise ValueError(f"entry {entry.seq} can't follow entry {state.seq}")
    if entry.profiles > pool.profiles:
        raise ValueError(f"entry {entry.seq} knows {entry.profiles} profiles, the pool {pool.profiles}")
    body = entry.body
    if isinstance(body, Report):
        return _with_report(state, entry, body, pool)
    if isinstance(body, PastEvidence | GuardDecision):
        state = _with_past(state, entry, pool)
    elif isinstance(body, SettingsChange):
        settings = settings_from(body.values, base=state.settings)
        walks = state.walks if settings.seed == state.settings.seed else state.walks.restarted()
        state = replace(state, seq=entry.seq, settings=settings, walks=walks)
    elif base is None:
        raise ValueError(f"entry {entry.seq} starts from another state, which is not given")
    else:
        open_step = NOTHING_OPEN if isinstance(body, Rewind) else base.open_step
        state = replace(base, seq=entry.seq, epoch=entry.epoch, open_step=open_step)
    return state, _receipt(state, tally(NO_EVIDENCE))


@dataclass(frozen=True, slots=True)
class Lesson:
    """What an entry teaches a belief: evidence from before, and then the step that it closes, if it closes one."""

    past: AgedEvidence = NO_PAST
    step: ClosingStep | None = None


def lesson_of(state: RunState, entry: Entry, pool: Pool) -> Lesson:
    """Return what `advance` teaches the run's belief by this entry.

    Args:
        state: the state before the entry.
        entry: the next entry.
        pool: the tasks, at the entry's version or a later one.
    """
    body = entry.body
    if isinstance(body, PastEvidence):
        return Lesson(body.aged)
    if isinstance(body, GuardDecision):
        return Lesson(_decided(state, body, pool)[1])
    if isinstance(body, Report):
        waiting = _waiting(state, entry, body, pool)
        whole = waiting.open_step.whole()
        if _closes(state.settings, body.close, pending=len(whole)):
            totals = state.totals.plus(tally(whole), waiting.open_step, state.attempts.never_tried(whole.tasks))
            closing = _closing(waiting, whole, totals, pool)
            return Lesson(closing.past, closing.step)
    return Lesson()


def _with_past(state: RunState, entry: Entry, pool: Pool) -> RunState:
    """Return the state after an entry that brings evidence from before, or decides about some that waits."""
    guard, past = state.guard, NO_PAST
    if isinstance(entry.body, PastEvidence):
        past = entry.body.aged
    elif isinstance(entry.body, GuardDecision):
        guard, past = _decided(state, entry.body, pool)
    belief = state.belief.extended(pool, entry.profiles)
    if len(past):
        belief = belief.with_past(pool, past, state.settings, step=state.step)
    return replace(state, seq=entry.seq, belief=belief, guard=guard)


def _decided(state: RunState, decision: GuardDecision, pool: Pool) -> tuple[VerifierGuard, AgedEvidence]:
    """Return the guard after a decision, and the evidence that enters the belief."""
    guard, groups = state.guard.decided(pool, decision.decision, step=state.step)
    return guard, groups.aged(state.step) if decision.decision == "release" else NO_PAST


def _holding(state: RunState, report: Report) -> OpenStep:
    """Return the open step with a report's evidence."""
    made_at = state.step if report.made_at is None else min(report.made_at, state.step)
    lag = state.step - made_at
    is_late = 0 < lag <= state.belief.longest_lag
    if lag > 0 and not is_late:
        open_step = replace(state.open_step, expired=state.open_step.expired + len(report.evidence))
        return open_step.with_costs(report.costs, counted=False)
    return state.open_step.with_report(report.evidence, made_at, late=is_late).with_costs(report.costs, counted=True)


def _with_report(before: RunState, entry: Entry, report: Report, pool: Pool) -> tuple[RunState, Receipt]:
    """Return the state after an entry with this report, and what the report did."""
    waiting = _waiting(before, entry, report, pool)
    open_step, whole = waiting.open_step, waiting.open_step.whole()
    step_tally, new_tasks = tally(whole), before.attempts.never_tried(whole.tasks)
    costs = cost_sums(open_step.costs, whole)
    facts: dict[str, Any] = {
        "late": open_step.late - before.open_step.late,
        "expired": open_step.expired - before.open_step.expired,
        "new_tasks": new_tasks,
        "costs": costs,
    }
    if not _closes(before.settings, report.close, pending=len(whole)):
        return waiting, _receipt(waiting, step_tally, **facts)
    totals = before.totals.plus(step_tally, open_step, new_tasks)
    closing = _closing(waiting, whole, totals, pool)
    counted = closing.step.whole
    closed = replace(
        waiting,
        step=closing.step.number,
        belief=closing.belief.fold(pool, closing.step, before.settings),
        attempts=before.attempts.with_step(whole, closing.step.number),
        costs=before.costs.with_step(open_step.costs, costs),
        open_step=NOTHING_OPEN,
        totals=totals,
        forecasts=before.forecasts.with_step(closing.chances, counted),
        guard=closing.guard,
    )
    brier, log_loss = prediction_error(closing.means, counted)
    return closed, _receipt(
        closed,
        step_tally,
        closed=True,
        brier=brier,
        log_loss=log_loss,
        calibration=calibration(closing.means, counted),
        tags=sums_by_tag(pool.metric_tags, whole) if pool.tags else None,
        **facts,
    )


def _waiting(before: RunState, entry: Entry, report: Report, pool: Pool) -> RunState:
    """Return the state after an entry with this report, before the step closes."""
    evidence, holds = report.evidence, before.settings.verifier_guard
    doubted = before.guard.doubts(pool, evidence.tasks) if holds else np.zeros(len(evidence), bool)
    return replace(
        before,
        seq=entry.seq,
        belief=before.belief.extended(pool, entry.profiles),
        walks=_walks_after(before.walks, report),
        open_step=_holding(before, report),
        mix=after_report(before.settings, before.mix, pool, evidence, step=before.step, doubted=doubted),
    )


def _walks_after(walks: Walks, report: Report) -> Walks:
    """Return the walks after a report; one of tasks that were not selected here says nothing of them."""
    if report.made_at is None and len(report.evidence):
        return walks.restarted()
    return walks.moved(report.walks)


def _closes(settings: RunSettings, close: bool | None, *, pending: int) -> bool:
    """Say whether the open step closes: asked for, full, or by default with its first report."""
    if close:
        return True
    if settings.tasks_per_step is not None:
        return pending >= settings.tasks_per_step
    return close is None and pending > 0


@dataclass(frozen=True, slots=True)
class _Closing:
    """A step that closes.

    guard: after it.
    past: groups that waited, and need not any longer. belief: with them.
    step: what the belief learns of it next: all but the groups that wait from now on.
    means, chances: [n] what the belief expected of these tasks: success, and an effective group.
    """

    guard: VerifierGuard
    past: AgedEvidence
    belief: Belief
    step: ClosingStep
    means: Floats
    chances: Floats


def _closing(state: RunState, whole: Evidence, totals: Totals, pool: Pool) -> _Closing:
    """Return the open step as one that closes.

    Args:
        state: before it closes.
        whole: what waits in the open step, each task once.
        totals: with this step.
        pool: the tasks.
    """
    number, open_step, settings = state.step + 1, state.open_step, state.settings
    belief, believed = state.belief, state.belief.distributions(pool, whole.tasks)
    means, chances = believed.mean, chances_before(believed, whole)
    seen = SeenGroups(whole, means, chances)
    guard, waits, freed = state.guard.after_step(pool, seen, step=number, holds=settings.verifier_guard)
    past = NO_PAST
    if len(freed):
        past = freed.aged(state.step)
        belief = belief.with_past(pool, past, settings, step=state.step)
    batches = tuple((state.step - made_at, evidence) for made_at, evidence in open_step.by_step(whole))
    step = ClosingStep(number, batches, whole, _rollouts_per_task(settings, totals) or 0.0)
    if waits.any():
        step, means, chances = step.without(whole.tasks[waits]), means[~waits], chances[~waits]
    return _Closing(guard, past, belief, step, means, chances)


def _rollouts_per_task(settings: RunSettings, totals: Totals) -> float | None:
    """M in use: the setting, otherwise the average of the reports; None before the first report."""
    setting = settings.rollouts_per_task
    return totals.rollouts_per_task if setting is None else setting


def _receipt(state: RunState, step_tally: Tally, *, closed: bool = False, **more: Any) -> Receipt:
    """Return what an entry did.

    Args:
        state: after the entry.
        step_tally: of the step that it closed, otherwise of the open step.
        closed: whether it closed one.
        more: further fields of the receipt.
    """
    return Receipt(
        seq=state.seq,
        epoch=state.epoch,
        step=state.step,
        closed=closed,
        tally=step_tally,
        capability=state.belief.capability,
        distinct_tasks=state.totals.distinct,
        **more,
    )
