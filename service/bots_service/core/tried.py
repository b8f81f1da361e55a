"""The tasks tried lately: their own evidence, in two sorted tables, so that a step costs what it brings.

Most rows are `settled`: one table that many states share and none copies. Rows that changed since stand in `recent`,
a small table that each step makes anew, and count instead of the settled ones. Forgetting multiplies one number, the
scale of all counts. Now and then the recent rows are settled, the counts brought to scale, and what faded is dropped;
when, follows from the state alone.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Tasks, frozen
from bots_service.core.evidence import Evidence
from bots_service.core.past import REMEMBERED
from bots_service.core.rows import Rows, no_rows

FADED = 1e-9  # pseudo-counts below this no longer move a belief whose prior is about 1
LEAST_SCALE = 1e-60  # new counts are divided by it, and stay far from the largest double
SETTLED_EVERY = 64  # steps, at the latest
FEW_ROWS = 2048  # recent rows that are cheap to copy, however few are settled
RECENT_SHARE = 16  # settled rows for each further recent one: rare settling against small copies


@dataclass(frozen=True)
class Tried:
    """Evidence of tasks that were tried lately, less what was implied for them.

    settled: rows up to when rows were last settled.
    recent: rows that changed since; they count instead of the settled ones of the same tasks.
    scale: what the counts of both are to be multiplied with, above 0.
    """

    settled: Rows
    recent: Rows
    scale: float

    @cached_property
    def whole(self) -> Rows:
        """All rows in one table, their counts still to be scaled."""
        return self.settled.overlaid(self.recent)

    def counts_of(self, tasks: Tasks) -> NDArray[np.float64]:
        """Return a and b, [2, n], of these tasks: decayed successes and failures, each less the implied ones.

        They may be negative; they are 0 for tasks that were not tried lately.
        """
        return self.scale * self._rows_of(tasks).counts

    def last_steps(self, tasks: Tasks) -> NDArray[np.int32]:
        """Return the number of the last step that brought evidence of each task; 0 where none did lately."""
        return self._rows_of(tasks).last_step

    def aged(self, kept: float, *, step: int) -> "Tried":
        """Return the evidence one step later, when the step of this number closes."""
        scale = self.scale * kept
        if scale >= LEAST_SCALE and step % SETTLED_EVERY and len(self.recent) <= self._most_recent:
            return Tried(self.settled, self.recent, scale)
        rows = replace(self.whole, counts=frozen(scale * self.whole.counts))
        alive = step - rows.last_step < REMEMBERED
        if not alive.all():
            alive |= np.abs(rows.counts).max(axis=0) >= FADED
        return Tried(rows.where(alive), no_rows(), 1.0)

    def with_counts(
        self, evidence: Evidence, unbooked: NDArray[np.float64], *, weight: float, lag: int, step: int
    ) -> "Tried":
        """Return the evidence with more of one step.

        Args:
            evidence: each task once, ascending.
            unbooked: [2, n] what was implied for these tasks at that step; taken off once a task and step.
            weight: the share of that step's evidence which is not forgotten yet.
            lag: 0 for the step that closes, 1 for the one before, up to 64.
            step: the number of the step that closes, which becomes the last one of these tasks.
        """
        if len(evidence) == 0:
            return self
        rows = self._rows_of(evidence.tasks)
        since = (step - rows.last_step).astype(np.uint64)
        # A step after the task's last one is a shift by less than 0, which wraps to a huge one and so gives 0.
        first_then = (rows.steps >> (np.uint64(lag) - since)) & np.uint64(1) == 0
        rows.counts[0] += weight / self.scale * (evidence.successes - first_then * unbooked[0])
        rows.counts[1] += weight / self.scale * (evidence.failures - first_then * unbooked[1])
        rows.steps[:] = rows.steps << since | np.left_shift(np.uint64(1), np.uint64(lag))
        rows.last_step[:] = step
        return Tried(self.settled, self.recent.overlaid(rows.frozen()), self.scale)

    @property
    def _most_recent(self) -> int:
        """How many recent rows are too few to be worth settling."""
        return FEW_ROWS + len(self.settled) // RECENT_SHARE

    def _rows_of(self, tasks: Tasks) -> Rows:
        """Return the newest row of each task, zeros where there is none."""
        if len(tasks) > self._most_recent:  # so many are sooner found in one table than in two
            return self.whole.of(tasks)
        rows = self.settled.of(tasks)
        self.recent.write_to(rows)
        return rows


def no_tries() -> Tried:
    """Return the evidence of a run that tried nothing."""
    return Tried(no_rows(), no_rows(), 1.0)
