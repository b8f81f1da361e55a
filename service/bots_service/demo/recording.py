"""A real GRPO run, recorded: what the rollouts of any of its problems would have shown at any of its steps.

The run did not react to what a replay selects. But it visited every problem about every 9 steps, so each problem's
success probability is known well enough at every step. `data/SOURCE.md` says where the numbers come from.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from bots_client import Task

STEPS = 500  # of the recorded run
VISITS_POOLED = 5  # 40 rollouts: one visit's 8 are too few, and more visits would blur what the model learned
VISITS_WEAK = 2  # the first two come before the model has learned much
REFERENCE_MODELS = ("qwen2.5-math-1.5b", "qwen2.5-math-7b")


@dataclass(frozen=True, slots=True)
class Recording:
    """Some problems of the run.

    ids: [N] names.
    solved: [N, V + 1] rollouts solved before each visit, summed; meaningless behind the last visit.
    visits: [N] how often each problem was visited.
    rollouts_per_visit: how many rollouts each visit had.
    strong: [N] pass rate of the 7B model; NaN where unknown.
    """

    ids: tuple[str, ...]
    solved: NDArray[np.int64]
    visits: NDArray[np.int64]
    rollouts_per_visit: int
    strong: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.ids)

    def with_both_references(self) -> "Recording":
        """Return the problems whose 7B pass rate is known."""
        known = np.flatnonzero(~np.isnan(self.strong))
        ids = tuple(self.ids[problem] for problem in known.tolist())
        return Recording(ids, self.solved[known], self.visits[known], self.rollouts_per_visit, self.strong[known])

    def tasks(self) -> Iterator[Task]:
        """Yield the problems as a pool for the service: the model before training, and the 7B model where known."""
        weak = self.solved[:, VISITS_WEAK] / (VISITS_WEAK * self.rollouts_per_visit)
        for name, before, strong in zip(self.ids, weak.tolist(), self.strong.tolist(), strict=True):
            yield Task(name, (before, None if np.isnan(strong) else strong))

    def success_probabilities(self, step: int) -> NDArray[np.float64]:
        """Return [N] the share of solved rollouts in the 5 visits around a step.

        Args:
            step: from 0, below 500. Visit j of n stands for the j-th of n equal parts of the run.
        """
        at_visit = (2 * step + 1) * self.visits // (2 * STEPS)  # where the middle of the step falls, in whole numbers
        first = np.clip(at_visit - VISITS_POOLED // 2, 0, self.visits - VISITS_POOLED)
        each = np.arange(len(self))
        solved = self.solved[each, first + VISITS_POOLED] - self.solved[each, first]
        return solved / (VISITS_POOLED * self.rollouts_per_visit)

    def roll_out(self, step: int, *, rollouts: int, seed: int) -> NDArray[np.int64]:
        """Return [N] how many of so many rollouts each problem would solve at a step.

        They depend on nothing else: every strategy that selects a problem at that step sees the same.
        """
        rng = np.random.default_rng([seed, step])
        return rng.binomial(rollouts, self.success_probabilities(step))


def recorded_run() -> Recording:
    """Return all 890 problems."""
    with (files("bots_service.demo") / "data/rlvr_run.npz").open("rb") as file, np.load(file) as arrays:
        successes = np.maximum(arrays["successes"], 0)  # -1: no such visit
        return Recording(
            ids=tuple(arrays["task_id"].tolist()),
            solved=np.pad(successes.cumsum(axis=1, dtype=np.int64), ((0, 0), (1, 0))),
            visits=arrays["visits"].astype(np.int64),
            rollouts_per_visit=int(arrays["rollouts_per_visit"]),
            strong=arrays["reference_qwen25_math_7b"].astype(np.float64),
        )
