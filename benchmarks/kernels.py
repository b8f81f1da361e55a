"""One select and one update, compared with the published selector, in one process and in turn.

Both start from the same posterior, which ours learned (the reference traces in tests/ show that theirs would learn the
same). What the service builds once per dataset is built before the clock starts; so are their arrays.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from benchmarks.pools import Grounds, References, fold_of, make_grounds, outcomes, report, select, train
from benchmarks.timing import Patience, Timing, in_turn
from benchmarks.trinity import PublishedState
from bots_service.core.arrays import Tasks
from bots_service.core.evidence import Evidence
from bots_service.core.run_settings import RunSettings, StrategyName
from bots_service.core.state import RunState

SELECTED = 512
COVERING: tuple[StrategyName, ...] = ("pass",)  # strategies that let each task come back in its turn
UPDATED = (512, 32)
Kind = Literal["ours", "tracker"]  # of belief; ours is BOTS's
SETTINGS: dict[Kind, RunSettings] = {
    "ours": RunSettings(belief="bots", strategy="thompson", rollouts_per_task=16),
    "tracker": RunSettings(belief="tracker", strategy="thompson"),
}
HISTORIES = ((0, 0), (200, 32), (200, 512))  # steps, tasks a step


@dataclass(frozen=True, slots=True)
class KernelGrid:
    """Which pools and histories are measured, and how patiently."""

    sizes: tuple[int, ...]
    histories: tuple[tuple[int, int], ...]
    patience: Patience


FULL = KernelGrid((10**4, 10**5, 10**6, 10**7), HISTORIES, Patience(seconds=3, fewest=5, most=200))
QUICK = KernelGrid((10**4,), ((0, 0), (20, 32)), Patience(seconds=0.2, fewest=3, most=20))


@dataclass(frozen=True, slots=True)
class KernelRow:
    """One operation on one pool after one history.

    operation: "select 512" (Thompson sampling), "pass 512", "update 512", "update 32", or "fold" in
        place of "update": what of an update the belief alone takes, which is all that theirs does.
    steps, batch: the history. profiles: of the pool. tried: tasks with evidence of their own.
    ours: with BOTS's belief; tracker: with the other kind; theirs: None where the published selector was not fetched.
        It has one way to select, timed once for all of ours.
    """

    operation: str
    references: References
    tasks: int
    profiles: int
    steps: int
    batch: int
    tried: int
    ours: Timing
    tracker: Timing
    theirs: Timing | None

    @property
    def kind(self) -> str:
        """What the operation is: "select", "pass", "update" or "fold"."""
        return self.operation.split()[0]

    @property
    def count(self) -> int:
        """Of how many tasks."""
        return int(self.operation.split()[1])

    @property
    def tracker_cost(self) -> float:
        """The tracker's median over ours."""
        return self.tracker.median_ms / self.ours.median_ms

    @property
    def times_faster(self) -> float | None:
        """Their median over ours."""
        return None if self.theirs is None else self.theirs.median_ms / self.ours.median_ms


def measure_kernels(grid: KernelGrid, published: PublishedState | None) -> Iterator[list[KernelRow]]:
    """Yield the rows of each pool and history; there are `cells(grid)`."""
    for tasks in grid.sizes:
        for references in ("k/16", "real"):
            grounds = make_grounds(tasks, references)
            theirs = None if published is None else published.over(grounds.rates, SETTINGS["ours"])
            for steps, batch in grid.histories:
                state = train(grounds, SETTINGS["ours"], steps=steps, batch=batch)
                tracked = train(grounds, SETTINGS["tracker"], steps=steps, batch=batch)
                if theirs is not None:
                    set_posterior(theirs, state, grounds)
                yield [
                    KernelRow(
                        operation,
                        references,
                        tasks,
                        grounds.pool.profiles,
                        steps,
                        batch,
                        len(state.belief.own_tasks),
                        *timings,
                    )
                    for operation, timings in measure_state(state, tracked, grounds, theirs, grid.patience)
                ]


