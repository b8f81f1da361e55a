"""Selection strategies: functions with one signature that select among eligible tasks.

`thompson` is BOTS (Shen et al., arXiv:2510.26374). `pass` is a shuffled pass that takes each task as often as it is
expected to teach: visits in proportion to P(effective) maximise the sum of P(effective) log(visits). None is given up:
however sure the belief is that a task teaches nothing, one pass in twenty takes it. A vague belief makes it a shuffled
pass. There is nothing to tune, and a selection looks at about count / mean(P) tasks, however large the pool. The others
are baselines.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from bots_service.core.arrays import Counts, Flags, Floats, Table, Tasks, contained, first_places
from bots_service.core.attempts import NO_ABORTS, AbortRows
from bots_service.core.belief import Belief
from bots_service.core.draw.thompson import draw_nearest
from bots_service.core.mixing import MixAccount
from bots_service.core.pool import Part, Pool
from bots_service.core.run_settings import TYPICAL_ROLLOUTS, RunSettings, StrategyName
from bots_service.core.walks import Walk, Walks, fractions, items_at, key_of, places_of_pass


@dataclass(frozen=True, slots=True)
class Eligible:
    """Tasks that may be selected: a part of the pool without excluded tasks, which are sorted, and of the part."""

    pool: Pool
    belief: Belief
    part: Part
    excluded: Tasks

    def __len__(self) -> int:
        return len(self.part) - len(self.excluded)


@dataclass(frozen=True, slots=True)
class DrawContext:
    """The inputs of a strategy other than the eligible tasks and their belief.

    settings: of the run, with the strategy's parameters.
    position: number of tasks reported so far: where baselines that walk through the pool continue.
    rng: the only source of random numbers, except for `pass`, whose numbers follow from seed, pass and task.
    walks: where `pass` continues.
    group_size: how many rollouts to expect of a selected task (m).
    step: how many steps closed.
    mix: what the tags of the run's mix were owed and given.
    aborts: which tasks brought nothing.
    """

    settings: RunSettings
    position: int
    rng: np.random.Generator
    walks: Walks = field(default_factory=Walks)
    group_size: float = TYPICAL_ROLLOUTS
    step: int = 0
    mix: MixAccount = ()
    aborts: AbortRows = NO_ABORTS


@dataclass(frozen=True, slots=True)
class DrawnTasks:
    """The selected tasks.

    tasks: [n] distinct unless they are repeatable; the `first` tasks, then those of each tag of the mix, nearest first
        if the strategy knows distances.
    draws: [n] the sampled success probability of each task; NaN if nothing was sampled.
    walks: how far the selection walked through passes, one for each part of the pool.
    reused: number of tasks that are already leased.
    """

    tasks: Tasks
    draws: Floats
    walks: tuple[Walk, ...] = ()
    reused: int = 0


# Called with count at least 1 and at most the number of eligible tasks.
Strategy = Callable[[Eligible, int, DrawContext], DrawnTasks]


def undrawn(tasks: Tasks, walks: tuple[Walk, ...] = ()) -> DrawnTasks:
    """Return the result of a strategy that samples no success probabilities."""
    return DrawnTasks(tasks, np.full(len(tasks), np.nan), walks)


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


def walk_pass(eligible: Eligible, count: int, context: DrawContext) -> DrawnTasks:
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

    chosen: tasks of this selection that an earlier pass gave.
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


def _untracked(eligible: Eligible, count: int, context: DrawContext) -> DrawnTasks:
    """Return the eligible tasks with the largest P(effective) / luck; no walk moves."""
    tasks = np.sort(eligible.part.members.order)
    tasks = tasks[~contained(tasks, (eligible.excluded,))]
    chances = chances_of(eligible.belief, eligible.pool, tasks, context)
    luck = np.maximum(context.rng.random(len(tasks)), LEAST_LUCK)
    best = np.argsort(-chances / luck, kind="stable")[:count]
    return undrawn(tasks[best])


def thompson(eligible: Eligible, count: int, context: DrawContext) -> DrawnTasks:
    """Sample p_k of every task from the belief; select the smallest |p_k - target|, nearest first."""
    pool, members = eligible.pool, eligible.part.members
    own_tasks, own_beliefs = eligible.belief.own_tasks, eligible.belief.own_distributions(pool)
    kept = eligible.part.holds(own_tasks) & ~contained(own_tasks, (eligible.excluded,))
    if not kept.all():
        own_tasks, own_beliefs = own_tasks[kept], own_beliefs.at(kept)
    # Tasks with their own evidence are listed; the others are only counted by profile until one is selected.
    taken = (own_tasks, eligible.excluded)
    drawn = draw_nearest(
        own_beliefs,
        eligible.belief.profile_distributions(pool),
        members.sizes - np.bincount(pool.profile_of[np.concatenate(taken)], minlength=pool.profiles),
        count=count,
        target=context.settings.target,
        rng=context.rng,
    )
    is_member = drawn.owners < pool.profiles
    tasks = np.empty(count, np.int32)
    tasks[~is_member] = own_tasks[drawn.owners[~is_member] - pool.profiles]
    tasks[is_member] = pick_members(members.order, members.starts, drawn.owners[is_member], taken, context.rng)
    return DrawnTasks(tasks, drawn.values)


def uniform(eligible: Eligible, count: int, context: DrawContext) -> DrawnTasks:
    """Select a uniform sample."""
    everyone, one_group = np.array([0, len(eligible.part)]), np.zeros(count, np.int64)
    order = eligible.part.members.order
    return undrawn(pick_members(order, everyone, one_group, (eligible.excluded,), context.rng))


ROUNDS = 16  # of rejection sampling; what is open then is listed


def pick_members(
    order: Tasks, starts: Counts, groups: Counts, taken: tuple[Tasks, ...], rng: np.random.Generator
) -> Tasks:
    """Return for each entry of `groups` a random member of that group, all distinct and not taken.

    By rejection sampling, so the picks of a group are a uniform sample without replacement.

    Args:
        order: tasks; those of group g are `order[starts[g]:starts[g + 1]]`.
        groups: [n] groups, each at most as often as it has free members.
        taken: sorted tasks, in any number of arrays.
    """
    chosen, slots = np.full(len(groups), -1, np.int32), np.arange(len(groups))
    for _ in range(ROUNDS):
        own = groups[slots]
        thrown = order[rng.integers(starts[own], starts[own + 1])]
        kept = np.zeros(len(slots), bool)
        kept[first_places(thrown)] = True
        kept &= ~contained(thrown, (*taken, np.sort(chosen)))
        chosen[slots[kept]] = thrown[kept]
        slots = slots[~kept]
        if not len(slots):
            return chosen
    for group in np.unique(groups[slots]).tolist():
        members = order[starts[group] : starts[group + 1]]
        free = members[~contained(members, (*taken, np.sort(chosen)))]
        wanted = slots[groups[slots] == group]
        chosen[wanted] = rng.choice(free, len(wanted), replace=False)
    return chosen


def shuffle(eligible: Eligible, count: int, context: DrawContext) -> DrawnTasks:
    """Walk through the part in an order given by the seed and the number of the pass, from the context's position."""
    return _walk(eligible, count, context.position, lambda turn: eligible.part.shuffled(context.settings.seed, turn))


