"""A second kind of belief, as small as one can be: every task's success probability is uniform on [0, 1] for ever."""

from dataclasses import dataclass

import numpy as np

from bots_service.core.arrays import Counts, Flags, Floats, Tasks
from bots_service.core.belief.protocol import Belief, ClosingStep
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings


@dataclass(frozen=True, slots=True)
class Uniforms:
    """U(0, 1), `size` times. There is no Beta distribution in here."""

    size: int

    def __len__(self) -> int:
        return self.size

    @property
    def mean(self) -> Floats:
        return np.full(self.size, 0.5)

    @property
    def rollout_variance(self) -> Floats:
        return np.full(self.size, 1 / 6)  # E[p] - E[p^2] = 1/2 - 1/3

    def interval(self) -> tuple[Floats, Floats]:
        return np.full(self.size, 0.05), np.full(self.size, 0.95)

    def effective(self, rollouts: float) -> Floats:
        return np.full(self.size, 1 - 2 / (rollouts + 1))  # E[p^m] = E[(1 - p)^m] = 1 / (m + 1)

    def all_fail(self, rollouts: Counts) -> Floats:
        return np.asarray(1.0 / (rollouts + 1.0), np.float64)

    def as_beta(self) -> None:
        return None

    def at(self, places: Counts | Flags) -> "Uniforms":
        return Uniforms(int(np.count_nonzero(places)) if places.dtype == bool else len(places))

    def joined(self, others: "Uniforms") -> "Uniforms":
        return Uniforms(self.size + others.size)

    def mirrored(self) -> "Uniforms":
        return self

    def sample(self, rng: np.random.Generator) -> Floats:
        return rng.random(self.size)

    def below(self, value: float) -> Floats:
        return np.full(self.size, value)

    def quantile(self, levels: Floats) -> Floats:
        return levels

    def log_density(self, values: Floats | float) -> Floats:
        return np.zeros(self.size)


@dataclass(frozen=True, slots=True)
class UniformBelief(Belief):
    """Learns nothing but how many steps closed, and which tasks were ever reported (they count as tried)."""

    steps: int
    reported: Tasks

    @classmethod
    def fresh(cls, settings: RunSettings, pool: Pool) -> "UniformBelief":  # noqa: ARG003 - other kinds need them
        return cls(0, np.empty(0, np.int32))

    @property
    def longest_lag(self) -> int:
        return 2**31 - 1

    def fold(self, pool: Pool, step: ClosingStep, settings: RunSettings) -> "UniformBelief":
        return UniformBelief(self.steps + 1, np.union1d(self.reported, step.whole.tasks))

    def forgotten(self, tasks: Tasks) -> "UniformBelief":
        return UniformBelief(self.steps, np.setdiff1d(self.reported, tasks))

    @property
    def own_tasks(self) -> Tasks:
        return self.reported

    def own_distributions(self, pool: Pool) -> Uniforms:
        return Uniforms(len(self.reported))

    def profile_distributions(self, pool: Pool) -> Uniforms:
        return Uniforms(pool.profiles)

    def distributions(self, pool: Pool, tasks: Tasks) -> Uniforms:
        return Uniforms(len(tasks))

    def estimates(self, pool: Pool) -> dict[str, float]:
        return {}

    @property
    def fold_numbers(self) -> int:
        return len(self.reported)

    def fits(self, pool: Pool) -> bool:
        return bool((self.reported < len(pool)).all())
