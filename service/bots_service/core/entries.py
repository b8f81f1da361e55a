"""What can stand in a run's journal; and groups whose rollouts come in parts: a group counts once, when it is whole.

Rollouts of one selected task may end minutes apart, and each be reported as it ends. Parts wait in the run's state
until their group has as many rollouts as they say, or a whole outcome or an abort of the same selected task ends it, or
the lease of its task has run out. Then the group counts as if it had been reported whole at that moment.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import (
    MOST_SCORE,
    NO_TASKS,
    SCORE_PARTS,
    Floats,
    Scores,
    Table,
    Tasks,
    contained,
    frozen,
    is_first,
    united,
    without,
)
from bots_service.core.evidence import NO_COSTS, NO_EVIDENCE, SPREAD, Costs, Evidence, sum_by_task
from bots_service.core.portable_math import log
from bots_service.core.walks import Walk

MOST_PARTS = 65_536  # that wait; beyond, the oldest groups count as they are: 6 MB of state
ENDS = 0.0  # the group size that a whole outcome, or an abort, says of a group in parts: no more will come


@dataclass(frozen=True, slots=True)
class GroupParts(Table):
    """Parts of groups, in the order in which they were reported.

    group_size: [n] how many rollouts the whole group has.
    rollouts: [n] how many of these the part brings; with no successes and failures, they were aborted.
    lowest, highest: [n] the part's rewards, over the width of the reward range.
    """

    group_size: Floats
    rollouts: Floats
    successes: Floats
    failures: Floats
    lowest: Floats
    highest: Floats


NO_PARTS = GroupParts(NO_TASKS, *[NO_EVIDENCE.successes] * 6)


@dataclass(frozen=True, slots=True)
class Report:
    """A report of rollouts.

    evidence: of whole groups; empty if all were aborted, or to close a step of partial reports.
    made_at: the step at which the tasks were selected, or that the evidence is as old as; None if neither is known.
    close: whether the step closes now; None leaves it to the settings.
    walks: how far their selection walked through passes; costs: of its rollouts, as far as it says.
    aborted: tasks of which nothing came; parts: of groups that are not whole yet.
    selection: the seq of the tasks' selection, and its place among the selections at that seq.
    at: when the service took the report, in seconds since 1970.
    """

    evidence: Evidence
    made_at: int | None
    close: bool | None
    walks: tuple[Walk, ...] = ()
    costs: Costs = NO_COSTS
    aborted: Tasks = field(default_factory=lambda: NO_TASKS)
    parts: GroupParts = NO_PARTS
    selection: tuple[int, int] = (0, 0)
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """A change of settings from the next step on: only what changes, so that two at once don't undo each other."""

    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rewind:
    """The run goes back to an earlier state: the one that stood after entry `to_seq`, when `to_step` had closed."""

    to_seq: int
    to_step: int


@dataclass(frozen=True, slots=True)
class Probe:
    """What a probe says of tasks, in place of all that one said before.

    scores: [n] of the first n tasks, in 32nds of a standard deviation; 0 of tasks without a value.
    """

    scores: Scores

    @classmethod
    def of(cls, tasks: Tasks, values: Floats) -> "Probe":
        """Return a probe of n distinct tasks. values: [n] finite, not all equal; only their order counts.

        A value's score is the logit of its rank, so that neither its unit nor an outlier matters; with mean 0, and
        standard deviation 1.
        """
        _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
        rank = (counts.cumsum() - 0.5 * counts) / len(values)  # of equal values the middle of theirs
        score = (log(rank) - log(1.0 - rank))[places.reshape(-1)]  # numpy 2.0 gives it another shape
        score -= score.mean()
        parts = np.rint(SCORE_PARTS / score.std() * score).clip(-MOST_SCORE, MOST_SCORE)
        scores = np.zeros(int(tasks.max()) + 1, np.int8)
        scores[tasks] = np.where(parts == 0.0, 1.0, parts)
        return cls(frozen(scores))


