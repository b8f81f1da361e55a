"""What is known of some tasks, as columns."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Floats, Tasks, contained
from bots_service.core.belief.protocol import Belief, Distributions
from bots_service.core.pool import Pool
from bots_service.core.segments import ABORTING, RETIRED, UNTRIED, Segments, segments_of_tried
from bots_service.core.state import RunState

TRIED = {
    "attempts": "rollouts",
    "successes": "successes",
    "visits": "visits",
    "last_step": "last_step",
}  # of AttemptRows
SORTS = ("index", "mean", "distance", "effective", "variance", *TRIED)


@dataclass(frozen=True, slots=True)
class TaskTable:
    """The belief about n tasks, and how often they were tried.

    tasks: [n] indices.
    alpha, beta: [n] of the Beta distributions of the success probabilities; None where they are no Betas.
    mean: [n] expected success probability; low, high: [n] its 5 % and 95 % quantiles.
    effective: [n] how likely some of a group of rollouts succeed and some fail.
    variance: [n] E[p (1 - p)], the expected variance of one rollout.
    attempts: [n] rollouts that were reported; successes: [n] how many of them succeeded.
    visits: [n] how many steps reported any.
    last_step: [n] the last step that reported any, 0 where none did.
    aborts: [n] how often a selection of the task brought nothing.
    segment: [n] places in SEGMENTS.
    """

    tasks: Tasks
    alpha: Floats | None
    beta: Floats | None
    mean: Floats
    low: Floats
    high: Floats
    effective: Floats
    variance: Floats
    attempts: Floats
    successes: Floats
    visits: NDArray[np.int32]
    last_step: NDArray[np.int32]
    aborts: NDArray[np.int32]
    segment: Segments


def task_table(state: RunState, pool: Pool, tasks: Tasks) -> TaskTable:
    """Return what is known of some tasks."""
    attempts, (believed, place) = state.attempts.of(tasks), _distinct(state.belief, pool, tasks)
    parameters, (low, high) = believed.as_beta(), believed.interval()
    alpha, beta = (None, None) if parameters is None else (column[place] for column in parameters)
    mean = believed.mean[place]
    segment = segments_of_tried(attempts.successes, mean)
    segment[attempts.visits == 0] = UNTRIED
    segment[contained(tasks, (state.aborts.always_aborted,))] = ABORTING
    segment[contained(tasks, (pool.retired,))] = RETIRED
    return TaskTable(
        tasks=tasks,
        alpha=alpha,
        beta=beta,
        mean=mean,
        low=low[place],
        high=high[place],
        effective=believed.effective(state.group_size)[place],
        variance=believed.rollout_variance[place],
        attempts=attempts.rollouts,
        successes=attempts.successes,
        visits=attempts.visits,
        last_step=attempts.last_step,
        aborts=state.aborts.of(tasks).aborts,
        segment=segment,
    )


def ordered(sort: str, state: RunState, pool: Pool, tasks: Tasks) -> Floats:
    """Return the value by which each task is sorted, ascending; a leading "-" turns the order round."""
    name = sort.removeprefix("-")
    if name == "index":
        values = tasks.astype(float)
    elif name in TRIED:
        values = getattr(state.attempts.of(tasks), TRIED[name]).astype(float)
    else:
        believed, place = _distinct(state.belief, pool, tasks)
        if name == "effective":
            values = believed.effective(state.group_size)[place]
        elif name == "variance":
            values = believed.rollout_variance[place]
        else:
            values = believed.mean[place]
            values = np.abs(values - state.settings.target) if name == "distance" else values
    return -values if sort.startswith("-") else values


def _distinct(belief: Belief, pool: Pool, tasks: Tasks) -> tuple[Distributions, NDArray[np.intp]]:
    """Return the distributions of these tasks, one for those of a profile that share it, and [n] the place of each."""
    own, profiles = contained(tasks, (belief.own_tasks,)), pool.profile_of.take(tasks)
    one_of = np.full(pool.profiles, -1, np.int32)
    one_of[profiles[~own]] = tasks[~own]
    shared = one_of >= 0
    place = (np.cumsum(shared) - 1)[profiles]
    place[own] = np.count_nonzero(shared) + np.arange(np.count_nonzero(own))
    return belief.distributions(pool, np.concatenate([one_of[shared], tasks[own]])), place
