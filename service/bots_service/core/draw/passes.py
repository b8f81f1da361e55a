"""The strategy `pass`: a shuffled pass that takes each task as often as it is expected to teach.

Visits in proportion to P(effective) maximise the sum of P(effective) log(visits): each task comes back at the rate at
which it teaches. None is given up: however sure the belief is that a task teaches nothing, one pass in twenty takes it.
A vague belief makes it a shuffled pass. There is nothing to tune, and a selection looks at about count / mean(P) tasks,
however large the pool.
"""

from dataclasses import dataclass

import numpy as np

from bots_service.core.arrays import Counts, Flags, Floats, Tasks, contained
from bots_service.core.belief.protocol import Belief
from bots_service.core.draw.context import DrawContext, StrategyResult, undrawn
from bots_service.core.draw.eligible import Eligible
from bots_service.core.permutation import fractions, items_at, key_of, places_of_pass
from bots_service.core.pool import Pool
from bots_service.core.rows import Table
from bots_service.core.walks import Walk

# Of taking a task in a pass, whatever the belief says. It learns of the tasks that are met. Where training lifts
# those more than the others, it takes the others for solved, and a pass without this would not meet them to see that it
# is wrong (docs/decisions/0064-least-chance.md).
LEAST_CHANCE = 1 / 20
LEAST_LUCK = 2.0**-54  # half the smallest difference of two fractions: no division by 0
LOOKED_AT = 4  # places per wanted task in the first look, and at least so many times 16


@dataclass(frozen=True, slots=True)
class Met(Table):
    """Eligible tasks in the order of a pass.

    tasks: [n] distinct.
    places: [n] where they stand.
    chances: [n] P(effective) of each, at least LEAST_CHANCE.
    luck: [n] in [0, 1): a task is taken if its luck is below its chance.
    """

    places: Counts
    chances: Floats
    luck: Floats

    @property
    def taken(self) -> Flags:
        """[n] whether the pass takes each."""
        return self.luck < self.chances


def walk_pass(eligible: Eligible, count: int, context: DrawContext) -> StrategyResult:
    """Walk on through the part's pass, and take each task with the probability that it is effective.

    Where a pass ends, the next begins, in another order. A pass that was walked as a whole without enough tasks gives
    the others by falling P(effective) / luck. What is not eligible now is passed over.
    """
    part = eligible.part
    if part.key is None:  # tasks in flight, because too few others are left
        return _untracked(eligible, count, context)
    walk, chosen = context.walks.of(part.key, part.carrier_count), np.empty(0, np.int32)
    while True:
        tasks, walk = _rest_of_pass(eligible, walk, count - len(chosen), chosen, context)
        chosen = np.concatenate([chosen, tasks])
        if len(chosen) == count:
            return undrawn(chosen, (walk,))
        walk = walk.beginning(part.carrier_count)


def _rest_of_pass(
    eligible: Eligible, walk: Walk, wanted: int, chosen: Tasks, context: DrawContext
) -> tuple[Tasks, Walk]:
    """Return up to `wanted` tasks from here to the end of the pass, and where the walk then stands.

    Args:
        eligible: the tasks.
        walk: where to begin.
        wanted: at least 1.
        chosen: tasks of this selection that an earlier pass gave.
        context: of the draw.
    """
    end = places_of_pass(walk.size)
    looks: list[Met] = []
    found, place = 0, walk.place
    while found < wanted and place < end:
        # As many places as should do, by what was found so far.
        looked = place - walk.place
        more = LOOKED_AT * max(wanted, 16) if not found else int(1.2 * (wanted - found) * looked / found) + 16
        until = min(place + max(more, looked // 2), end)
        looks.append(_meet(eligible, walk, np.arange(place, until), np.sort(chosen), context))
        found += int(np.count_nonzero(looks[-1].taken))
        place = until
    met = Met.joined(looks)
    takes = np.flatnonzero(met.taken)[:wanted]
    if len(takes) == wanted:
        return met.tasks[takes], Walk(walk.part, walk.turn, int(met.places[takes[-1]]) + 1, walk.size)
    if walk.place == 0:
        left = np.flatnonzero(~met.taken)
        by_ratio = np.argsort(-(met.chances / np.maximum(met.luck, LEAST_LUCK))[left], kind="stable")
        takes = np.concatenate([takes, left[by_ratio[: wanted - len(takes)]]])
    return met.tasks[takes], Walk(walk.part, walk.turn, end, walk.size)


def _meet(eligible: Eligible, walk: Walk, places: Counts, chosen: Tasks, context: DrawContext) -> Met:
    """Return the eligible tasks at these places."""
    part, seed = eligible.part, context.settings.seed
    items = items_at(places, walk.size, key_of("order", seed, walk.part, walk.turn))
    are_items = items < walk.size
    items, places = items[are_items], places[are_items]
    tasks = (items if part.carriers is None else part.carriers[items]).astype(np.int32)
    free = part.holds(tasks) & ~contained(tasks, (eligible.excluded, chosen))
    tasks, places = tasks[free], places[free]
    return Met(
        tasks,
        places,
        chances_of(eligible.belief, eligible.pool, tasks, context),
        fractions(tasks, key_of("luck", seed, walk.part, walk.turn)),
    )


def chances_of(belief: Belief, pool: Pool, tasks: Tasks, context: DrawContext) -> Floats:
    """Return [n] how likely a pass takes each task."""
    return np.maximum(belief.distributions(pool, tasks).effective(context.group_size), LEAST_CHANCE)


def _untracked(eligible: Eligible, count: int, context: DrawContext) -> StrategyResult:
    """Return the eligible tasks with the largest P(effective) / luck; no walk moves."""
    tasks = np.sort(eligible.part.members.order)
    tasks = tasks[~contained(tasks, (eligible.excluded,))]
    chances = chances_of(eligible.belief, eligible.pool, tasks, context)
    luck = np.maximum(context.rng.random(len(tasks)), LEAST_LUCK)
    best = np.argsort(-chances / luck, kind="stable")[:count]
    return undrawn(tasks[best])
