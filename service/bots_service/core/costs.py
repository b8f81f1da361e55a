"""What rollouts cost: generated tokens and accelerator seconds, as sums that say which rollouts they cover."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bots_service.core.arrays import Floats, Tasks, contained, frozen, last_of, ordered_sum
from bots_service.core.checks import Arrays, as_count, as_number
from bots_service.core.evidence import Evidence
from bots_service.core.rows import LayeredRows, TaskRows

RESOURCES = ("tokens", "seconds")
MOST_SPENT = 1e11  # by one outcome: 3,000 accelerator years.


@dataclass(frozen=True, slots=True)
class CostRows(TaskRows):
    """What the rollouts of some tasks cost; only tasks of which a cost was reported have a row.

    spent: [2, R] tokens in the first row, accelerator seconds in the second.
    rollouts: [2, R] how many reported rollouts each covers. Rollouts that were aborted, or came too late to count,
        add to what was spent and not to these.
    """

    spent: Floats
    rollouts: Floats

    def plus(self, more: "CostRows") -> "CostRows":
        """Return the sums of both."""
        return self.overlaid(_sums(self.of(more.tasks), more))

    def said_of(self, task: int) -> list[float | None]:
        """Return the tokens and the seconds of one task; None where nothing was said."""
        row = self.of(np.array([task], np.int32))
        columns = zip(row.spent[:, 0].tolist(), row.rollouts[:, 0].tolist(), strict=True)
        return [spent if spent or rollouts else None for spent, rollouts in columns]

    def uncounted(self) -> "CostRows":
        """Return the same cost of rollouts that count for nothing."""
        return CostRows(self.tasks, self.spent, frozen(np.zeros_like(self.rollouts)))


_NO_TASKS = frozen(np.empty(0, np.int32))
NO_COSTS = CostRows(_NO_TASKS, frozen(np.empty((2, 0))), frozen(np.empty((2, 0))))


def _sums(before: CostRows, more: CostRows) -> CostRows:
    return CostRows(more.tasks, before.spent + more.spent, before.rollouts + more.rollouts).frozen()


def cost_rows(tasks: Tasks, spent: Floats, rollouts: Floats) -> CostRows:
    """Return what outcomes cost, each task once.

    Args:
        tasks: [n] of the outcomes; a task may occur more than once.
        spent: [2, n] NaN where an outcome doesn't say it.
        rollouts: [n] of each outcome; 0 for an aborted one.
    """
    said = ~np.isnan(spent)
    if not said.any():
        return NO_COSTS
    kept = said.any(axis=0)
    distinct, places = np.unique(tasks[kept], return_inverse=True)
    columns = (*np.where(said, spent, 0.0), *np.where(said, rollouts, 0.0))
    sums = np.array([np.bincount(places, column[kept], len(distinct)) for column in columns])
    return CostRows(distinct.astype(np.int32), sums[:2], sums[2:]).frozen()


@dataclass(frozen=True, slots=True)
class CostSum:
    """What some rollouts cost in one resource.

    spent: tokens or accelerator seconds, with those of rollouts that were aborted or came too late to count.
    rollouts: how many reported rollouts it covers: those whose outcome said what they cost.
    effective: how many effective tasks it covers, each once a step.
    """

    spent: float = 0.0
    rollouts: float = 0.0
    effective: int = 0

    @property
    def per_rollout(self) -> float | None:
        """What was spent for each rollout that it covers; None without any."""
        return self.spent / self.rollouts if self.rollouts else None

    @property
    def per_effective(self) -> float | None:
        """What was spent for each effective task; None without any."""
        return self.spent / self.effective if self.effective else None

    def plus(self, other: "CostSum") -> "CostSum":
        """Return the sums of both."""
        return CostSum(self.spent + other.spent, self.rollouts + other.rollouts, self.effective + other.effective)


NO_COST = CostSum()


class CostSums(NamedTuple):
    """What some rollouts cost: their generated tokens, and the accelerator seconds that they took."""

    tokens: CostSum = NO_COST
    seconds: CostSum = NO_COST

    def plus(self, other: "CostSums") -> "CostSums":
        """Return the sums of both."""
        if other == NO_COST_SUMS:
            return self
        return CostSums(self.tokens.plus(other.tokens), self.seconds.plus(other.seconds))


NO_COST_SUMS = CostSums()


def cost_sums(rows: CostRows, groups: Evidence) -> CostSums:
    """Return the sums over tasks.

    Args:
        rows: what they cost, ascending.
        groups: what they showed in the same step, each group of rollouts once.
    """
    if not len(rows):
        return NO_COST_SUMS
    effective = groups.tasks[groups.effective]
    return CostSums(*(_sum(*of, rows.tasks, effective) for of in zip(rows.spent, rows.rollouts, strict=True)))


def _sum(spent: Floats, rollouts: Floats, tasks: Tasks, effective: Tasks) -> CostSum:
    covered = int(np.count_nonzero(contained(effective, (tasks[rollouts > 0],))))
    return CostSum(ordered_sum(spent), ordered_sum(rollouts), covered)


@dataclass(frozen=True, slots=True)
class RunCosts:
    """What all closed steps of a run cost: task by task, and in all."""

    by_task: LayeredRows[CostRows]
    sums: CostSums = NO_COST_SUMS

    @property
    def nbytes(self) -> int:
        """How much memory the arrays take."""
        return sum(array.nbytes for array in (*self.by_task.settled, *self.by_task.recent))

    @property
    def largest_task(self) -> int:
        """The last task of the pool of which a cost was reported, -1 before the first."""
        return max(last_of(self.by_task.settled.tasks), last_of(self.by_task.recent.tasks))

    def with_step(self, rows: CostRows, sums: CostSums) -> "RunCosts":
        """Return the costs with those of one more closed step, by task and in all."""
        if not len(rows):
            return self
        return RunCosts(self.by_task.with_rows(_sums(self.by_task.of(rows.tasks), rows)), self.sums.plus(sums))


NO_RUN_COSTS = RunCosts(LayeredRows(NO_COSTS, NO_COSTS))


# --- their bytes: a run without costs has none -----------------------------------------------------------------------

TABLES = ("settled", "recent", "open")


def encoded(costs: RunCosts, waiting: CostRows) -> tuple[dict[str, Any], Arrays]:
    """Return a header and the arrays of the costs of closed steps and of the open one. Inverse of `decoded`."""
    arrays: Arrays = {}
    for table, rows in zip(TABLES, (costs.by_task.settled, costs.by_task.recent, waiting), strict=True):
        if not len(rows):
            continue
        arrays[f"costs_{table}_tasks"] = rows.tasks
        for resource, spent, rollouts in zip(RESOURCES, rows.spent, rows.rollouts, strict=True):
            if spent.any() or rollouts.any():
                arrays[f"costs_{table}_{resource}"] = spent
                arrays[f"costs_{table}_{resource}_rollouts"] = rollouts
    if costs.sums == NO_COST_SUMS:
        return {}, arrays
    return {"costs": [[one.spent, one.rollouts, one.effective] for one in costs.sums]}, arrays


def decoded(header: dict[str, Any], arrays: Arrays) -> tuple[RunCosts, CostRows]:
    """Return the costs of closed steps and of the open one; `shapes` has checked the arrays.

    Raises:
        ValueError, TypeError: the header holds no sums.
    """
    sums = [CostSum(as_number(spent), as_number(of), as_count(found)) for spent, of, found in header.get("costs", ())]
    settled, recent, waiting = (_decoded(table, arrays) for table in TABLES)
    return RunCosts(LayeredRows(settled, recent), CostSums(*sums)), waiting


def _decoded(table: str, arrays: Arrays) -> CostRows:
    if f"costs_{table}_tasks" not in arrays:
        return NO_COSTS
    tasks = arrays[f"costs_{table}_tasks"]
    nothing = np.zeros(len(tasks))
    spent = np.stack([arrays.get(f"costs_{table}_{resource}", nothing) for resource in RESOURCES])
    rollouts = np.stack([arrays.get(f"costs_{table}_{resource}_rollouts", nothing) for resource in RESOURCES])
    return CostRows(tasks, spent, rollouts).frozen()


def shapes(arrays: Arrays) -> dict[str, tuple[str, int]]:
    """Return the types and shapes that the arrays must have, all columns of a table of one length."""
    wanted: dict[str, tuple[str, int]] = {}
    for table in TABLES:
        if f"costs_{table}_tasks" not in arrays:
            continue
        size = len(arrays[f"costs_{table}_tasks"])
        wanted[f"costs_{table}_tasks"] = ("<i4", size)
        for resource in RESOURCES:
            if f"costs_{table}_{resource}" in arrays:
                wanted[f"costs_{table}_{resource}"] = ("<f8", size)
                wanted[f"costs_{table}_{resource}_rollouts"] = ("<f8", size)
    return wanted
