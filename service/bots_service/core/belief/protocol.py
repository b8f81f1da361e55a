"""What a kind of belief provides to the rest of the service. `kinds.py` lists the kinds.

A belief owns everything that is particular to its kind: how evidence changes it, and the distribution of each task's
success probability. No other module looks inside.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from bots_service.core.arrays import Counts, Flags, Floats, Tasks
from bots_service.core.evidence import Evidence
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings


class Distributions(Protocol):
    """Independent distributions over [0, 1] of n success probabilities.

    `sample`, `below`, `quantile` and `log_density` describe one and the same distribution: the one that
    Thompson sampling draws from.
    """

    def __len__(self) -> int:
        """Return n."""
        ...

    @property
    def mean(self) -> Floats:
        """[n] the expected success probabilities."""
        ...

    @property
    def rollout_variance(self) -> Floats:
        """[n] E[p (1 - p)], in [0, 1/4]: how much one rollout's success is expected to vary."""
        ...

    def interval(self) -> tuple[Floats, Floats]:
        """Return the 5 % and 95 % quantiles, each [n]."""
        ...

    def effective(self, rollouts: float) -> Floats:
        """[n] how likely some of so many rollouts succeed and some fail, in [0, 1]."""
        ...

    def all_fail(self, rollouts: Counts) -> Floats:
        """[n] how likely all of so many rollouts of each fail, each at least 1; the same bits on every machine."""
        ...

    def as_beta(self) -> tuple[Floats, Floats] | None:
        """Return alpha and beta, each [n]; None where these are no Beta distributions."""
        ...

    def at(self, places: Counts | Flags) -> Self:
        """Return the distributions at the given places, or where a mask says so."""
        ...

    def joined(self, others: Self) -> Self:
        """Return these distributions, followed by others of the same kind."""
        ...

    def mirrored(self) -> Self:
        """Return the distributions of 1 - p."""
        ...

    def sample(self, rng: np.random.Generator) -> Floats:
        """[n] one draw from each."""
        ...

    def below(self, value: float) -> Floats:
        """[n] P(X <= value)."""
        ...

    def quantile(self, levels: Floats) -> Floats:
        """[n] the value below which each has the given probability."""
        ...

    def log_density(self, values: Floats | float) -> Floats:
        """[n] log of each density at its value."""
        ...


@dataclass(frozen=True, slots=True)
class ClosingStep:
    """The evidence of a step that closes.

    number: of the step, 1 for the first.
    batches: lag and evidence (each task once, ascending), the largest lag first. Lag 0 came on time; evidence of lag n
        was selected n steps before, and should have come with the step that closed as the n-th last.
    whole: all of it together, each task once, ascending.
    rollouts: m, the rollouts of a task in this run; 0.0 if none were ever reported.
    """

    number: int
    batches: tuple[tuple[int, Evidence], ...]
    whole: Evidence
    rollouts: float


class Belief(ABC):
    """How likely the model in training is to solve each task of a pool. Beliefs are values: nothing changes one.

    Tasks without evidence of their own share the distribution of their profile: they are exchangeable. A kind is a
    frozen dataclass of numbers, arrays, and such dataclasses: so the codec knows its bytes.
    """

    __slots__ = ()

    @classmethod
    @abstractmethod
    def fresh(cls, settings: RunSettings, pool: Pool) -> Self:
        """Return the belief before any evidence; it has room for no profile yet."""

    # --- what changes it ---------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def longest_lag(self) -> int:
        """How many steps late evidence may come and still count."""

    def extended(self, pool: Pool, profiles: int) -> Self:  # noqa: ARG002 - for kinds that keep something of profiles
        """Return the belief with room for the profiles that were appended since, up to this number of them."""
        return self

    @abstractmethod
    def fold(self, pool: Pool, step: ClosingStep, settings: RunSettings) -> Self:
        """Return the belief after one closed step; every profile of the pool has room in this belief.

        Two processes that fold the same steps must get the same bytes.
        """

    @abstractmethod
    def forgotten(self, tasks: Tasks) -> Self:
        """Return the belief without evidence of these tasks' own, sorted: they follow their profiles again.

        What their evidence says about other tasks stays.
        """

    # --- what it says of tasks ---------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def own_tasks(self) -> Tasks:
        """Sorted tasks with evidence of their own; all others follow their profile."""

    @abstractmethod
    def own_distributions(self, pool: Pool) -> Distributions:
        """[T] of the tasks with evidence of their own, in their order."""

    @abstractmethod
    def profile_distributions(self, pool: Pool) -> Distributions:
        """[G] of the tasks of each profile that have no evidence of their own."""

    @abstractmethod
    def distributions(self, pool: Pool, tasks: Tasks) -> Distributions:
        """[n] of the given tasks."""

    # --- what it says of itself --------------------------------------------------------------------------------------

    @property
    def capability(self) -> float | None:
        """Where the model stands along the references (c); None if that is not known, or not estimated by this kind."""
        return None

    @abstractmethod
    def estimates(self, pool: Pool) -> dict[str, float]:
        """Return what the belief estimates about the model in training, by name; empty if it estimates nothing yet.

        The first one tells where the model stands.
        """

    def forgotten_share(self, settings: RunSettings) -> float:  # noqa: ARG002 - for kinds that forget
        """Return which share of a task's evidence each step drops, in [0, 1]."""
        return 0.0

    @property
    @abstractmethod
    def fold_numbers(self) -> int:
        """About how many numbers a fold touches: tells whether it is quick enough for the event loop."""

    def fits(self, pool: Pool) -> bool:  # noqa: ARG002 - for kinds that keep something of profiles
        """Return whether the pool has every profile that the belief knows."""
        return True