Body = Report | SettingsChange | Rewind | Probe


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a run's journal; seq is 1, 2, 3, ... without a gap, in commit order.

    epoch: the run's from this entry on; a rewind raises it. profiles: how many the pool had when it was appended.
    """

    seq: int
    epoch: int
    profiles: int
    body: Body


@dataclass(frozen=True, slots=True)
class WaitingParts(GroupParts):
    """Parts that wait for the rest of their groups, in the order in which they came.

    origin: [3, n] the step of their selection, -1 without one; its seq, and its place among the selections at that seq.
        With the task it names the group.
    until: [n] when the lease of the part's task has run out at the latest, in seconds since 1970.
    """

    origin: NDArray[np.int64]
    until: Floats

    @property
    def groups(self) -> int:
        """How many groups wait."""
        return len(self._groups()[0])

    def _groups(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """[G] the place of each group's first part, and [P] the group of each part."""
        names = np.vstack([self.origin, self.tasks])
        _, firsts, group = np.unique(names, axis=1, return_index=True, return_inverse=True)
        return firsts, group.reshape(-1)  # numpy 2.0 gives it another shape

    def after(self, report: Report, lease_s: float) -> tuple[list[Report], "WaitingParts"]:
        """Return reports of whole groups alone, the given one last, and the parts that wait afterwards.

        The others are of groups whose time is over: `lease_s` seconds after it came, a part waits no longer. A report
        without parts, while none wait, is returned as it is.
        """
        if not len(report.parts) and not len(self):
            return [report], self
        name = np.array([[-1 if report.made_at is None else report.made_at], *([one] for one in report.selection)])
        own = np.sort(self.tasks[(self.origin == name).all(axis=0)])
        ends, aborts = contained(report.evidence.tasks, (own,)), contained(report.aborted, (own,))
        new = GroupParts.joined([report.parts, _endings(report.evidence.where(ends), report.aborted[aborts])])
        until = np.full(len(new), report.at + lease_s)
        waiting = WaitingParts(*(*new, np.repeat(name, len(new), axis=1), until))
        whole, over, rest = WaitingParts.joined([self, waiting])._sorted_out(report.at)
        evidence, aborted = _counted(whole)
        own_report = replace(
            report,
            evidence=Evidence.joined([report.evidence.where(~ends), evidence]),
            aborted=frozen(united(report.aborted[~aborts], aborted)),
            parts=NO_PARTS,
        )
        return [*_as_reports(over, report), own_report], rest

    def _sorted_out(self, now: float) -> tuple["WaitingParts", "WaitingParts", "WaitingParts"]:
        """Return the parts of whole groups, those of groups whose time is over, and the rest."""
        firsts, group = self._groups()
        size = np.empty(len(firsts))
        size[group] = self.group_size  # of equal places the last one stays: the trainer's last word
        whole, over = np.bincount(group, self.rollouts) >= size, self.until[firsts] <= now
        oldest, waiting = firsts.argsort(), np.bincount(group[~(whole | over)[group]], minlength=len(firsts))
        younger = waiting[oldest][::-1].cumsum()[::-1]  # parts of a group and all younger ones
        over[oldest] |= younger > MOST_PARTS
        is_whole, is_over = whole[group], (over & ~whole)[group]
        return self.where(is_whole), self.where(is_over), self.where(~(is_whole | is_over))


NOTHING_UNFINISHED = WaitingParts(*(*NO_PARTS, frozen(np.empty((3, 0), np.int64)), NO_EVIDENCE.successes))


def _as_reports(parts: WaitingParts, report: Report) -> list[Report]:
    """Return a report for each step of selection, of all groups as they are."""
    steps, found = parts.origin[0], list[Report]()
    for step in np.unique(steps).tolist():
        evidence, aborted = _counted(parts.where(steps == step))
        made_at = None if step < 0 else step
        found.append(replace(report, evidence=evidence, made_at=made_at, walks=(), aborted=aborted, parts=NO_PARTS))
    return found


def _endings(evidence: Evidence, aborted: Tasks) -> GroupParts:
    """Return whole outcomes and aborts as the last parts of groups that wait."""
    nothing = np.zeros(len(aborted))
    successes, failures = (np.concatenate([counts, nothing]) for counts in (evidence.successes, evidence.failures))
    rollouts = successes + failures
    rate = successes / np.maximum(rollouts, 1e-300)
    differ = np.concatenate([evidence.effective, nothing > 0])
    lowest, highest = np.where(differ, 0.0, rate), np.where(differ, 1.0, rate)
    tasks, size = np.concatenate([evidence.tasks, aborted]), np.full(len(rollouts), ENDS)
    return GroupParts(tasks.astype(np.int32), size, rollouts, successes, failures, lowest, highest)


def _counted(parts: GroupParts) -> tuple[Evidence, Tasks]:
    """Return the evidence of these groups, in the order in which their last parts came, and the tasks without any.

    A task has one group here: its selection is one, or its groups are so old that they count together.
    """
    counted = parts.where(parts.successes + parts.failures > 0)
    tasks, last = np.unique(parts.tasks[::-1], return_index=True)
    aborted = frozen(without(tasks, counted.tasks))
    if not len(counted):
        return NO_EVIDENCE, aborted
    no_flags = np.zeros(len(counted), bool)
    summed = sum_by_task(Evidence(counted.tasks, counted.successes, counted.failures, no_flags))
    by_task = counted.where(counted.tasks.argsort(kind="stable"))
    starts = np.flatnonzero(is_first(by_task.tasks))
    differ = np.maximum.reduceat(by_task.highest, starts) - np.minimum.reduceat(by_task.lowest, starts) > SPREAD
    in_order = np.argsort(-last[contained(tasks, (summed.tasks,))])
    return Evidence(summed.tasks, summed.successes, summed.failures, differ).where(in_order), aborted
