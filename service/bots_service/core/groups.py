"""Groups whose rollouts come in parts: a group counts once, when it is whole.

Rollouts of one selected task may end minutes apart, and each be reported as it ends. Parts wait in the run's state
until their group has as many rollouts as they say, or a whole outcome or an abort of the same selected task ends it, or
the lease of its task has run out. Then the group counts as if it had been reported whole at that moment.
"""

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Flags, Floats, Tasks, contained, frozen, united
from bots_service.core.checks import Arrays
from bots_service.core.evidence import NO_EVIDENCE, SPREAD, Evidence, joined

if TYPE_CHECKING:
    from bots_service.core.entries import Report

MOST_PARTS = 65_536  # that wait; beyond, the oldest groups count as they are: 6 MB of state
ENDS = 0.0  # the group size that a whole outcome, or an abort, says of a group in parts: no more will come


@dataclass(frozen=True, slots=True)
class GroupParts:
    """Parts of groups, in the order in which they were reported.

    tasks: [P] indices; a task may have several parts.
    group_size: [P] how many rollouts the whole group has.
    rollouts: [P] how many of these the part brings; with no successes and failures, they were aborted.
    successes, failures: [P] as in `Evidence`.
    lowest, highest: [P] the part's rewards, over the width of the reward range.
    """

    tasks: Tasks
    group_size: Floats
    rollouts: Floats
    successes: Floats
    failures: Floats
    lowest: Floats
    highest: Floats

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def columns(self) -> tuple[NDArray[np.generic], ...]:
        """The columns, in the order of the fields."""
        return tuple(getattr(self, one.name) for one in fields(self))

    @property
    def nbytes(self) -> int:
        """How much memory the arrays take."""
        return sum(column.nbytes for column in self.columns)

    def where(self, wanted: Flags) -> "GroupParts":
        """Return the parts in the wanted places ([P])."""
        return GroupParts(*(frozen(column[wanted]) for column in self.columns))  # type: ignore[arg-type]

    def plus(self, more: "GroupParts") -> "GroupParts":
        """Return these parts, and more."""
        pairs = zip(self.columns, more.columns, strict=True)
        return GroupParts(*(frozen(np.concatenate(pair)) for pair in pairs))


NO_TASKS: Tasks = frozen(np.empty(0, np.int32))
_NO_NUMBERS: Floats = frozen(np.empty(0))
NO_PARTS = GroupParts(NO_TASKS, *[_NO_NUMBERS] * 6)


@dataclass(frozen=True, slots=True)
class UnfinishedGroups:
    """Parts that wait for the rest of their groups, in the order in which they came.

    parts: [P].
    origin: [P, 3] the step of their selection, -1 without one; its seq, and its place among the selections at that seq.
        With the task it names the group.
    until: [P] when the lease of the part's task has run out at the latest, in seconds since 1970.
    """

    parts: GroupParts
    origin: NDArray[np.int64]
    until: Floats

    def __len__(self) -> int:
        """How many groups wait."""
        return len(np.unique(self._names, axis=0)) if len(self.parts) else 0

    @property
    def nbytes(self) -> int:
        """How much memory the arrays take."""
        return self.parts.nbytes + self.origin.nbytes + self.until.nbytes

    @property
    def largest_task(self) -> int:
        """The last task of the pool of which a part waits, -1 of none."""
        return int(self.parts.tasks.max(initial=-1))

    @property
    def _names(self) -> NDArray[np.int64]:
        return np.column_stack([self.origin, self.parts.tasks])

    def after(self, report: "Report", lease_s: float) -> tuple[list["Report"], "UnfinishedGroups"]:
        """Return reports of whole groups alone, the given one last, and the groups that wait afterwards.

        The others are of groups whose time is over. A report without parts, while none wait, is returned as it is.

        Args:
            report: the next one.
            lease_s: how long the lease of a task lasts.
        """
        if not len(report.parts) and not len(self.parts):
            return [report], self
        name = np.array([-1 if report.made_at is None else report.made_at, *report.selection], np.int64)
        own = np.sort(self.parts.tasks[(self.origin == name).all(axis=1)])
        ends, aborts = contained(report.evidence.tasks, (own,)), contained(report.aborted, (own,))
        new = report.parts.plus(_endings(report.evidence.where(ends), report.aborted[aborts]))
        waiting = UnfinishedGroups(
            self.parts.plus(new),
            frozen(np.concatenate([self.origin, np.tile(name, (len(new), 1))])),
            frozen(np.concatenate([self.until, np.full(len(new), report.at + lease_s)])),
        )
        whole, over, rest = waiting._sorted_out(report.at)
        evidence, aborted = _counted(whole.parts)
        others = report.evidence.where(~ends)
        own_report = replace(
            report,
            evidence=joined([others, evidence]).frozen(),
            aborted=united(report.aborted[~aborts], aborted),
            parts=NO_PARTS,
        )
        return [*over._as_reports(report), own_report], rest

    def _sorted_out(self, now: float) -> tuple["UnfinishedGroups", "UnfinishedGroups", "UnfinishedGroups"]:
        """Return the whole groups, those whose time is over, and the rest."""
        _, firsts, group = np.unique(self._names, axis=0, return_index=True, return_inverse=True)
        group = group.reshape(-1)  # numpy 2.0 gives it another shape
        rollouts = np.bincount(group, self.parts.rollouts)
        size = np.empty(len(firsts))
        size[group] = self.parts.group_size  # of equal places the last one stays: the trainer's last word
        whole, over = rollouts >= size, self.until[firsts] <= now
        over |= _surplus(firsts, np.bincount(group[~(whole | over)[group]], minlength=len(firsts)))
        is_whole, is_over = whole[group], (over & ~whole)[group]
        return self._where(is_whole), self._where(is_over), self._where(~(is_whole | is_over))

    def _where(self, wanted: Flags) -> "UnfinishedGroups":
        if not wanted.any():
            return NOTHING_UNFINISHED
        return UnfinishedGroups(self.parts.where(wanted), frozen(self.origin[wanted]), frozen(self.until[wanted]))

    def _as_reports(self, report: "Report") -> list["Report"]:
        """Return a report for each step of selection, of all groups as they are."""
        found = []
        for made_at in np.unique(self.origin[:, 0]).tolist():
            evidence, aborted = _counted(self.parts.where(self.origin[:, 0] == made_at))
            found.append(
                replace(
                    report,
                    evidence=evidence,
                    made_at=None if made_at < 0 else made_at,
                    walks=(),
                    aborted=aborted,
                    parts=NO_PARTS,
                )
            )
        return found


