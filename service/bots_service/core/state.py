"""The state of a run, and `advance`: the only way from one state to the next.

A run's state is a pure function of a prefix of its journal. Replay is a loop over `advance`, and two processes that
fold the same entries get the same bytes; so whatever the fold reads stands here.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bots_service.core.aborts import NO_ABORTS, AbortRows
from bots_service.core.arrays import Tasks, last_of
from bots_service.core.attempts import Attempts, no_attempts
from bots_service.core.belief.kinds import KINDS
from bots_service.core.belief.protocol import Belief, ClosingStep, Distributions
from bots_service.core.entries import Entry, Forget, Report, Rewind, SettingsChange
from bots_service.core.evidence import NO_EVIDENCE, Evidence, joined
from bots_service.core.groups import NOTHING_UNFINISHED, UnfinishedGroups
from bots_service.core.guard.guard import NO_ALARMS, VerifierGuard
from bots_service.core.guard.streaks import SeenGroups
from bots_service.core.mix_account import MixAccount, after_report
from bots_service.core.open_step import NOTHING_OPEN, OpenStep
from bots_service.core.pool import NO_TASKS, WHOLE, Pool
from bots_service.core.receipt import Receipt, Tally, calibration, prediction_error, tally
from bots_service.core.run_settings import TYPICAL_ROLLOUTS, RunSettings, changed_settings
from bots_service.core.totals import Totals
from bots_service.core.walks import Walks
from bots_service.errors import InvalidSettingsError


@dataclass(frozen=True, slots=True)
class RunState:
    """All that is known of a run after a prefix of its journal.

    epoch: how often the run was rewound.
    seq: the last entry that is folded in.
    step: how many steps closed in the present history.
    belief: about every task of the dataset.
    attempts: how often the closed steps tried each task.
    walks: where the passes of the strategy `pass` stand.
    open_step: evidence that waits for its step to close.
    mix: what the tags of the run's mix were owed and given, by the reports of the open step too.
    guard: which rewards look wrong.
    unfinished: groups of which rollouts are to come.
    aborts: how often selections of tasks brought nothing.
    """

    epoch: int
    seq: int
    step: int
    settings: RunSettings
    belief: Belief
    attempts: Attempts
    walks: Walks
    open_step: OpenStep
    totals: Totals
    mix: MixAccount
    guard: VerifierGuard = NO_ALARMS
    unfinished: UnfinishedGroups = NOTHING_UNFINISHED
    aborts: AbortRows = NO_ABORTS

    @property
    def rollouts_per_task(self) -> float | None:
        """M in use: the setting, otherwise the average of the reports; None before the first report."""
        return _rollouts_per_task(self.settings, self.totals)

    @property
    def group_size(self) -> float:
        """How many rollouts to expect of a selected task: m in use, or what is usual before the first report.

        At least 2. Where a group has one rollout, P(effective) is that of two: 2 p (1 - p), twice a rollout's variance.
        """
        return max(self.rollouts_per_task or TYPICAL_ROLLOUTS, 2.0)

    @property
    def nbytes(self) -> int:
        """How much memory the arrays of the state take."""
        evidence, made_at = self.open_step.evidence, self.open_step.made_at
        waiting = (evidence.tasks, evidence.successes, evidence.failures, made_at)
        parts = (self.belief, self.attempts, self.unfinished)
        return sum(part.nbytes for part in parts) + sum(int(each.nbytes) for each in (*waiting, *self.aborts))

    @property
    def fold_numbers(self) -> int:
        """About how many numbers the fold of one report touches."""
        rows = len(self.open_step.evidence) + len(self.attempts.recent) + len(self.unfinished.parts) + len(self.aborts)
        return self.belief.fold_numbers + 4 * rows

    def fits(self, pool: Pool) -> bool:
        """Return whether the pool has every task and every profile that the state knows: else it is an older one."""
        named = max(self.attempts.largest_task, self.unfinished.largest_task, last_of(self.aborts.tasks))
        if named >= len(pool) or not self.belief.fits(pool):
            return False
        waiting = self.open_step.evidence.tasks
        return not len(waiting) or bool(waiting.max() < len(pool))


def fresh_state(settings: RunSettings, pool: Pool) -> RunState:
    """Return the state of a run whose journal is empty."""
    belief = KINDS[settings.belief].fresh(settings, pool)
    return RunState(0, 0, 0, settings, belief, no_attempts(), Walks(), NOTHING_OPEN, Totals(), ())


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
    try:
        state, skipped = _changed(state, entry, pool, base), None
    except InvalidSettingsError as error:
        # The service appends no change that the state does not allow; an import may fold one under other settings.
        state, skipped = replace(state, seq=entry.seq), str(error)
    return state, _receipt(state, tally(NO_EVIDENCE), skipped=skipped)


def _changed(state: RunState, entry: Entry, pool: Pool, base: RunState | None) -> RunState:
    """Return the state after an entry that is no report.

    Raises:
        InvalidSettingsError: the state does not allow the change.
    """
    body = entry.body
    if isinstance(body, SettingsChange):
        settings = changed_settings(body.values, state.settings)
        walks = state.walks if settings.seed == state.settings.seed else state.walks.restarted()
        return replace(state, seq=entry.seq, settings=settings, walks=walks)
    if isinstance(body, Forget):
        belief = state.belief.extended(pool, entry.profiles).forgotten(body.tasks)
        return replace(state, seq=entry.seq, belief=belief, aborts=state.aborts.forgotten(body.tasks))
    if base is None:
        raise ValueError(f"entry {entry.seq} starts from another state, which is not given")
    open_step = NOTHING_OPEN if isinstance(body, Rewind) else base.open_step
    # No selection from before can bring the rest of a group.
    return replace(base, seq=entry.seq, epoch=entry.epoch, open_step=open_step, unfinished=NOTHING_UNFINISHED)


@dataclass(frozen=True, slots=True)
class Lesson:
    """What an entry teaches a belief: the step that it closes, if it closes one.

    forgotten: tasks that it makes the belief forget, instead.
    """

    step: ClosingStep | None = None
    forgotten: Tasks = field(default_factory=lambda: NO_TASKS)


def lesson_of(state: RunState, entry: Entry, pool: Pool) -> Lesson:
    """Return what `advance` teaches the run's belief by this entry.

    Args:
        state: the state before the entry.
        entry: the next entry.
        pool: the tasks, at the entry's version or a later one.
    """
    body = entry.body
    if isinstance(body, Forget):
        return Lesson(forgotten=body.tasks)
    if not isinstance(body, Report):
        return Lesson()
    waiting, body = _waiting(state, entry, body, pool)
    closes, _ = _parted(state.settings, body, waiting.open_step)
    if closes is None:
        return Lesson()
    waiting = replace(waiting, open_step=closes)
    whole = closes.whole()
    totals = state.totals.plus(tally(whole), waiting.open_step, state.attempts.never_tried(whole.tasks))
    return Lesson(_closing(waiting, whole, totals))


def _holding(state: RunState, open_step: OpenStep, report: Report) -> OpenStep:
    """Return the open step with a report's evidence. state: before the report."""
    made_at = state.step if report.made_at is None else min(report.made_at, state.step)
    lag = state.step - made_at
    is_late = 0 < lag <= state.belief.longest_lag
    if lag > 0 and not is_late:
        return replace(open_step, expired=open_step.expired + len(report.evidence))
    return open_step.with_report(report.evidence, made_at, late=is_late)


