"""What is believed of some tasks, as columns."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from bots_service.core.arrays import Floats, Tasks
from bots_service.core.pool import Pool
from bots_service.core.state import RunState

SORTS = ("index", "mean", "distance", "evidence", "last_step")
INTERVAL = (0.05, 0.95)


@dataclass(frozen=True, slots=True)
class TaskTable:
    """Beliefs about n tasks.

    tasks: [n] indices.
    alpha, beta, mean: [n] of the Beta belief; low, high: [n] its 5 % and 95 % quantiles.
    evidence: [n] pseudo-counts beyond the prior's.
    last_step: [n] the last step that brought evidence of the task; 0 where none did lately.
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
    alpha, beta = state.belief.of_tasks(pool, tasks)
    low, high = interval(alpha, beta)
    return TaskTable(
        tasks=tasks,
        alpha=alpha,
        beta=beta,
        mean=alpha / (alpha + beta),
        low=low,
        high=high,
        evidence=alpha + beta - sum(state.belief.prior),
        last_step=state.belief.tried.last_steps(tasks),
    )


def interval(alpha: Floats, beta: Floats) -> tuple[Floats, Floats]:
    """Return the 5 % and 95 % quantiles of Beta(alpha, beta), each [n]; equal beliefs are computed once."""
    distinct, place = np.unique(np.stack([alpha, beta]), axis=1, return_inverse=True)
    quantiles = betaincinv(distinct[0], distinct[1], np.array(INTERVAL)[:, None])
    return quantiles[0][place], quantiles[1][place]


def ordered(sort: str, state: RunState, pool: Pool, tasks: Tasks) -> Floats:
    """Return the value by which each task is sorted, ascending; a leading "-" turns the order round."""
    name = sort.removeprefix("-")
    if name == "index":
        values = tasks.astype(float)
    elif name == "last_step":
        values = state.belief.tried.last_steps(tasks).astype(float)
    else:
        alpha, beta = state.belief.of_tasks(pool, tasks)
        mean = alpha / (alpha + beta)
        by_name = {"mean": mean, "distance": np.abs(mean - state.settings.target), "evidence": alpha + beta}
        values = by_name[name]
    return -values if sort.startswith("-") else values