NOTHING_UNFINISHED = UnfinishedGroups(NO_PARTS, frozen(np.empty((0, 3), np.int64)), _NO_NUMBERS)


def _endings(evidence: Evidence, aborted: Tasks) -> GroupParts:
    """Return whole outcomes, and aborts, of tasks whose groups wait in parts, as the last parts of these."""
    if not len(evidence) and not len(aborted):
        return NO_PARTS
    successes = np.concatenate([evidence.successes, np.zeros(len(aborted))])
    failures = np.concatenate([evidence.failures, np.zeros(len(aborted))])
    rollouts = successes + failures
    rate = successes / np.maximum(rollouts, 1e-300)
    differ = np.concatenate([evidence.effective, np.zeros(len(aborted), bool)])
    return GroupParts(
        np.concatenate([evidence.tasks, aborted]).astype(np.int32),
        np.full(len(rollouts), ENDS),
        rollouts,
        successes,
        failures,
        np.where(differ, 0.0, rate),
        np.where(differ, 1.0, rate),
    )


def _surplus(firsts: NDArray[np.intp], parts: NDArray[np.intp]) -> Flags:
    """[G] which groups, the oldest first, are too many to wait. firsts: [G] their first places; parts: [G] how many."""
    oldest = np.argsort(firsts, kind="stable")
    younger = parts[oldest][::-1].cumsum()[::-1]  # of a group and all younger ones
    surplus = np.zeros(len(firsts), bool)
    surplus[oldest] = younger > MOST_PARTS
    return surplus


def _counted(parts: GroupParts) -> tuple[Evidence, Tasks]:
    """Return the evidence of the groups that these parts make up, and the tasks without any evidence.

    Groups stand in the order in which their last parts came. A task has one group here: its selection is one, or its
    groups are so old that they count together.
    """
    if not len(parts):
        return NO_EVIDENCE, NO_TASKS
    places: dict[int, list[int]] = {}
    for place, task in enumerate(parts.tasks.tolist()):
        places.setdefault(task, []).append(place)
    groups = sorted(places.items(), key=lambda named: named[1][-1])
    columns = [column.tolist() for column in (parts.successes, parts.failures, parts.lowest, parts.highest)]
    rows, aborted = list[tuple[int, float, float, bool]](), list[int]()
    for task, own in groups:
        solved, failed = ([column[place] for place in own] for column in columns[:2])
        counted = [place for place, one, other in zip(own, solved, failed, strict=True) if one + other > 0]
        if not counted:
            aborted.append(task)
            continue
        differ = max(columns[3][place] for place in counted) - min(columns[2][place] for place in counted) > SPREAD
        rows.append((task, math.fsum(solved), math.fsum(failed), differ))
    evidence = Evidence(
        np.array([task for task, *_ in rows], np.int32),
        np.array([successes for _, successes, _, _ in rows], np.float64),
        np.array([failures for _, _, failures, _ in rows], np.float64),
        np.array([differ for *_, differ in rows], bool),
    )
    return evidence.frozen(), frozen(np.sort(np.array(aborted, np.int32)))


# --- their bytes: a run whose groups come whole has none -------------------------------------------------------------


def encoded(groups: UnfinishedGroups) -> Arrays:
    """Return the arrays. Inverse of `decoded`."""
    if not len(groups.parts):
        return {}
    columns = {f"groups_{one.name}": getattr(groups.parts, one.name) for one in fields(GroupParts)}
    return columns | {"groups_origin": groups.origin.astype(np.float64), "groups_until": groups.until}


def decoded(arrays: Arrays) -> UnfinishedGroups:
    """Return the groups that were encoded; `shapes` has checked the arrays."""
    if "groups_tasks" not in arrays:
        return NOTHING_UNFINISHED
    parts = GroupParts(*(arrays[f"groups_{one.name}"] for one in fields(GroupParts)))
    return UnfinishedGroups(parts, frozen(arrays["groups_origin"].astype(np.int64)), arrays["groups_until"])


def shapes(arrays: Arrays) -> dict[str, tuple[object, ...]]:
    """Return the types and shapes that the arrays must have."""
    if "groups_tasks" not in arrays:
        return {}
    size = len(arrays["groups_tasks"])
    wanted: dict[str, tuple[object, ...]] = {f"groups_{one.name}": ("<f8", size) for one in fields(GroupParts)}
    return wanted | {"groups_tasks": ("<i4", size), "groups_origin": ("<f8", size, 3), "groups_until": ("<f8", size)}