def _with_report(before: RunState, entry: Entry, report: Report, pool: Pool) -> tuple[RunState, Receipt]:
    """Return the state after an entry with this report, and what the report did."""
    waiting, report = _waiting(before, entry, report, pool)
    closes, rest = _parted(before.settings, report, waiting.open_step)
    if closes is not None:
        waiting = replace(waiting, open_step=closes)
    open_step, whole = waiting.open_step, waiting.open_step.whole()
    step_tally, new_tasks = tally(whole), before.attempts.never_tried(whole.tasks)
    facts: dict[str, Any] = {
        "late": open_step.late - before.open_step.late,
        "expired": open_step.expired - before.open_step.expired,
        "new_tasks": new_tasks,
        "costs": open_step.costs,
    }
    if closes is None:
        return _with_mix(waiting, before, report, pool), _receipt(waiting, step_tally, **facts)
    believed = waiting.belief.distributions(pool, whole.tasks)
    totals = before.totals.plus(step_tally, open_step, new_tasks)
    step = _closing(waiting, whole, totals)
    belief = waiting.belief.fold(pool, step, waiting.settings)
    closed = replace(
        _with_mix(waiting, before, report, pool),
        step=step.number,
        belief=belief,
        attempts=before.attempts.with_step(whole, step.number),
        open_step=rest.not_before(step.number - belief.longest_lag),
        totals=totals,
        guard=_guarded(before, report, step, believed, pool),
    )
    return closed, _receipt(
        closed,
        step_tally,
        closed=True,
        **_errors(believed, whole),
        **facts,
    )


