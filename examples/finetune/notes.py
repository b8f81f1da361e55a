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
from examples.finetune.plan import ARMS, Plan
from examples.finetune.sampling import effective_probabilities
from examples.finetune.warm_up import whole


@dataclass(slots=True)
class Notes:
    """The notes of one run.

    plan: what is run; seed, arm: which run it is.
    """

    plan: Plan
    seed: int
    arm: str
    _steps: dict[str, list[Any]] = field(
        default_factory=lambda: {"chosen": [], "solved": [], "means": [], "chances": []}
    )
    _evaluations: dict[str, list[Floats]] = field(default_factory=lambda: {"held_out": [], "pool": [], "believed": []})

    def step(self, choice: Choice, solved: Sequence[int]) -> None:
        """Note a step: its tasks, and how many rollouts of each succeeded."""
        found = (choice.places, solved, choice.means, choice.chances)
        for name, values in zip(self._steps, found, strict=True):
            self._steps[name].append(values)

    def evaluation(self, held_out: Floats, pool: Floats, believed: Floats) -> None:
        """Note an evaluation.

        Args:
            held_out: [held-out tasks] exact success probabilities, as many tasks of each group, group by group.
            pool: [pool] the same of the pool's tasks.
            believed: [pool] the means of the belief about them.
        """
        for name, values in zip(self._evaluations, (held_out, pool, believed), strict=True):
            self._evaluations[name].append(values.copy())

    def save(self, file: Path) -> None:
        """Write the arrays to an .npz file.

        Of each step, [steps, tasks]: chosen (places in the pool), solved (rollouts), means and chances (what was
        believed of these tasks when they were chosen). Of each evaluation, [evaluations, tasks]: held_out and pool
        (exact success probabilities), believed (of the pool's tasks).
        """
        kinds = {"chosen": np.int32, "solved": np.int16}
        arrays = {name: np.array(values, kinds.get(name, np.float32)) for name, values in self._steps.items()}
        arrays |= {name: np.array(values, np.float32) for name, values in self._evaluations.items()}
        with whole(file) as part, part.open("wb") as stream:
            np.savez_compressed(stream, allow_pickle=False, **arrays)

    def course(self, *, seconds: float, cpu_seconds: float, service_seconds: float) -> Course:
        """Return the run's result."""
        held_out, pool, believed = (np.array(values) for values in self._evaluations.values())
        solved = np.array(self._steps["solved"])
        chosen = np.array(self._steps["chosen"])
        found = [calibration_of(*pair) for pair in zip(believed, pool, strict=True)]
        by_group = held_out.reshape(len(held_out), -1, self.plan.held_out_per_group).mean(axis=2)
        ratios = effective_probabilities(pool, self.plan.rollouts).mean(axis=1)
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
            solved=solved.sum(axis=1).tolist(),
            effective=((solved > 0) & (solved < self.plan.rollouts)).sum(axis=1).tolist(),
            visits=np.bincount(chosen.ravel(), minlength=pool.shape[1]).tolist(),
            reference_rollouts=self.plan.reference_rollouts if ARMS[self.arm].references else 0,
            seconds=round(seconds, 3),
            cpu_seconds=round(cpu_seconds, 3),
            service_seconds=round(service_seconds, 3),
        )


def rounded(values: Sequence[float] | Floats, digits: int) -> list[float]:
    """Return values as plain numbers with so many digits."""
    return [round(float(value), digits) for value in values]
