"""What a strategy is: what it is given, and what it returns."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from bots_service.core.arrays import Floats, Tasks
from bots_service.core.attempts import NO_ABORTS, AbortRows
from bots_service.core.draw.eligible import Eligible
from bots_service.core.mix_account import MixAccount
from bots_service.core.run_settings import TYPICAL_ROLLOUTS, RunSettings
from bots_service.core.walks import Walk, Walks


@dataclass(frozen=True, slots=True)
class DrawContext:
    """The inputs of a strategy other than the eligible tasks and their belief.

    settings: of the run, with the strategy's parameters.
    position: number of tasks reported so far: where baselines that walk through the pool continue.
    rng: the only source of random numbers, except for `pass`, whose numbers follow from seed, pass and task.
    walks: where `pass` continues.
    group_size: how many rollouts to expect of a selected task (m).
    step: how many steps closed.
    mix: what the tags of the run's mix were owed and given.
    aborts: which tasks brought nothing.
    """

    settings: RunSettings
    position: int
    rng: np.random.Generator
    walks: Walks = field(default_factory=Walks)
    group_size: float = TYPICAL_ROLLOUTS
    step: int = 0
    mix: MixAccount = ()
    aborts: AbortRows = NO_ABORTS


@dataclass(frozen=True, slots=True)
class StrategyResult:
    """What a strategy selected.

    tasks: [n] distinct.
    draws: [n] the sampled success probability of each, NaN if nothing was sampled.
    walks: how far it walked, if it is `pass`.
    """

    tasks: Tasks
    draws: Floats
    walks: tuple[Walk, ...] = ()


# Called with count at least 1 and at most the number of eligible tasks.
Strategy = Callable[[Eligible, int, DrawContext], StrategyResult]


def undrawn(tasks: Tasks, walks: tuple[Walk, ...] = ()) -> StrategyResult:
    """Return the result of a strategy that samples no success probabilities."""
    return StrategyResult(tasks, np.full(len(tasks), np.nan), walks)
