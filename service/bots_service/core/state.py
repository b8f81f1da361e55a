"""The state of a run, and `advance`: the only way from one state to the next.

A run's state is a pure function of a prefix of its journal. Replay is a loop over `advance`, and two processes that
fold the same entries get the same bytes; so whatever the fold reads stands here.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bots_service.core.arrays import NO_TASKS, Table, Tasks, last_of
from bots_service.core.attempts import NO_ABORTS, NO_ATTEMPTS, AbortRows, Attempts
from bots_service.core.belief import KINDS, Belief
from bots_service.core.belief.distributions import Distributions
from bots_service.core.entries import NOTHING_UNFINISHED, Entry, Probe, Report, SettingsChange, WaitingParts
from bots_service.core.evidence import NOTHING_OPEN, ClosingStep, Evidence, OpenStep, sum_by_task
from bots_service.core.guard import NO_ALARMS, SeenGroups, VerifierGuard
from bots_service.core.mixing import MixAccount, after_report
from bots_service.core.pool import Pool
from bots_service.core.receipt import Receipt, Totals, calibration, counts_by_tag, errors_of, totals_of
from bots_service.core.run_settings import TYPICAL_ROLLOUTS, RunSettings, changed_settings
from bots_service.core.walks import WHOLE, Walks


@dataclass(frozen=True)
class RunState:
    """All that is known of a run after a prefix of its journal, which ends with the entry `seq`.

    epoch: how often the run was rewound; step: how many steps closed in the present history.
    attempts: how often the closed steps tried each task; aborts: how often selections of tasks brought nothing.
    mix: what the tags of the run's mix were owed and given, by the reports of the open step too.
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
    unfinished: WaitingParts = NOTHING_UNFINISHED
    aborts: AbortRows = NO_ABORTS

    @property
    def rollouts_per_task(self) -> float | None:
        """M in use: the setting, otherwise the average of the reports; None before the first report."""
        setting = self.settings.rollouts_per_task
        return self.totals.rollouts_per_task if setting is None else setting

    @property
    def group_size(self) -> float:
        """How many rollouts to expect of a selected task: m in use, or what is usual before the first report.

        At least 2. Where a group has one rollout, P(effective) is that of two: 2 p (1 - p), twice a rollout's variance.
        """
        return max(self.rollouts_per_task or TYPICAL_ROLLOUTS, 2.0)

    @property
    def nbytes(self) -> int:
        """How much memory the arrays of the state take."""
        return sum(part.nbytes for part in parts_of(self) if isinstance(part, np.ndarray))

    @cached_property
    def largest_task(self) -> int:
        """The last task of the pool that the state knows of, -1 of none. A belief knows of tasks that were tried."""
        waiting = (self.open_step.evidence.tasks, self.unfinished.tasks)
        sorted_ones = (self.attempts.settled.tasks, self.attempts.ordered, self.aborts.tasks)
        return max(*map(last_of, sorted_ones), *(int(tasks.max(initial=-1)) for tasks in waiting))

    @property
    def fold_numbers(self) -> int:
        """About how many numbers the fold of one report touches."""
        rows = len(self.open_step.evidence) + len(self.attempts.recent) + len(self.unfinished) + len(self.aborts)
        return self.belief.fold_numbers + 4 * rows

    def fits(self, pool: Pool) -> bool:
        """Return whether the pool has every task and every profile that the state knows: else it is an older one."""
        return self.belief.fits(pool) and self.largest_task < len(pool)


def parts_of(value: Any) -> list[Any]:
    """Return all tables and arrays within a value of dataclasses, in the order of their fields."""
    if isinstance(value, np.ndarray):
        return [value]
    inner = [part for name in getattr(value, "__dataclass_fields__", ()) for part in parts_of(getattr(value, name))]
    return [value, *inner] if isinstance(value, Table) else inner


def fresh_state(settings: RunSettings, pool: Pool) -> RunState:
    """Return the state of a run whose journal is empty."""
    belief = KINDS[settings.belief].fresh(settings, pool)
    return RunState(0, 0, 0, settings, belief, NO_ATTEMPTS, Walks(), NOTHING_OPEN, Totals(), ())


def advance(state: RunState, entry: Entry, pool: Pool, *, base: RunState | None = None) -> tuple[RunState, Receipt]:
    """Return the state after the next entry, and what that did; the arguments stay as they were.

    pool: at the entry's version or a later one; base: for a rewind, the state from which it continues.
    ValueError: the entry is not the next one, its base is missing, or the pool is older than the entry.
    """
    if entry.seq != state.seq + 1:
        raise ValueError(f"entry {entry.seq} can't follow entry {state.seq}")
    if entry.profiles > pool.profiles:
        raise ValueError(f"entry {entry.seq} knows {entry.profiles} profiles, the pool {pool.profiles}")
    if isinstance(entry.body, Report):
        return _with_report(state, entry, entry.body, pool)
    state = _changed(state, entry, base)
    return state, _receipt(state, Totals())


def _changed(state: RunState, entry: Entry, base: RunState | None) -> RunState:
    """Return the state after an entry that is no report."""
    body = entry.body
    if isinstance(body, SettingsChange):
        settings = changed_settings(body.values, state.settings)
        walks = state.walks if settings.seed == state.settings.seed else state.walks.restarted()
        return replace(state, seq=entry.seq, settings=settings, walks=walks)
    if isinstance(body, Probe):
        return replace(state, seq=entry.seq, belief=state.belief.probed(body.scores))
    if base is None:
        raise ValueError(f"entry {entry.seq} starts from another state, which is not given")
    # No selection from before can bring the rest of a group.
    return replace(base, seq=entry.seq, epoch=entry.epoch, open_step=NOTHING_OPEN, unfinished=NOTHING_UNFINISHED)


