"""Exact Thompson sampling where nearly every task is a profile of its own, at a cost that doesn't grow with the pool.

Task k's draw has the density f_k, and the tasks of a cell j have a common bound M_j >= f_k(x) for all x in the window
[target - r, target + r], with 2 r M_j <= 1. Propose each task independently with probability 2 r M_j, at a place x that
is uniform in the window, and keep the proposal with probability f_k(x) / M_j. Then

    P(task k is kept at a place in dx) = 2 r M_j  dx / (2 r)  f_k(x) / M_j = f_k(x) dx

so what is kept are the draws of all tasks that lie in the window, as if each task had been drawn; the draws of the
others lie outside. Of n tasks with one probability, a binomial number is proposed, and any so many of them are equally
likely. Nobody has to look at the others. A task that may not be selected, or that is drawn on its own, is dropped where
it is proposed: tasks are proposed independently, so that changes nothing for the others.

If the window holds as many as are wanted, the nearest of them are the nearest of all. Otherwise each task that was not
kept is drawn conditional on lying outside, which takes as long as drawing each.
"""

import math
from dataclasses import dataclass

import numpy as np

from bots_service.core.arrays import Floats, Tasks, contained, united
from bots_service.core.belief.protocol import CellDistributions
from bots_service.core.cells import Cells
from bots_service.core.draw.draws import TINY, Draws, SingleTasks, nearest
from bots_service.core.draw.eligible import Eligible, pick_members
from bots_service.core.draw.thompson import MARGIN, MAX_REACH, MOST_LIKELY, draw_nearest
from bots_service.core.pool import Members

FEWEST_PER_WANTED = 32  # tasks of the part; for fewer, drawing each is as quick
# A window should hold a little more than so many times the tasks wanted and FEW: how many it will hold is estimated
# from the cells' middles, and of one wanted task it would else be empty once in 2,000 selections.
SPARE = 1.5
FEW = 8
MOST_LOOKED_AT = 1 / 16  # of the tasks: where more would be proposed, drawing each is as quick


@dataclass(frozen=True, slots=True)
class CellWindow:
    """[target - reach, target + reach], and what bounds the draws in it.

    members: the tasks of the part, cell by cell.
    likely: [C] 2 r M_j, the probability with which each task of a cell is proposed.
    """

    target: float
    reach: float
    members: Members
    likely: Floats


def draw_by_cell(eligible: Eligible, count: int, *, target: float, rng: np.random.Generator) -> Draws | None:
    """Draw for every task; return the `count` draws nearest to the target, nearest first, with tasks as owners.

    Args:
        eligible: the tasks.
        count: at least 1 and at most their number.
        target: wanted success probability, in [0, 1].
        rng: the random numbers.

    Returns:
        None where the pool has no cells, or drawing each task is as quick. The belief decides that, never a draw.
    """
    cells = eligible.pool.cells
    if cells is None or eligible.part.key is None:  # only parts that are kept are grouped by cell
        return None
    own_tasks, own_beliefs = eligible.own()
    window = _window(eligible, cells, len(eligible) - len(own_tasks), count, target)
    if window is None:
        return None
    own = SingleTasks(own_tasks.astype(np.int64), own_beliefs)
    drawn = _drawn_near(eligible, window, rng)
    near = drawn.joined(_nearest_of(own, count, target, rng))
    if np.count_nonzero(near.distances(target) <= window.reach) < count:
        near = near.joined(_drawn_far(eligible, drawn, window, rng))
    return near.taken(nearest(near.distances(target), count, rng))


def _window(eligible: Eligible, cells: Cells, untried: int, count: int, target: float) -> CellWindow | None:
    """Return a window that should hold enough of the tasks without evidence of their own; None if there is no good one.

    Args:
        eligible: the tasks.
        cells: of their pool.
        untried: how many of them have no evidence of their own.
        count: how many are wanted.
        target: center of the window.
    """
    part = eligible.part
    if untried < FEWEST_PER_WANTED * count:
        return None
    members, beliefs = part.by_cell(cells), eligible.belief.cell_distributions(eligible.pool, cells)
    reach = _enough_reach(members, beliefs, untried / len(part), count, target)
    if not reach <= MAX_REACH * min(target, 1 - target):
        return None
    likely = np.minimum(2 * reach * np.exp(beliefs.log_bound(target, reach)), 1.0)
    looked_at = float(members.sizes @ np.where(likely > MOST_LIKELY, 1.0, likely))
    return None if looked_at > MOST_LOOKED_AT * len(part) else CellWindow(target, reach, members, likely)


def _enough_reach(members: Members, beliefs: CellDistributions, share: float, count: int, target: float) -> float:
    """Return half the width of a window that should hold `count` tasks, if a share of each cell's may be selected."""
    per_distance = 2 * share * float(members.sizes @ np.exp(np.minimum(beliefs.middle.log_density(target), 600.0)))
    return SPARE * (count + MARGIN * math.sqrt(count) + FEW) / max(per_distance, TINY)


def _drawn_near(eligible: Eligible, window: CellWindow, rng: np.random.Generator) -> Draws:
    """Return the draws in the window of tasks without evidence of their own, and all draws of likely cells."""
    belief, pool, members = eligible.belief, eligible.pool, window.members
    plain = window.likely > MOST_LIKELY
    proposed = rng.binomial(members.sizes, np.where(plain, 0.0, window.likely))
    cells = np.repeat(np.arange(len(proposed)), proposed)
    tasks = pick_members(members.order, members.starts, cells, members.sizes, (), rng)
    values = window.target + window.reach * (2 * rng.random(len(tasks)) - 1)
    levels = rng.random(len(tasks)) * window.likely[cells]
    free = _is_untried(eligible, tasks)
    tasks, values = tasks[free], values[free]
    kept = levels[free] < 2 * window.reach * np.exp(belief.distributions(pool, tasks).log_density(values))
    near = Draws(values[kept], tasks[kept].astype(np.int64))
    crowded = members.order[np.repeat(plain, members.sizes)] if plain.any() else tasks[:0]
    return near.joined(_singles(eligible, crowded).drawn(rng)) if len(crowded) else near


def _drawn_far(eligible: Eligible, drawn: Draws, window: CellWindow, rng: np.random.Generator) -> Draws:
    """Draw for every task without evidence of its own that was not drawn, conditional on lying outside the window."""
    order = window.members.order
    rest = order[~contained(order, (united(drawn.owners.astype(np.int32)),))]
    return _singles(eligible, rest).drawn_outside(window.target, window.reach, rng)


def _singles(eligible: Eligible, tasks: Tasks) -> SingleTasks:
    """Return those of the tasks that are eligible and have no evidence of their own."""
    tasks = tasks[_is_untried(eligible, tasks)]
    return SingleTasks(tasks.astype(np.int64), eligible.belief.distributions(eligible.pool, tasks))


def _is_untried(eligible: Eligible, tasks: Tasks) -> np.ndarray:
    """[n] whether each task of the part is eligible and has no evidence of its own."""
    return ~contained(tasks, (eligible.belief.own_tasks, eligible.excluded))


def _nearest_of(own: SingleTasks, count: int, target: float, rng: np.random.Generator) -> Draws:
    """Draw for every task; return the `count` nearest to the target, or all if there are fewer."""
    nobody = np.empty(0, np.int64)
    count = min(count, len(own))
    if count == 0:
        return Draws(np.empty(0), nobody)
    drawn = draw_nearest(own.beliefs, own.beliefs.at(nobody), nobody, count=count, target=target, rng=rng)
    return Draws(drawn.values, own.owners[drawn.owners])
