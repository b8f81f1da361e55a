"""What a study trains on: a pool of tasks, and a model whose success probabilities move."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bots_service.core.arrays import Flags, Floats, Tasks, frozen
from bots_service.core.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Batch:
    """What the rollouts of one step showed.

    tasks: [B] ascending and distinct.
    successes, failures: [B] real counts, their sum > 0.
    effective: [B] whether the task's rewards differ, so that its group has a gradient.
    """

    tasks: Tasks
    successes: Floats
    failures: Floats
    effective: Flags

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def rollouts(self) -> float:
        """How many rollouts there were in all."""
        return float((self.successes + self.failures).sum())

    @property
    def rates(self) -> Floats:
        """[B] the share of successes, in [0, 1]."""
        return self.successes / (self.successes + self.failures)

    def as_evidence(self) -> Evidence:
        """Return the batch as the service folds it."""
        return Evidence(self.tasks, self.successes, self.failures, self.effective)


def batch_of(tasks: Tasks, successes: Floats, failures: Floats, effective: Flags) -> Batch:
    """Return a batch whose arrays nobody can change: the service's core shares them."""
    return Batch(frozen(tasks), frozen(successes), frozen(failures), frozen(effective))


class Environment(Protocol):
    """A pool of tasks and the model that is trained on it.

    One trial uses it up: training changes it.
    """

    @property
    def name(self) -> str:
        """What tables call it."""
        ...

    @property
    def references(self) -> Floats:
        """[N, M] pass rates of M reference models, weakest first; NaN where unknown."""
        ...

    @property
    def reference_models(self) -> tuple[str, ...]:
        """The names of the M models."""
        ...

    @property
    def tags(self) -> Tasks | None:
        """[N] the number of each task's tag; None: the pool has no tags."""
        ...

    @property
    def steps(self) -> int:
        """How many steps a trial makes by default."""
        ...

    def success(self) -> Floats:
        """[N] the model's probabilities of success now, in [0, 1]; nobody changes the array."""
        ...

    def accuracy(self) -> float:
        """Return what training is for: the mean success probability, of tasks that are held out where there are any."""
        ...

    def train(self, batch: Batch) -> None:
        """Make one step; a recorded pool moves on whatever the batch was."""
        ...


def binomial(success: Floats, rollouts: int, rng: np.random.Generator) -> tuple[Floats, Floats, Flags]:
    """Roll out tasks whose reward is 0 or 1.

    Args:
        success: [B] probabilities of success.
        rollouts: of each task, at least 1.
        rng: for the draws.

    Returns:
        [B] successes, [B] failures, and [B] whether some rollouts succeeded and some failed.
    """
    solved = rng.binomial(rollouts, success).astype(np.float64)
    return solved, rollouts - solved, (solved > 0) & (solved < rollouts)