def easy_to_hard(eligible: Eligible, count: int, context: DrawContext) -> DrawnTasks:
    """Walk through the part by descending reference pass rates, unknown ones last, from the context's position."""
    return _walk(eligible, count, context.position, lambda _turn: eligible.part.easy_to_hard)


STRATEGIES: dict[StrategyName, Strategy] = {
    "thompson": thompson,
    "uniform": uniform,
    "easy_to_hard": easy_to_hard,
    "shuffle": shuffle,
    "pass": walk_pass,
}

IN_ORDER: tuple[StrategyName, ...] = ("shuffle", "easy_to_hard")  # these continue where the tasks reported so far end


def _walk(eligible: Eligible, count: int, position: int, order_of: Callable[[int], Tasks]) -> DrawnTasks:
    """Select the next eligible tasks from `position` on; at the end of a pass, continue with the next one."""
    turn, start = divmod(position, len(eligible.part))
    # Each excluded task occurs at most once per pass, so this stretch is long enough unless the pass ends.
    longest = count + len(eligible.excluded)
    ahead = order_of(turn)[start : start + longest]
    if start + longest > len(eligible.part):
        # Tasks of this pass may occur again in the next one: look that much farther.
        ahead = np.concatenate([ahead, order_of(turn + 1)[: longest + len(ahead)]])
    places = np.searchsorted(eligible.excluded, ahead)
    excluded = np.append(eligible.excluded, -1)[places] == ahead
    allowed = ahead[~excluded]
    return undrawn(allowed[first_places(allowed)[:count]])
