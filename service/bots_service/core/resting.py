"""Tasks that rest: tried ones of which the belief expects no gradient any more, left out while others are free.

Nothing is stored: which tasks rest follows from the settings and the belief. So it is journalled as these are, a rewind
or another setting takes it back, and a task comes back once the model has changed enough.
"""

from dataclasses import dataclass

import numpy as np

from bots_service.core.arrays import Tasks
from bots_service.core.belief.protocol import Belief
from bots_service.core.pool import Pool
from bots_service.core.run_settings import RunSettings

SOLVED_MEAN = 0.5  # resting tasks with at least this expected success probability are solved, the others never are


@dataclass(frozen=True, slots=True)
class Resting:
    """How many tasks rest.

    solved: those expected to be solved by all rollouts.
    unsolved: those expected to be solved by none.
    expected_wrong: how many of them would be effective if they were selected now, as an expectation.
    """

    solved: int = 0
    unsolved: int = 0
    expected_wrong: float = 0.0


def resting_tasks(belief: Belief, pool: Pool, settings: RunSettings, group_size: float) -> Tasks:
    """Return, sorted, the tried tasks that are effective with a probability below `min_effective`.

    Args:
        belief: of the run.
        pool: the tasks.
        settings: of the run.
        group_size: how many rollouts to expect of a task (m).
    """
    if not settings.min_effective:
        return np.empty(0, np.int32)
    return belief.own_tasks[belief.own_distributions(pool).effective(group_size) < settings.min_effective]


def resting(belief: Belief, pool: Pool, settings: RunSettings, group_size: float) -> Resting:
    """Return how many available tasks rest, and how many of them wrongly."""
    tasks = np.setdiff1d(resting_tasks(belief, pool, settings, group_size), pool.retired, assume_unique=True)
    about = belief.distributions(pool, tasks)
    solved = int(np.count_nonzero(about.mean >= SOLVED_MEAN))
    return Resting(solved, len(tasks) - solved, float(about.effective(group_size).sum()))
