"""Study: which references help, what wrong ones cost, and after how many steps references are paid."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import inf, isinf
from statistics import median
from typing import Any

import numpy as np

from bots_service.core.arrays import Floats
from studies.public_pools import POOLS
from studies.reference_pools import FEW, NONE, OWN, RIGHT, case_names, reference_case
from studies.replaying import COUNT, ROLLOUTS, replayed
from studies.results import Measured
from studies.study import Cell, Comparison, Study, StudyTable
from studies.tables import interval_of
from studies.trial import KEPT_EVERY, Measures

A_STEP = COUNT * ROLLOUTS  # rollouts
RUNS: dict[str, dict[str, Any]] = {"BOTS": {"belief": "bots"}, "tracker": {"belief": "tracker"}}
PAYABLE = (RIGHT, FEW, OWN)  # what a table of costs shows: references that one could measure before training


def trial(pool: str, case: str, run: str, seed: int, quick: bool) -> Measures:
    """Make one trial."""
    found = reference_case(pool, case)
    measures = replayed(found.pool, seed, quick, **RUNS[run])
    return replace(measures, extra={"reference_rollouts": float(found.rollouts)})


def cell(pool: str, case: str, run: str) -> Cell:
    """Return one cell."""
    return Cell({"pool": pool, "references": case, "run": run}, partial(trial, pool, case, run))


Pairs = Sequence[tuple[Measured, Measured]]  # a trial and, of the same seed, the one without references


def groups_by_step(measured: Measured) -> Floats:
    """Return [steps + 1] how many groups were effective by each step, linear between the points that are kept."""
    steps = int(measured["steps"])
    at = [*range(0, steps, KEPT_EVERY), steps]
    found: Floats = np.interp(np.arange(steps + 1), at, measured["effective_groups"])
    return found


def saved_steps(groups: Floats, without: Floats) -> float:
    """Return how many steps earlier one run had as many groups as the other has in the end.

    Args:
        groups, without: [steps + 1] effective groups by each step. Negative where `groups` ends below: then it is how
            many steps earlier `without` had as many as `groups` has in the end.
    """
    steps = np.arange(len(groups), dtype=float)
    if groups[-1] >= without[-1]:
        return float(steps[-1] - np.interp(without[-1], groups, steps))
    return float(np.interp(groups[-1], without, steps) - steps[-1])


def paid_after(groups: Floats, without: Floats, cost: float) -> float:
    """Return the first step at which a run is `cost` steps ahead of the other; infinite if it never is.

    A run is ahead by the steps that the other, which makes as many in all, still needs until it has as many groups.
    """
    steps = np.arange(len(groups), dtype=float)
    within = steps[groups <= without[-1]]
    ahead = np.interp(groups[: len(within)], without, steps) - within
    enough = np.flatnonzero(ahead >= cost)
    return float(enough[0]) if len(enough) else inf


def shown_savings(pairs: Pairs) -> str:
    """Return the mean rollouts saved in the whole run, with the 95 % interval."""
    saved = [saved_steps(groups_by_step(ours), groups_by_step(bare)) * A_STEP for ours, bare in pairs]
    return interval_of(saved).shown(0)


def shown_payment(pairs: Pairs) -> str:
    """Return the median step by which the saved rollouts were as many as the references took."""
    found = [
        paid_after(groups_by_step(ours), groups_by_step(bare), ours["extra"]["reference_rollouts"] / A_STEP)
        for ours, bare in pairs
    ]
    middle = median(found)
    return "not in the run" if isinf(middle) else f"{middle:.0f}"


REFERENCES = Study(
    name="references",
    title="Which references help, and when do they pay for themselves?",
    claim="BOTS gains much from references, the tracker little; four attempts at each task give nearly all of it.",
    cells=tuple(cell(pool, case, run) for pool in POOLS for case in case_names(pool) for run in RUNS),
    tables=(
        StudyTable("found", ("pool", "references"), ("effective_task_ratio",), across="run"),
        StudyTable("predicted", ("pool", "references"), ("pool_log_loss",), across="run"),
        StudyTable(
            "cost",
            ("pool", "references"),
            ("reference_rollouts",),
            where={"run": ("BOTS",), "references": PAYABLE},
            comparisons=(
                Comparison("rollouts saved", {"references": NONE}, shown_savings),
                Comparison("paid after, steps", {"references": NONE}, shown_payment),
            ),
        ),
    ),
)