def cells(grid: KernelGrid) -> int:
    """Return how many pools and histories there are."""
    return len(grid.sizes) * 2 * len(grid.histories)


def set_posterior(theirs: Any, state: RunState, grounds: Grounds) -> None:
    """Let the published selector believe what our state does."""
    everything: Tasks = np.arange(len(grounds), dtype=np.int32)
    parameters = state.belief.distributions(grounds.pool, everything).as_beta()
    assert parameters is not None
    theirs.diff_estimator.set(*parameters)
    theirs.diff_estimator.cap_coef = state.belief.capability


def measure_state(
    state: RunState, tracked: RunState, grounds: Grounds, theirs: Any, patience: Patience
) -> Iterator[tuple[str, tuple[Timing, Timing, Timing | None]]]:
    """Time select, then the updates: theirs changes its posterior, so its cost of a select is taken first."""

    def select_theirs() -> Any:
        return theirs.get_indices(SELECTED)

    ours = (_selecting(state, grounds, "thompson"), _selecting(tracked, grounds, "thompson"))
    *drawn, published = _compare(*ours, select_theirs, theirs, patience)
    yield f"select {SELECTED}", (drawn[0], drawn[1], published)
    for strategy in COVERING:
        bots, tracker = in_turn([_selecting(one, grounds, strategy) for one in (state, tracked)], patience)
        yield f"{strategy} {SELECTED}", (bots, tracker, published)
    for batch in UPDATED:
        evidence = _evidence(state, grounds, batch)
        indices, rates = evidence.tasks.tolist(), (evidence.successes / 16).tolist()

        def update_theirs(indices: list[int] = indices, rates: list[float] = rates) -> None:
            theirs.feedback(indices, rates)

        updates = (partial(report, state, evidence, grounds), partial(report, tracked, evidence, grounds))
        yield f"update {batch}", _compare(*updates, update_theirs, theirs, patience)
        folds = (fold_of(state, evidence, grounds), fold_of(tracked, evidence, grounds))
        yield f"fold {batch}", _compare(*folds, update_theirs, theirs, patience)


def call_of(row: KernelRow, belief: Kind) -> Callable[[], object]:
    """Return what a row timed with one kind of belief: on an equal pool, after an equal history."""
    grounds = make_grounds(row.tasks, row.references)
    state = train(grounds, SETTINGS[belief], steps=row.steps, batch=row.batch)
    if row.kind == "update":
        return partial(report, state, _evidence(state, grounds, row.count), grounds)
    if row.kind == "fold":
        return fold_of(state, _evidence(state, grounds, row.count), grounds)
    strategies: dict[str, StrategyName] = {"select": "thompson", **{name: name for name in COVERING}}
    return _selecting(state, grounds, strategies[row.kind])


def _selecting(state: RunState, grounds: Grounds, strategy: StrategyName) -> Callable[[], Tasks]:
    """Return what selects; like theirs, and like the service, each selection seeds a generator of its own."""
    state, turns = replace(state, settings=replace(state.settings, strategy=strategy)), itertools.count()
    return lambda: select(state, grounds, SELECTED, np.random.default_rng([1, next(turns)]))


def _evidence(state: RunState, grounds: Grounds, batch: int) -> Evidence:
    """Make up a report of a selection."""
    rng = np.random.default_rng([2, batch])
    return outcomes(grounds, np.sort(select(state, grounds, batch, rng)), state.step, rng)


def _compare(
    bots: Callable[[], object],
    tracker: Callable[[], object],
    their: Callable[[], object],
    theirs: Any,
    patience: Patience,
) -> tuple[Timing, Timing, Timing | None]:
    timings = in_turn([bots, tracker, *([] if theirs is None else [their])], patience)
    return timings[0], timings[1], None if theirs is None else timings[2]