def _errors(believed: Distributions, evidence: Evidence) -> dict[str, Any]:
    """Return the fields of a receipt about what was predicted of some groups."""
    means = believed.mean
    brier, log_loss = prediction_error(means, evidence)
    return {"brier": brier, "log_loss": log_loss, "calibration": calibration(means, evidence)}


def _waiting(before: RunState, entry: Entry, report: Report, pool: Pool) -> tuple[RunState, Report]:
    """Return the state after an entry with this report, before its step closes and the mix's account is brought up.

    And the report of whole groups: those that it brings or completes, and those whose rest is waited for no longer.
    """
    reports, unfinished = before.unfinished.after(report, before.settings.lease_seconds)
    whole, open_step, aborts = reports[-1], before.open_step, before.aborts
    open_step = replace(open_step, costs=open_step.costs.plus(report.costs))
    for each in reports:
        open_step = _holding(before, open_step, each)
        aborts = aborts.after(each.aborted, each.evidence.tasks, before.step)
    if len(reports) > 1:
        whole = replace(whole, evidence=joined([each.evidence for each in reports]).frozen())
    if len(report.parts) and not len(whole.evidence) and report.close is None:
        whole = replace(whole, close=False)  # what waits closes no step
    state = replace(
        before,
        seq=entry.seq,
        belief=before.belief.extended(pool, entry.profiles),
        walks=_walks_after(before.walks, reports[-1], waits=len(report.parts) > 0),
        open_step=open_step,
        unfinished=unfinished,
        aborts=aborts,
    )
    return state, whole


def _with_mix(state: RunState, before: RunState, report: Report, pool: Pool) -> RunState:
    """Return the state with the mix's account after a report.

    Args:
        state: without it.
        before: the state before the report.
        report: the report.
        pool: the tasks.
    """
    mix = before.settings.mix
    if not mix:
        return replace(state, mix=()) if state.mix else state
    return replace(state, mix=after_report(mix, before.mix, pool, report.evidence.tasks))


def _guarded(before: RunState, report: Report, step: ClosingStep, believed: Distributions, pool: Pool) -> VerifierGuard:
    """Return the verifier guard after the step that a report closes.

    Args:
        before: the state before the report.
        report: the report.
        step: the step, whole.
        believed: of its tasks, before it.
        pool: the tasks.
    """
    is_going_on = any(walk.part == WHOLE and walk.place > 0 for walk in before.walks.walks)
    is_drawn = is_going_on and [walk.part for walk in report.walks] == [WHOLE]
    drawn = np.sort(report.evidence.tasks) if is_drawn else NO_TASKS
    seen = SeenGroups(step.whole, believed, before.attempts, drawn, is_drawn and report.walks[0].turn == 0)
    return before.guard.after_step(pool, seen, step=step.number)


def _walks_after(walks: Walks, report: Report, *, waits: bool) -> Walks:
    """Return the walks after a report; one of tasks that were not selected here says nothing of them.

    Args:
        walks: before it.
        report: its whole groups.
        waits: whether it brought parts of groups; without a whole group it moves nothing until there is one.
    """
    if waits and not len(report.evidence) and not len(report.aborted):
        return walks
    return walks.restarted() if report.made_at is None and len(report.evidence) else walks.moved(report.walks)


def _parted(settings: RunSettings, report: Report, open_step: OpenStep) -> tuple[OpenStep | None, OpenStep]:
    """Return what of the open step closes now, None if nothing does, and what stays open.

    A step closes if that is asked for, or by default with its first report. With `tasks_per_step` it closes when it has
    so many groups, and those that came after them begin the next one. An entry closes one step: where one report brings
    several times as many, they are all of it.
    """
    if report.close:
        return open_step, NOTHING_OPEN
    pending, size = open_step.tasks, settings.tasks_per_step
    if size is None:
        return (open_step if report.close is None and pending > 0 else None), NOTHING_OPEN
    if pending < size:
        return None, open_step
    return open_step.first(pending - pending % size)


def _closing(state: RunState, whole: Evidence, totals: Totals) -> ClosingStep:
    """Return the open step as one that closes.

    Args:
        state: before it closes.
        whole: what waits in the open step, each task once.
        totals: with this step.
    """
    return ClosingStep(
        number=state.step + 1,
        batches=tuple((state.step - made_at, evidence) for made_at, evidence in state.open_step.by_step(whole)),
        whole=whole,
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
