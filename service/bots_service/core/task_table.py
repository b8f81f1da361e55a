"""What is believed of some tasks, as columns."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Floats, Tasks
from bots_service.core.pool import Pool
from bots_service.core.state import RunState

SORTS = ("index", "mean", "distance", "evidence", "last_step")


@dataclass(frozen=True, slots=True)
class TaskTable:
    """Beliefs about n tasks.

    tasks: [n] indices.
    alpha, beta: [n] of the Beta distribution, or of that with the same mean and variance.
    mean: [n] expected success probability; low, high: [n] its 5 % and 95 % quantiles.
    evidence: [n] pseudo-counts beyond what the belief began with.
    last_step: [n] the last step that brought evidence of the task; 0 where none did.
    """

    tasks: Tasks
    alpha: Floats
    beta: Floats
    mean: Floats
    low: Floats
    high: Floats
    evidence: Floats
    last_step: NDArray[np.int32]


def task_table(state: RunState, pool: Pool, tasks: Tasks) -> TaskTable:
    """Return what is believed of some tasks."""
    distributions = state.belief.distributions(pool, tasks)
    alpha, beta = distributions.as_beta()
    low, high = distributions.interval()
    return TaskTable(
        tasks=tasks,
        alpha=alpha,
        beta=beta,
        mean=distributions.mean,
        low=low,
        high=high,
        evidence=distributions.evidence,
        last_step=state.attempts.of(tasks).last_step,
    )


def ordered(sort: str, state: RunState, pool: Pool, tasks: Tasks) -> Floats:
    """Return the value by which each task is sorted, ascending; a leading "-" turns the order round."""
    name = sort.removeprefix("-")
    if name == "index":
        values = tasks.astype(float)
    elif name == "last_step":
        values = state.attempts.of(tasks).last_step.astype(float)
    else:
        distributions = state.belief.distributions(pool, tasks)
        values = distributions.evidence if name == "evidence" else distributions.mean
        if name == "distance":
            values = np.abs(values - state.settings.target)
    return -values if sort.startswith("-") else values
