"""One select, one report and one fold of the belief, without HTTP or stores, for both kinds of belief."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks.pools import Grounds, References, fold_of, make_grounds, outcomes, report, select, train
from benchmarks.timing import Patience, Timing, in_turn
from bots_service.core.arrays import Tasks
from bots_service.core.evidence import Evidence
from bots_service.core.run_settings import RunSettings
from bots_service.core.state import RunState

SELECTED = 512
REPORTED = (512, 32)
BOTS = RunSettings(belief="bots", strategy="thompson", rollouts_per_task=16)
TRACKER = RunSettings()  # what new runs get


@dataclass(frozen=True, slots=True)
class KernelGrid:
    """Which pools and histories (steps, tasks a step) are measured, and how patiently."""

    sizes: tuple[int, ...]
    histories: tuple[tuple[int, int], ...]
    patience: Patience


FULL = KernelGrid((10**4, 10**5, 10**6, 10**7), ((0, 0), (200, 32), (200, 512)), Patience(3, fewest=5, most=200))
QUICK = KernelGrid((10**4,), ((0, 0), (20, 32)), Patience(0.2, fewest=3, most=20))


@dataclass(frozen=True, slots=True)
class KernelRow:
    """One operation on one pool after one history.

    operation: "select 512"; "report 512" or "report 32", a whole step of the run; "fold 512" or "fold 32", what of it
        changes the belief.
    steps, batch: the history. tried: tasks with evidence of their own.
    bots: with BOTS's belief and its strategy `thompson`; tracker: with the default belief and strategy.
    """

    operation: str
    references: References
    tasks: int
    steps: int
    batch: int
    tried: int
    bots: Timing
    tracker: Timing


def measure_kernels(grid: KernelGrid) -> Iterator[KernelRow]:
    """Yield the rows of each pool and history."""
    kinds: tuple[References, ...] = ("k/16", "real")
    for tasks, references in itertools.product(grid.sizes, kinds):
        grounds = make_grounds(tasks, references)
        for steps, batch in grid.histories:
            states = [train(grounds, settings, steps=steps, batch=batch) for settings in (BOTS, TRACKER)]
            tried = len(states[0].belief.own_tasks)
            for operation, calls in operations(states, grounds):
                bots, tracker = in_turn(calls, grid.patience)
                yield KernelRow(operation, references, tasks, steps, batch, tried, bots, tracker)


def operations(states: list[RunState], grounds: Grounds) -> Iterator[tuple[str, list[Callable[[], object]]]]:
    """Yield each operation, with a call of it for each state."""
    yield f"select {SELECTED}", [_selecting(state, grounds) for state in states]
    for batch in REPORTED:
        evidence = _evidence(states[0], grounds, batch)
        yield f"report {batch}", [partial(report, state, evidence, grounds) for state in states]
        yield f"fold {batch}", [fold_of(state, evidence, grounds) for state in states]


def _selecting(state: RunState, grounds: Grounds) -> Callable[[], Tasks]:
    """Return what selects; as in the service, each selection seeds a generator of its own."""
    turns = itertools.count()
    return lambda: select(state, grounds, SELECTED, np.random.default_rng([1, next(turns)]))


def _evidence(state: RunState, grounds: Grounds, batch: int) -> Evidence:
    """Make up a report of a selection."""
    rng = np.random.default_rng([2, batch])
    return outcomes(grounds, np.sort(select(state, grounds, batch, rng)), state.step, rng)
