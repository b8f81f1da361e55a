"""The tasks that were tried in recent steps, and what the last closed steps booked for them."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Floats, Tasks, frozen
from bots_service.core.belief.capability import with_implied
from bots_service.core.evidence import Evidence
from bots_service.core.rows import LayeredRows, TaskRows


@dataclass(frozen=True, slots=True)
class Rows(TaskRows):
    """Evidence of some tasks.

    counts: [2, R] evidence of success and of failure.
    steps: [R] bit j is set if the task was tried in the step that closed j steps before its last one.
    last_step: [R] the number of the last step that brought evidence of the task.
    """

    counts: NDArray[np.float64]
    steps: NDArray[np.uint64]
    last_step: NDArray[np.int32]


_NOTHING = frozen(np.empty(0, np.int32))
NO_ROWS = Rows(_NOTHING, frozen(np.empty((2, 0))), frozen(np.empty(0, np.uint64)), _NOTHING)

REMEMBERED = 64  # steps; evidence later than that counts for nothing, and the answer says so


@dataclass(frozen=True, slots=True)
class Past:
    """The newest closed steps, at most 64.

    steps: [3, S], oldest first: c after each step, NaN where there was none yet; rho m, what each step booked for every
        task by its implied rate; and 1 - lambda of each step.
    """

    steps: NDArray[np.float64]

    def __len__(self) -> int:
        return int(self.steps.shape[1])

    def then(self, capability: float | None, booked: float, kept: float) -> "Past":
        """Return the past with one more closed step."""
        newest = np.array([[np.nan if capability is None else capability], [booked], [kept]])
        return Past(frozen(np.concatenate([self.steps[:, -REMEMBERED + 1 :], newest], axis=1)))

    def at(self, lag: int) -> tuple[float | None, float, float]:
        """Return c and rho m of the step that closed `lag` steps ago, and the share kept of it until now.

        Lag 1 is the newest closed step; nothing of it is forgotten yet.
        """
        capability, booked, _ = self.steps[:, -lag].tolist()
        kept_since = 1.0
        for kept in self.steps[2, len(self) - lag + 1 :].tolist():
            kept_since *= kept
        return (None if np.isnan(capability) else capability), booked, kept_since

    def implied(self, references: Floats) -> NDArray[np.float64]:
        """Return [2, G] the implied counts that these steps leave in profiles that were not there yet.

        Args:
            references: [G, M] pass rates of the new profiles.
        """
        counts = np.zeros((2, len(references)))
        for capability, booked, kept in self.steps.T.tolist():
            known = None if np.isnan(capability) else capability
            counts = with_implied(counts, references, known, booked, kept=kept)
        return counts


NOTHING_PAST = Past(frozen(np.empty((3, 0))))

FADED = 1e-9  # pseudo-counts below this no longer move a belief whose prior is about 1
LEAST_SCALE = 1e-60  # new counts are divided by it, and stay far from the largest double
SETTLED_EVERY = 64  # steps, at the latest
ONE = np.uint64(1)


@dataclass(frozen=True)
class Tried(LayeredRows[Rows]):
    """Evidence of tasks that were tried in recent steps, less what was implied for them.

    scale: what the counts of all rows are to be multiplied with, above 0.
    """

    scale: float

    def counts_of(self, tasks: Tasks) -> NDArray[np.float64]:
        """Return a and b, [2, n], of these tasks: decayed successes and failures, each less the implied ones.

        They may be negative; they are 0 for tasks that were not tried in recent steps.
        """
        return self.scale * self.of(tasks).counts

    def aged(self, kept: float, *, step: int) -> "Tried":
        """Return the evidence one step later, when the step of this number closes."""
        scale = self.scale * kept
        if scale >= LEAST_SCALE and step % SETTLED_EVERY and not self.has_many_recent:
            return replace(self, scale=scale)
        rows = replace(self.whole, counts=frozen(scale * self.whole.counts))
        alive = step - rows.last_step < REMEMBERED
        if not alive.all():
            alive |= np.abs(rows.counts).max(axis=0) >= FADED
        return Tried(rows.where(alive), NO_ROWS, 1.0)

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
        rows = self.of(evidence.tasks)
        since = (step - rows.last_step).astype(np.uint64)
        # A step after the task's last one is a shift by less than 0, which wraps to a huge one and so gives 0.
        first_then = (rows.steps >> (np.uint64(lag) - since)) & ONE == 0
        counts = np.array([evidence.successes, evidence.failures]) - first_then * unbooked
        counts *= weight / self.scale
        counts += rows.counts
        steps = (rows.steps << since) | np.uint64((1 << lag) % 2**64)  # 64 steps ago nobody remembers
        newer = Rows(evidence.tasks, counts, steps, np.full(len(evidence), step, np.int32))
        return replace(self, recent=self.recent.overlaid(newer.frozen()))


NO_TRIES = Tried(NO_ROWS, NO_ROWS, 1.0)
