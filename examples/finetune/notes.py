"""What is written down during a run: the figures of its result, and arrays from which causes can be read later."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from examples.finetune.calibration import calibration_of
from examples.finetune.choosers import Choice, Floats
from examples.finetune.course import Course
from examples.finetune.model import effective_probabilities
from examples.finetune.plan import ARMS, Plan
from examples.finetune.warm_up import whole

NOBODY = -1  # a batch has fewer tasks than the largest


def lists(*names: str) -> dict[str, list[Any]]:
    """Return an empty list for each name."""
    return {name: [] for name in names}


@dataclass(slots=True)
class Notes:
    """The notes of one run.

    plan: what is run; seed, arm: which run it is.
    """

    plan: Plan
    seed: int
    arm: str
    _steps: dict[str, list[Any]] = field(default_factory=lambda: lists("chosen", "solved", "means", "chances"))
    _evaluations: dict[str, list[Floats]] = field(default_factory=lambda: lists("held_out", "pool", "believed"))

    @property
    def steps(self) -> int:
        """How many batches are noted."""
        return len(self._steps["chosen"])

    @property
    def rollouts(self) -> int:
        """How many rollouts are noted."""
        return sum(map(len, self._steps["chosen"])) * self.plan.rollouts

    @property
    def evaluations(self) -> int:
        """How many evaluations are noted."""
        return len(self._evaluations["held_out"])

    @property
    def accuracy(self) -> float:
        """The last held-out accuracy."""
        return float(self._evaluations["held_out"][-1].mean())

    def step(self, choice: Choice, solved: Sequence[int]) -> None:
        """Note a batch: its tasks, and how many rollouts of each succeeded."""
        kept = slice(len(solved))
        found = (choice.places[kept], solved, choice.means[kept], choice.chances[kept])
        for name, values in zip(self._steps, found, strict=True):
            self._steps[name].append(values)

    def evaluation(self, held_out: Floats) -> None:
        """Note [held-out tasks] exact success probabilities, as many tasks of each group, group by group."""
        self._evaluations["held_out"].append(held_out)

    def look(self, pool: Floats, believed: Floats) -> None:
        """Note [pool] exact success probabilities of the pool's tasks, and the means of the belief about them."""
        self._evaluations["pool"].append(pool)
        self._evaluations["believed"].append(believed)

    def save(self, file: Path) -> None:
        """Write the arrays to an .npz file.

        Of each batch, [steps, tasks]: chosen (places in the pool, -1 where the batch has fewer tasks), solved
        (rollouts), means and chances (what was believed of these tasks when they were chosen). Of each evaluation,
        [evaluations, tasks]: held_out; of each look at the pool, [looks, tasks]: pool (both exact success
        probabilities) and believed (of the pool's tasks).
        """
        kinds = {"chosen": np.int32, "solved": np.int16}
        widest = max(map(len, self._steps["chosen"]))
        arrays = {
            name: np.stack([filled(batch, widest) for batch in values]).astype(kinds.get(name, np.float32))
            for name, values in self._steps.items()
        }
        arrays |= {name: np.array(values, np.float32) for name, values in self._evaluations.items()}
        with whole(file) as part, part.open("wb") as stream:
            np.savez_compressed(stream, allow_pickle=False, **arrays)

    def course(self, *, seconds: float, cpu_seconds: float, service_seconds: float) -> Course:
        """Return the run's result."""
        held_out, pool, believed = (np.array(values) for values in self._evaluations.values())
        found = [calibration_of(*pair) for pair in zip(believed, pool, strict=True)]
        by_group = held_out.reshape(len(held_out), -1, self.plan.held_out_per_group).mean(axis=2)
        ratios = effective_probabilities(pool, self.plan.rollouts).mean(axis=1)
        solved = [np.array(batch) for batch in self._steps["solved"]]
        return Course(
            seed=self.seed,
            arm=self.arm,
            accuracies=rounded(held_out.mean(axis=1), 6),
            by_group=[rounded(groups, 4) for groups in by_group],
            pool_accuracies=rounded(pool.mean(axis=1), 6),
            uniform_ratios=rounded(ratios, 6),
            slopes=[None if math.isnan(one.slope) else round(one.slope, 4) for one in found],
            log_losses=rounded([one.log_loss for one in found], 5),
            least_losses=rounded([one.least for one in found], 5),
            solved=[int(batch.sum()) for batch in solved],
            effective=[int(((batch > 0) & (batch < self.plan.rollouts)).sum()) for batch in solved],
            visits=np.bincount(np.concatenate(self._steps["chosen"]), minlength=pool.shape[1]).tolist(),
            reference_rollouts=self.plan.reference_rollouts if ARMS[self.arm].references else 0,
            seconds=round(seconds, 3),
            cpu_seconds=round(cpu_seconds, 3),
            service_seconds=round(service_seconds, 3),
        )


def filled(batch: Sequence[float] | Floats, size: int) -> Floats:
    """Return a batch with -1 in the places that it has not."""
    return np.pad(np.asarray(batch, float), (0, size - len(batch)), constant_values=NOBODY)


def rounded(values: Sequence[float] | Floats, digits: int) -> list[float]:
    """Return values as plain numbers with so many digits."""
    return [round(float(value), digits) for value in values]
