"""What is expected of a run: of its pool as a whole, and what its settings and references can bring."""

from dataclasses import dataclass
from math import ceil

import numpy as np

from bots_service.core.arrays import Floats, frozen
from bots_service.core.belief.protocol import Belief
from bots_service.core.draw.eligible import Eligible
from bots_service.core.pool import Pool
from bots_service.core.state import RunState

BINS = 20  # equal ones, of [0, 1]
MOST_ROWS = 16_384  # looked at; of more profiles and tried tasks, evenly spaced ones stand for the rest


@dataclass(frozen=True, slots=True)
class Outlook:
    """What to expect of tasks that are chosen uniformly from those that are not retired.

    effective_task_ratio: the expected share of them with some rollouts that succeed and some that fail. Rewards other
        than 0 and 1 differ more often than that, so where they are reported uniform sampling reaches more.
    distribution: the share of them whose expected success probability lies in each of the BINS; they add up to 1.
    """

    effective_task_ratio: float
    distribution: tuple[float, ...]


def outlook(belief: Belief, pool: Pool, rollouts: float) -> Outlook | None:
    """Return the outlook; None where every task is retired.

    Args:
        belief: about the pool.
        pool: the tasks.
        rollouts: m, how many of each task.
    """
    candidates = Eligible(pool, belief, pool.part(), frozen(np.empty(0, np.int32))).candidates()
    tasks = np.concatenate([candidates.profile_members, np.ones(len(candidates.own_tasks), np.int64)])
    rows = np.flatnonzero(tasks)
    if not len(rows):
        return None
    rows = rows[:: -(-len(rows) // MOST_ROWS)]
    distributions, tasks = candidates.profile_beliefs.joined(candidates.own_beliefs).at(rows), tasks[rows]
    ratio = float(np.average(distributions.effective(rollouts), weights=tasks))
    return Outlook(min(max(ratio, 0.0), 1.0), _shares(distributions.mean, tasks))


def rollouts_of(state: RunState) -> float:
    """Return how many rollouts a task gets: as many as it got so far, else as the settings say."""
    return state.totals.rollouts_per_task or state.group_size


def _shares(values: Floats, weights: np.ndarray) -> tuple[float, ...]:
    """Return which share of the weight lies in each of the BINS; a value of exactly 1 is in the last."""
    places = np.minimum((values * BINS).astype(np.intp), BINS - 1)
    sums = np.bincount(places, weights, BINS)
    return tuple((sums / sums.sum()).tolist())


def advice(state: RunState, pool: Pool) -> tuple[str, ...]:
    """Return what to know about a run, a sentence or two each; nothing where all is well."""
    found = [_without_references(state, pool), _returning(state)]
    return tuple(text for text in found if text is not None)


def _without_references(state: RunState, pool: Pool) -> str | None:
    """Warn where what a report shows of a task is forgotten before the task can come up again.

    Then only reference pass rates could tell tasks apart. Evidence lasts about 1 / lambda steps, and going round a pool
    takes as many steps as it has batches. What is left then is next to nothing.
    """
    settings, forgotten = state.settings, state.belief.forgotten_share(state.settings)
    if pool.has_references or settings.strategy != "thompson" or forgotten == 0.0:
        return None
    enough = (len(pool) - len(pool.retired)) * forgotten
    tasks_a_step = state.totals.reported / state.step if state.step else 1.0  # unknown yet: the fewest possible
    if tasks_a_step >= enough:
        return None
    return (
        "No task of this dataset has known reference pass rates, so a report says nothing about other tasks, and"
        f" evidence of a task lasts about {1 / forgotten:.0f} steps. With fewer than {ceil(enough)} tasks a"
        " step, selection is little better than uniform sampling. Create a run with the belief 'tracker', which needs"
        " no references, or the dataset with the pass rates of one or more reference models."
    )


def _returning(state: RunState) -> str | None:
    """Warn where the same few tasks stay nearest to the target, because what is known of them is never forgotten."""
    settings = state.settings
    if settings.strategy != "thompson" or state.belief.forgotten_share(settings) > 0.0:
        return None
    return (
        "The belief of this run forgets nothing, so 'thompson' returns to the same few tasks near the"
        " target, and the model may unlearn the others. In our own pilot with the tracker, this had the best effective"
        " task ratio, and held-out accuracy fell by 0.06 to 0.09 compared with a shuffled pass. Change the strategy"
        " to 'pass'."
    )
