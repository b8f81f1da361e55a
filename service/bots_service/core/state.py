"""The state of a run, and `advance`: the only way from one state to the next.

A run's state is a pure function of a prefix of its journal. Replay is a loop over `advance`, and two processes that
fold the same entries get the same bytes; so whatever the fold reads stands here.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bots_service.core.arrays import Tasks, frozen, last_of
from bots_service.core.attempts import Attempts, no_attempts
from bots_service.core.belief.kinds import KINDS
from bots_service.core.belief.protocol import Belief, ClosingStep
from bots_service.core.costs import NO_COSTS, NO_RUN_COSTS, CostRows, RunCosts, cost_sums
from bots_service.core.entries import Entry, PastEvidence, Report, Rewind, SettingsChange
from bots_service.core.evidence import NO_EVIDENCE, Evidence, sum_by_task
from bots_service.core.forecasts import NO_FORECASTS, Forecasts
from bots_service.core.mix_account import MixAccount, after_report
from bots_service.core.pool import Pool
from bots_service.core.receipt import Receipt, Tally, calibration, prediction_error, sums_by_tag, tally
from bots_service.core.run_settings import TYPICAL_ROLLOUTS, RunSettings, settings_from
from bots_service.core.walks import Walks


@dataclass(frozen=True, slots=True)
class OpenStep:
    """Evidence that waits for its step to close.

    evidence: [P] in the order in which it came; tasks may repeat.
    made_at: [P] the step at which each piece's task was selected.
    late: how many of these pieces came after their step had closed.
    expired: how many came so late that they count for nothing.
    costs: what all of these rollouts cost, and those that were aborted.
    """

    evidence: Evidence
    made_at: Tasks
    late: int = 0
    expired: int = 0
    costs: CostRows = NO_COSTS

    @property
    def tasks(self) -> int:
        """How many distinct tasks have evidence here."""
        return len(np.unique(self.evidence.tasks))

    def with_report(self, evidence: Evidence, made_at: int, *, late: bool) -> "OpenStep":
        """Return the open step with the evidence of one report, all of it selected at one step."""
        if len(evidence) == 0:
            return self
        old, steps = self.evidence, np.full(len(evidence), made_at, np.int32)
        if len(old) == 0:
            return OpenStep(evidence, frozen(steps), self.late + late * len(evidence), self.expired, self.costs)
        return OpenStep(
            Evidence(
                frozen(np.concatenate([old.tasks, evidence.tasks])),
                frozen(np.concatenate([old.successes, evidence.successes])),
                frozen(np.concatenate([old.failures, evidence.failures])),
                frozen(np.concatenate([old.effective, evidence.effective])),
            ),
            frozen(np.concatenate([self.made_at, steps])),
            self.late + late * len(evidence),
            self.expired,
            self.costs,
        )

    def with_costs(self, costs: CostRows, *, counted: bool) -> "OpenStep":
        """Return the open step with what one report cost. counted: whether its evidence counts."""
        if len(costs) == 0:
            return self
        return replace(self, costs=self.costs.plus(costs if counted else costs.uncounted()))

    def whole(self) -> Evidence:
        """Return all that waits, each task once."""
        return sum_by_task(self.evidence)

    def groups(self, whole: Evidence, *, generators: bool) -> Evidence:
        """Return all that waits, each group of rollouts once.

        Args:
            whole: what `whole()` returned: a task has one group in a step, whatever its parts.
            generators: whether the tasks are generators; then each piece is the group of another task.
        """
        return self.evidence if generators else whole

    def by_step(self, whole: Evidence) -> Iterator[tuple[int, Evidence]]:
        """Yield, oldest first, each step of selection with its evidence, each task once.

        Args:
            whole: what `whole()` returned.
        """
        if len(whole) and (self.made_at[:1] == self.made_at).all():
            yield int(self.made_at[0]), whole
            return
        for step in np.unique(self.made_at).tolist():
            yield step, sum_by_task(self.evidence.where(self.made_at == step))


NOTHING_OPEN = OpenStep(NO_EVIDENCE, frozen(np.empty(0, np.int32)))


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all closed steps; a task counts once in each step that reported it, a generator once a group.

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
        return self.belief.nbytes + self.attempts.nbytes + self.costs.nbytes + sum(int(each.nbytes) for each in arrays)

    @property
    def fold_numbers(self) -> int:
        """About how many numbers the fold of one report touches."""
        rows = len(self.open_step.evidence) + len(self.attempts.recent) + len(self.costs.by_task.recent)
        return self.belief.fold_numbers + 4 * rows

    def fits(self, pool: Pool) -> bool:
        """Return whether the pool has every task and every profile that the state knows: else it is an older one."""
        tried, paid = self.attempts.largest_task, max(self.costs.largest_task, last_of(self.open_step.costs.tasks))
        if max(tried, paid) >= len(pool) or not self.belief.fits(pool):
            return False
        waiting = self.open_step.evidence.tasks
        return not len(waiting) or bool(waiting.max() < len(pool))


def fresh_state(settings: RunSettings, pool: Pool) -> RunState:
    """Return the state of a run whose journal is empty."""
    belief = KINDS[settings.belief].fresh(settings, pool)
    return RunState(0, 0, 0, settings, belief, no_attempts(), NO_RUN_COSTS, Walks(), NOTHING_OPEN, Totals(), ())


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
    if isinstance(body, PastEvidence):
        belief = state.belief.extended(pool, entry.profiles)
        belief = belief.with_past(pool, body.aged, state.settings, step=state.step)
        state = replace(state, seq=entry.seq, belief=belief)
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


def closing_step(state: RunState, report: Report, pool: Pool) -> ClosingStep | None:
    """Return the step that this report would close, as `advance` folds it; None if the step would stay open.

    Args:
        state: the state before the report.
        report: of the next entry.
        pool: the tasks.
    """
    open_step = _holding(state, report)
    whole = open_step.whole()
    groups = open_step.groups(whole, generators=pool.generators)
    if not _closes(state.settings, report.close, pending=len(groups)):
        return None
    totals = state.totals.plus(tally(groups), open_step, state.attempts.never_tried(whole.tasks))
    return _closing(state, open_step, whole, groups, totals)


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
    held = _holding_report(before, entry, report, pool)
    open_step, whole = held.open_step, held.open_step.whole()
    groups = open_step.groups(whole, generators=pool.generators)
    step_tally, new_tasks = tally(groups), before.attempts.never_tried(whole.tasks)
    costs = cost_sums(open_step.costs, groups)
    facts: dict[str, Any] = {
        "late": open_step.late - before.open_step.late,
        "expired": open_step.expired - before.open_step.expired,
        "new_tasks": new_tasks,
        "costs": costs,
    }
    if not _closes(before.settings, report.close, pending=len(groups)):
        return held, _receipt(held, step_tally, **facts)
    believed = held.belief.distributions(pool, groups.tasks)
    totals = before.totals.plus(step_tally, open_step, new_tasks)
    step = _closing(before, open_step, whole, groups, totals)
    closed = replace(
        held,
        step=step.number,
        belief=held.belief.fold(pool, step, before.settings),
        attempts=before.attempts.with_step(whole, step.number),
        costs=before.costs.with_step(open_step.costs, costs),
        open_step=NOTHING_OPEN,
        totals=totals,
        forecasts=before.forecasts.with_step(believed, groups),
    )
    brier, log_loss = prediction_error(believed.mean, groups)
    return closed, _receipt(
        closed,
        step_tally,
        closed=True,
        brier=brier,
        log_loss=log_loss,
        calibration=calibration(believed.mean, groups),
        tags=sums_by_tag(pool.metric_tags, groups) if pool.tags else None,
        **facts,
    )


def _holding_report(before: RunState, entry: Entry, report: Report, pool: Pool) -> RunState:
    """Return the state after an entry with this report, before the step closes."""
    return replace(
        before,
        seq=entry.seq,
        belief=before.belief.extended(pool, entry.profiles),
        walks=_walks_after(before.walks, report),
        open_step=_holding(before, report),
        mix=after_report(before.settings, before.mix, pool, report.evidence, step=before.step),
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


def _closing(state: RunState, open_step: OpenStep, whole: Evidence, groups: Evidence, totals: Totals) -> ClosingStep:
    """Return an open step as one that closes.

    Args:
        state: of the run.
        open_step: what closes.
        whole: what waits there, each task once.
        groups: the same, each group of rollouts once.
        totals: with this step.
    """
    return ClosingStep(
        number=state.step + 1,
        batches=tuple((state.step - made_at, evidence) for made_at, evidence in open_step.by_step(whole)),
        whole=whole,
        groups=groups,
        rollouts=_rollouts_per_task(state.settings, totals) or 0.0,
    )


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