def _with_report(before: RunState, entry: Entry, report: Report, pool: Pool) -> tuple[RunState, Receipt]:
    """Return the state after an entry with this report, and what the report did."""
    settings = before.settings
    reports, unfinished = before.unfinished.after(report, settings.lease_seconds)
    own = reports[-1]
    open_step, aborts = before.open_step.with_costs(report.costs), before.aborts
    for each in reports:
        open_step = _holding(before, open_step, each)
        aborts = aborts.after(each.aborted, each.evidence.tasks, before.step)
    reported = Evidence.joined([each.evidence for each in reports])
    in_parts = len(report.parts) > 0
    waits = in_parts and not len(reported) and report.close is None  # what waits closes no step
    closes, rest = _parted(open_step, settings.tasks_per_step, close=False if waits else report.close)
    ends = open_step if closes is None else closes
    whole = sum_by_task(ends.evidence)
    sums = totals_of(whole, ends, before.attempts.never_tried(whole.tasks))
    belief = before.belief.extended(pool, entry.profiles)
    walks = before.walks
    if not in_parts or len(own.evidence) or len(own.aborted):  # parts of groups alone say nothing of them
        walks = walks.restarted() if own.made_at is None and len(own.evidence) else walks.moved(own.walks)
    changes: dict[str, Any] = {
        "seq": entry.seq,
        "walks": walks,
        "mix": after_report(settings.mix, before.mix, pool, reported.tasks),
        "unfinished": unfinished,
        "aborts": aborts,
    }
    facts: dict[str, Any] = {
        "late": ends.late - before.open_step.late,
        "expired": ends.expired - before.open_step.expired,
    }
    if closes is None:
        state = replace(before, belief=belief, open_step=rest, **changes)
        return state, _receipt(state, sums, **facts)
    totals = before.totals.plus(sums)
    step = ClosingStep(
        number=before.step + 1,
        batches=tuple((before.step - made_at, evidence) for made_at, evidence in closes.by_step(whole)),
        whole=whole,
        rollouts=settings.rollouts_per_task or totals.rollouts_per_task or 0.0,
    )
    belief, expected = belief.fold(pool, step, settings)
    closed = replace(
        before,
        step=step.number,
        belief=belief,
        attempts=before.attempts.with_step(whole, step.number),
        open_step=rest.not_before(step.number - belief.longest_lag),
        totals=totals,
        guard=_guarded(before, own, reported.tasks, step, expected, pool),
        **changes,
    )
    means = expected.mean
    brier, log_loss = errors_of(means, whole)
    facts |= {"brier": brier, "log_loss": log_loss, "calibration": calibration(means, whole)}
    facts["tags"] = counts_by_tag(pool, whole)
    return closed, _receipt(closed, sums, closed=True, **facts)


def _holding(state: RunState, open_step: OpenStep, report: Report) -> OpenStep:
    """Return the open step with a report's evidence."""
    made_at = state.step if report.made_at is None else min(report.made_at, state.step)
    lag = state.step - made_at
    is_late = 0 < lag <= state.belief.longest_lag
    if lag > 0 and not is_late:
        return replace(open_step, expired=open_step.expired + len(report.evidence))
    return open_step.with_report(report.evidence, made_at, late=is_late)


def _parted(open_step: OpenStep, size: int | None, *, close: bool | None) -> tuple[OpenStep | None, OpenStep]:
    """Return what of the open step closes now, None if nothing does, and what stays open.

    A step closes if that is asked for, by default with its first report, or when it has `size` groups or a multiple:
    those that came after them begin the next one.
    """
    if close or (size is None and close is None and len(open_step.evidence)):
        return open_step, NOTHING_OPEN
    if size is None or (pending := open_step.tasks) < size:
        return None, open_step
    return open_step.first(pending - pending % size)


def _guarded(
    before: RunState, report: Report, reported: Tasks, step: ClosingStep, believed: Distributions, pool: Pool
) -> VerifierGuard:
    """Return the verifier guard after the step that a report closes. reported: all its tasks."""
    is_going_on = any(walk.part == WHOLE and walk.place > 0 for walk in before.walks.walks)
    is_drawn = is_going_on and [walk.part for walk in report.walks] == [WHOLE]
    drawn = np.sort(reported) if is_drawn else NO_TASKS
    seen = SeenGroups(step.whole, believed, before.attempts, drawn, is_drawn and report.walks[0].turn == 0)
    return before.guard.after_step(pool, seen, step=step.number)


def _receipt(state: RunState, sums: Totals, *, closed: bool = False, **more: Any) -> Receipt:
    """Return what an entry did. sums: of the step that it closed, otherwise of the open step."""
    return Receipt(
        seq=state.seq,
        epoch=state.epoch,
        step=state.step,
        closed=closed,
        strategy=state.settings.strategy,
        reported=sums.reported,
        effective=sums.effective,
        all_solved=sums.all_solved,
        rollouts=sums.rollouts,
        successes=sums.successes,
        capability=state.belief.capability,
        new_tasks=sums.distinct,
        distinct_tasks=state.totals.distinct,
        tokens=sums.tokens,
        seconds=sums.seconds,
        total_reported=state.totals.reported,
        total_effective=state.totals.effective,
        total_rollouts=state.totals.rollouts,
        **more,
    )
