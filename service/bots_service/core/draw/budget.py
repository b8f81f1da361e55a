"""Rollouts for each selected task, out of one budget: each next rollout goes where it most likely makes a group count.

A group of m rollouts is effective with probability 1 - E[p^m] - E[(1 - p)^m], which is concave in m. So the greedy
choice is exact: no other numbers with the same sum and the same bounds give more effective groups on average.
"""

from math import ceil

import numpy as np

from bots_service.core.arrays import Floats, Tasks
from bots_service.core.portable_math import running, summed

LEAST_ROLLOUTS = 2  # a group of one has nothing to differ from
MOST_TIMES = 4  # times the mean: more for one task brought nothing measurable (docs/studies/budget.md)
MOST_GAINS = 2**23  # numbers that a selection may look at, 64 MiB


def shared_out(gains: Floats, budget: int, *, least: int) -> Tasks:
    """Return [n] how many rollouts each task gets; they add up to the budget.

    Of equal gains, the task with fewer rollouts comes first, then the one that stands first.

    Args:
        gains: [n, most - 1] by how much each rollout from the second on makes the group likelier effective, in rows
            that never rise; no task gets more than `most`.
        budget: from n * least to n * most.
        least: rollouts that each task gets, at least 1.

    Raises:
        ValueError: the budget does not lie within the bounds.
    """
    tasks, most = len(gains), gains.shape[1] + 1
    spare = budget - tasks * least
    if not 0 <= spare <= tasks * (most - least):
        raise ValueError(f"{budget} rollouts for {tasks} tasks of {least} to {most} each")
    rollouts = np.full(tasks, least, np.int32)
    if spare == 0:
        return rollouts
    offered = gains[:, least - 1 :]
    smallest = np.partition(offered, offered.size - spare, axis=None)[offered.size - spare]
    rollouts += np.count_nonzero(offered > smallest, axis=1).astype(np.int32)
    ties = np.flatnonzero((offered == smallest).T)[: budget - int(rollouts.sum())] % tasks
    return rollouts + np.bincount(ties, minlength=tasks).astype(np.int32)


def chances_of(gains: Floats, rollouts: Tasks) -> Floats:
    """Return [n] how likely each task's group is effective, with so many rollouts of each."""
    if len(rollouts) and np.count_nonzero(rollouts == rollouts[0]) == len(rollouts):  # as nearly always in training
        return np.asarray(np.minimum(summed(gains.T[: rollouts[0] - 1]), 1.0), np.float64)
    sums = np.zeros((1 + gains.shape[1], len(gains)))
    sums[1:] = gains.T
    running(sums[1:], np.add)
    return np.asarray(np.minimum(sums[rollouts - 1, np.arange(len(gains))], 1.0), np.float64)


def most_by_default(budget: int, count: int) -> int:
    """Return the largest number of rollouts of a task where a request says none."""
    return MOST_TIMES * ceil(budget / count)
