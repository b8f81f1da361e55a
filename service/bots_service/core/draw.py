"""Selections: which tasks to train on next, with tags, the run's mix, and leases; and the strategies that choose.

`thompson` is BOTS (Shen et al., arXiv:2510.26374). `pass` is a shuffled pass that takes each task as often as it is
expected to teach: visits in proportion to P(effective) maximise the sum of P(effective) log(visits). None is given up:
however sure the belief is that a task teaches nothing, one pass in twenty takes it. A vague belief makes it a shuffled
pass. There is nothing to tune, and a selection looks at about count / mean(P) tasks, however large the pool. The others
are baselines.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from bots_service.core.arrays import Counts, Flags, Floats, Table, Tasks, contained, first_places, united, without
from bots_service.core.attempts import NO_ABORTS, NO_ATTEMPTS, AbortRows, Attempts
from bots_service.core.belief import Belief
from bots_service.core.belief.distributions import TINY, Distributions
from bots_service.core.checks import MAX_IDS, Name, Tag, TaskId
from bots_service.core.mixing import MixAccount, account_of, counts_by_tag, deal, shares_of
from bots_service.core.pool import Part, Pool
from bots_service.core.run_settings import TYPICAL_ROLLOUTS, RunSettings, StrategyName
from bots_service.core.walks import Walk, Walks, fractions, items_at, key_of, places_of_pass
from bots_service.errors import PoolTooSmallError

LARGEST_COUNT = 100_000
Count = Annotated[int, Meta(ge=1, le=LARGEST_COUNT)]


class SelectRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A request for tasks.

    count: number of tasks; None where want_effective decides it.
    subset: only tasks of this subset of the dataset.
    tags: only tasks with one of these tags.
    exclude: tasks never to select.
    first: tasks to select before any others, in flight or not; excluded or retired tasks, and tasks without the tags or
        outside the subset, are skipped.
    want_effective: in place of a count, as few tasks as are expected to give so many effective groups.
    """

    dataset: Name
    count: Count | None = None
    run: Name = "default"
    subset: Name | None = None
    tags: Annotated[tuple[Tag, ...], Meta(max_length=64)] = ()
    exclude: Annotated[tuple[TaskId, ...], Meta(max_length=MAX_IDS)] = ()
    first: Annotated[tuple[TaskId, ...], Meta(max_length=MAX_IDS)] = ()
    want_effective: Count | None = None

    @property
    def task_count(self) -> int:
        """The number of tasks to select; ValueError where the request leaves it open."""
        if self.count is None:
            raise ValueError("a request without a count")
        return self.count


MOST_TIMES = 8  # tasks for each wanted effective group, however few are expected to be effective
GUESSES = 4  # of the number of tasks, by how many groups are effective; then the middle is tried


@dataclass(frozen=True, slots=True)
class NamedTasks:
    """The tasks that a request names by id. excluded: sorted; never selected.

    first: distinct, in the request's order; selected before any others, in flight or not, unless they are excluded or
        not eligible. They count for the run's mix.
    """

    excluded: Tasks = field(default_factory=lambda: np.empty(0, np.int32))
    first: Tasks = field(default_factory=lambda: np.empty(0, np.int32))


@dataclass(frozen=True, slots=True)
class Eligible:
    """Tasks that may be selected: a part of the pool without excluded tasks, which are sorted, and of the part."""

    pool: Pool
    belief: Belief
    part: Part
    excluded: Tasks

    def __len__(self) -> int:
        return len(self.part) - len(self.excluded)

    @property
    def tasks(self) -> Tasks:
        """[n] they, ascending."""
        tasks = np.sort(self.part.order)
        return tasks[~contained(tasks, (self.excluded,))]


@dataclass(frozen=True, slots=True)
class DrawContext:
    """The inputs of a strategy other than the eligible tasks and their belief.

    rng: the only source of random numbers, but for passes, whose numbers follow from seed, pass and task.
    attempts: how often each task was visited.
    group_size: how many rollouts to expect of a selected task (m); step: how many steps closed.
    """

    settings: RunSettings
    rng: np.random.Generator
    walks: Walks = field(default_factory=Walks)
    group_size: float = TYPICAL_ROLLOUTS
    step: int = 0
    mix: MixAccount = ()
    attempts: Attempts = NO_ATTEMPTS
    aborts: AbortRows = NO_ABORTS


@dataclass(frozen=True, slots=True)
class DrawnTasks:
    """The selected tasks.

    tasks: [n] distinct; the `first` tasks, then those of each tag of the mix, nearest first
        if the strategy knows distances.
    draws: [n] the sampled success probability of each task; NaN if nothing was sampled.
    walks: how far each part of the pool was walked; reused: how many tasks are already leased.
    """

    tasks: Tasks
    draws: Floats
    walks: tuple[Walk, ...] = ()
    reused: int = 0


def select_tasks(
    belief: Belief,
    pool: Pool,
    request: SelectRequest,
    context: DrawContext,
    *,
    named: NamedTasks,
    leased: Tasks,
) -> DrawnTasks:
    """Return exactly `request.count` distinct tasks; PoolTooSmallError where too few are eligible.

    Leased tasks, in any order, are excluded unless too few others are eligible; then the strategy also selects among
    them. The same holds for tasks that rest after aborts, which come before leased ones. The tags of the run's mix are
    filled in order; each ignores those after it.
    """
    in_flight, first = united(leased), named.first
    if len(first):
        may_be = pool.part(request.tags).holds(first) & ~contained(first, (named.excluded,))
        first = first[may_be][: request.task_count]
    chosen, reused = [undrawn(first)], int(np.count_nonzero(contained(first, (in_flight,))))
    unavailable = united(named.excluded, first)
    for part, count in list(_quotas(pool, request, context, first=first, unavailable=unavailable, leased=in_flight)):
        taken = part.keep(unavailable)
        if len(part) - len(taken) < count:
            raise PoolTooSmallError(_too_small(request, tasks=len(part), unavailable=len(taken)))
        later = without(part.keep(in_flight), taken)
        resting = without(part.keep(context.aborts.resting(context.step)), united(taken, later))
        results = _fill(Eligible(pool, belief, part, united(taken, later, resting)), count, (resting, later), context)
        tasks = united(*(one.tasks for one in results))
        reused += int(np.count_nonzero(contained(tasks, (later,))))
        unavailable = united(unavailable, tasks)
        chosen += results
    tasks = np.concatenate([one.tasks for one in chosen])
    walks = tuple(walk for one in chosen for walk in one.walks)
    return DrawnTasks(tasks, np.concatenate([one.draws for one in chosen]), walks, reused)


def _quotas(
    pool: Pool, request: SelectRequest, context: DrawContext, *, first: Tasks, unavailable: Tasks, leased: Tasks
) -> Iterator[tuple[Part, int]]:
    """Yield the parts of the pool that fill a selection, each with its number of tasks: those of the run's mix first.

    first: they count for the mix; unavailable: sorted, excluded or selected already; leased: sorted.
    """
    mix, left = context.settings.mix, request.task_count - len(first)
    # A task counts for the first tag that it carries. Another replica may know tags that came with tasks just appended.
    parts = {
        tag: pool.part(request.tags, tag, tuple(other for other in mix if other < tag))
        for tag in mix
        if left and tag in pool.tags
    }
    if parts:
        taken = united(unavailable, leased)
        dealt = deal(
            left,
            shares=shares_of(mix),
            owed={tag: one.missing for tag, one in account_of(mix, context.mix).items()},
            in_flight=counts_by_tag(pool, mix, united(leased, first)),
            free={tag: len(parts[tag]) - len(parts[tag].keep(taken)) if tag in parts else 0 for tag in mix},
        )
        yield from ((parts[tag], count) for tag, count in dealt.items() if count)
        left -= sum(dealt.values())
    if left:
        yield pool.part(request.tags), left


def _fill(eligible: Eligible, count: int, later: tuple[Tasks, ...], context: DrawContext) -> list[DrawnTasks]:
    """Select so many tasks by the run's strategy, and later ones, sorted, in turn where there are too few others."""
    strategy, pool, chosen = STRATEGIES[context.settings.strategy], eligible.pool, list[DrawnTasks]()
    for tasks in (None, *later):
        wanted = min(count, len(eligible) if tasks is None else len(tasks))
        if wanted:
            among = eligible if tasks is None else replace(eligible, part=pool.listed(tasks), excluded=tasks[:0])
            chosen.append(strategy(among, wanted, context))
            count -= wanted
    return chosen


def _too_small(request: SelectRequest, *, tasks: int, unavailable: int) -> str:
    among = f" tagged {' or '.join(request.tags)}" if request.tags else ""
    among += "" if request.subset is None else f" of subset {request.subset}"
    why = f" ({unavailable} of {tasks} are excluded or already chosen)" if unavailable else ""
    return (
        f"requested {request.task_count} tasks{among}; {tasks - unavailable} are available{why}. "
        "Request fewer, or append tasks"
    )


def enough_tasks(expected: Callable[[int], float], wanted: int, limit: int) -> int:
    """Return the fewest tasks, at most `limit`, of which `wanted` groups are expected to be effective, or the limit."""
    too_few, enough, tasks, tries = 0, limit, min(2 * wanted, limit), 0
    while enough - too_few > 1:
        found, tries = expected(tasks), tries + 1
        if found < wanted:
            too_few = tasks
        else:
            enough = tasks
        guess = math.ceil(tasks * wanted / max(found, 1e-9)) if tries < GUESSES else (too_few + enough) // 2
        tasks = max(min(guess, enough - 1), too_few + 1)
    return enough


# --- strategies ------------------------------------------------------------------------------------------------------

# Called with count at least 1 and at most the number of eligible tasks.
Strategy = Callable[[Eligible, int, DrawContext], DrawnTasks]


def undrawn(tasks: Tasks, walks: tuple[Walk, ...] = ()) -> DrawnTasks:
    """Return the result of a strategy that samples no success probabilities."""
    return DrawnTasks(tasks, np.full(len(tasks), np.nan), walks)


# Of taking a task in a pass, whatever the belief says. It learns of the tasks that are met. Where training lifts
# those more than the others, it takes the others for solved, and a pass without this would not meet them to see that it
# is wrong (docs/decisions/0039-pass.md).
LEAST_CHANCE = 1 / 20
LEAST_LUCK = 2.0**-54  # half the smallest difference of two fractions: no division by 0
LOOKED_AT = 4  # places per wanted task in the first look, and at least so many times 16


@dataclass(frozen=True, slots=True)
class Candidates(Table):
    """Eligible tasks in the order of a pass; places: where they stand; luck: in [0, 1).

    chances: P(effective) of each, at least LEAST_CHANCE.
    """

    places: Counts
    chances: Floats
    luck: Floats

    @property
    def taken(self) -> Flags:
        """[n] whether the pass takes each: its luck is below its chance."""
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
    """Return up to `wanted` tasks, but for chosen ones, up to the end of the pass, and where the walk then stands."""
    end = places_of_pass(walk.size)
    looks: list[Candidates] = []
    found, place = 0, walk.place
    while found < wanted and place < end:
        # As many places as should do, by what was found so far.
        looked = place - walk.place
        more = LOOKED_AT * max(wanted, 16) if not found else int(1.2 * (wanted - found) * looked / found) + 16
        until = min(place + max(more, looked // 2), end)
        looks.append(_meet(eligible, walk, np.arange(place, until), np.sort(chosen), context))
        found += int(np.count_nonzero(looks[-1].taken))
        place = until
    met = Candidates.joined(looks)
    takes = np.flatnonzero(met.taken)[:wanted]
    if len(takes) == wanted:
        return met.tasks[takes], Walk(walk.part, walk.turn, int(met.places[takes[-1]]) + 1, walk.size)
    if walk.place == 0:
        left = np.flatnonzero(~met.taken)
        by_ratio = np.argsort(-(met.chances / np.maximum(met.luck, LEAST_LUCK))[left], kind="stable")
        takes = np.concatenate([takes, left[by_ratio[: wanted - len(takes)]]])
    return met.tasks[takes], Walk(walk.part, walk.turn, end, walk.size)


def _meet(eligible: Eligible, walk: Walk, places: Counts, chosen: Tasks, context: DrawContext) -> Candidates:
    """Return the eligible tasks at these places."""
    part, seed = eligible.part, context.settings.seed
    items = items_at(places, walk.size, key_of("order", seed, walk.part, walk.turn))
    are_items = items < walk.size
    items, places = items[are_items], places[are_items]
    tasks = (items if part.carriers is None else part.carriers[items]).astype(np.int32)
    free = part.holds(tasks) & ~contained(tasks, (eligible.excluded, chosen))
    tasks, places = tasks[free], places[free]
    return Candidates(
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
    tasks = eligible.tasks
    chances = chances_of(eligible.belief, eligible.pool, tasks, context)
    luck = np.maximum(context.rng.random(len(tasks)), LEAST_LUCK)
    best = np.argsort(-chances / luck, kind="stable")[:count]
    return undrawn(tasks[best])


def thompson(eligible: Eligible, count: int, context: DrawContext) -> DrawnTasks:
    """Sample p_k of every task from the belief; select the smallest |p_k - target|, nearest first."""
    pool, part = eligible.pool, eligible.part
    own_tasks, own_beliefs = eligible.belief.own_tasks, eligible.belief.own_distributions(pool)
    kept = part.holds(own_tasks) & ~contained(own_tasks, (eligible.excluded,))
    if not kept.all():
        own_tasks, own_beliefs = own_tasks[kept], own_beliefs.at(kept)
    # Tasks with their own evidence are listed; the others are only counted by profile until one is selected.
    taken = (own_tasks, eligible.excluded)
    drawn = draw_nearest(
        own_beliefs,
        eligible.belief.profile_distributions(pool),
        part.sizes - np.bincount(pool.profile_of[np.concatenate(taken)], minlength=pool.profiles),
        count=count,
        target=context.settings.target,
        rng=context.rng,
    )
    is_member = drawn.owners < pool.profiles
    tasks = np.empty(count, np.int32)
    tasks[~is_member] = own_tasks[drawn.owners[~is_member] - pool.profiles]
    tasks[is_member] = pick_members(part.order, part.starts, drawn.owners[is_member], taken, context.rng)
    return DrawnTasks(tasks, drawn.values)


def uniform(eligible: Eligible, count: int, context: DrawContext) -> DrawnTasks:
    """Select a uniform sample."""
    everyone, one_group = np.array([0, len(eligible.part)]), np.zeros(count, np.int64)
    order = eligible.part.order
    return undrawn(pick_members(order, everyone, one_group, (eligible.excluded,), context.rng))


ROUNDS = 16  # of rejection sampling; what is open then is listed


def pick_members(
    order: Tasks, starts: Counts, groups: Counts, taken: tuple[Tasks, ...], rng: np.random.Generator
) -> Tasks:
    """Return for each entry of `groups` a random member of that group, all distinct and not taken.

    By rejection sampling, so the picks of a group are a uniform sample. Group g is `order[starts[g]:starts[g + 1]]`; it
    occurs at most as often as it has free members. taken: sorted tasks, in any number of arrays.
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


def least_visited(eligible: Eligible, count: int, context: DrawContext) -> DrawnTasks:
    """Select the tasks with the fewest visits, which makes passes: each in another order, or all from easy to hard."""
    tasks, pool = eligible.tasks, eligible.pool
    visits = context.attempts.of(tasks).visits.astype(np.int64)
    is_shuffle, key = context.settings.strategy == "shuffle", key_of("shuffle", context.settings.seed)
    keys = visits + (fractions(tasks + (visits << 32), key) if is_shuffle else pool.ease[tasks] / len(pool))
    chosen = np.argpartition(keys, count - 1)[:count]
    return undrawn(tasks[chosen[keys[chosen].argsort()]])


STRATEGIES: dict[StrategyName, Strategy] = {
    "thompson": thompson,
    "uniform": uniform,
    "pass": walk_pass,
    "shuffle": least_visited,
    "easy_to_hard": least_visited,
}


# --- exact Thompson sampling over a whole pool, at a cost of one evaluation per profile ------------------------------

# All members of a profile share one distribution. So of a large profile only those are drawn that fall near the target:
# how many lie within a window around it is binomial, and their values follow the distribution within the window.

# A profile gets a window from WINDOW_MEMBERS on, the pool from WINDOW_TASKS on, and only for a small share of it. These
# thresholds are derived, not tuned, from what single calls took (numpy 2.4, scipy 1.17): 33 ns a draw, 0.1 ms for any
# window, 0.15 us a profile's part of it (one or two bounds, one binomial), 0.15 us each value proposed there.
WINDOW_MEMBERS = 5
WINDOW_TASKS = 3_000
WINDOW_SHARE = 1 / 10
PLAIN_SHARE = 1 / 10  # of a profile's members: with more of them inside, it is cheaper drawn out
# How many more than wanted a window should hold, in standard deviations, and as a share: bounds of wide windows promise
# up to twice of what is there. A window that holds too few, of one wanted task one in 150, costs only time.
MARGIN, SHARE = 4.0, 0.5
SLACK = 4.0  # a window may hold this many times the tasks needed: another look for a better one costs more
TRIES = 64  # halvings of log(distance): enough to separate any two doubles
REDRAWS = 64  # each fails for at most 1 / 10 of the values


@dataclass(frozen=True, slots=True)
class Draws:
    """Success probabilities, [n], and their owners, [n]: a profile, or G plus the place of a task drawn for itself."""

    values: Floats
    owners: Counts


def draw_nearest(
    own: Distributions,
    profile_beliefs: Distributions,
    sizes: Counts,
    *,
    count: int,
    target: float,
    rng: np.random.Generator,
) -> Draws:
    """Draw for every task and return the `count` draws nearest to the target, nearest first.

    own: [T] distributions of tasks that are drawn individually; profile_beliefs: [G] of the members of each profile;
    sizes: [G] how many there are; count: at most T plus their sum; target: in [0, 1].
    """
    if target > 0.5:
        # Doubles are more precise near 0 than near 1, so a target near 1 is mirrored.
        shared = profile_beliefs.mirrored()
        mirrored = draw_nearest(own.mirrored(), shared, sizes, count=count, target=1 - target, rng=rng)
        return Draws(1 - mirrored.values, mirrored.owners)
    is_windowed = sizes >= WINDOW_MEMBERS
    tasks = int(sizes[is_windowed].sum())
    if tasks < WINDOW_TASKS or count > WINDOW_SHARE * tasks:
        is_windowed[:] = False
    each = _members(np.where(is_windowed, 0, sizes))
    values = np.concatenate([own.sample(rng), profile_beliefs.at(each).sample(rng)])
    owners = np.concatenate([np.arange(len(sizes), len(sizes) + len(own)), each])
    if is_windowed.any():
        profiles = np.flatnonzero(is_windowed)
        more = _near(profile_beliefs.at(profiles), sizes[profiles], _distances(values, target), count, target, rng)
        values = np.concatenate([values, more.values])
        owners = np.concatenate([owners, profiles[more.owners]])
    chosen = nearest(_distances(values, target), count, rng)
    return Draws(values[chosen], owners[chosen])


def _members(sizes: Counts) -> Counts:
    """Return each profile as often as it has members."""
    return np.flatnonzero(sizes) if sizes.max(initial=0) <= 1 else np.repeat(np.arange(len(sizes)), sizes)


def _distances(values: Floats, target: float) -> Floats:
    return np.maximum(np.abs(values - target), TINY)


def _near(
    beliefs: Distributions, sizes: Counts, known: Floats, count: int, target: float, rng: np.random.Generator
) -> Draws:
    """Draw those members of profiles that can be among the `count` nearest of all tasks; owners are places in `sizes`.

    beliefs, sizes: [g] of these profiles; known: distances of all other tasks; target: at most 1/2.
    """
    # Nothing matters beyond the count-th nearest of the others, or the far end of [0, 1].
    limit = float(np.partition(known, count - 1)[count - 1]) if len(known) >= count else 1 - target
    reach, share = _window(beliefs, sizes, count, target, limit)
    is_plain = share > PLAIN_SHARE
    drawn_out = _members(np.where(is_plain, sizes, 0))
    rare = np.repeat(np.arange(len(sizes)), rng.binomial(sizes, np.where(is_plain, 0.0, share)))
    found = beliefs.at(rare).sample_within(*_ends(target, reach), rng)
    rare, found = rare[~np.isnan(found)], found[~np.isnan(found)]
    values, owners = np.concatenate([beliefs.at(drawn_out).sample(rng), found]), np.concatenate([drawn_out, rare])
    within = sum(np.count_nonzero(distances <= reach) for distances in (known, _distances(values, target)))
    if within < count:
        rest = _members(np.where(is_plain, 0, sizes - np.bincount(rare, minlength=len(sizes))))
        values = np.concatenate([values, _outside(beliefs.at(rest), target, reach, rng)])
        owners = np.concatenate([owners, rest])
    return Draws(values, owners)


def _window(beliefs: Distributions, sizes: Counts, count: int, target: float, limit: float) -> tuple[float, Floats]:
    """Return how far a window around the target reaches, and [g] a bound on P(X within it).

    It should contain enough members and not many more, and reaches at most to `limit`. It uses expectations, never the
    values of these members, so the draw stays exact.
    """
    fewest = count + max(MARGIN * math.sqrt(count), SHARE * count)
    aim = (1 + SLACK) / 4 * fewest
    tight, wide, reach = 0.0, limit, min(limit, aim / (2 * float(sizes.sum())))  # at first as if all densities were 1
    share = beliefs.bound_within(*_ends(target, reach))
    for _ in range(TRIES):
        expected = float(sizes @ np.minimum(share, 1.0))
        if fewest <= expected <= SLACK * fewest or not tight < wide:
            break
        tight, wide = (reach, wide) if expected < fewest else (tight, reach)
        reach *= min(max(aim / max(expected, TINY), 1 / 16), 16)
        if not tight < reach < wide:
            reach = math.sqrt(max(tight, TINY)) * math.sqrt(wide)
        if not tight < reach < wide:
            tight = reach = wide
        share = beliefs.bound_within(*_ends(target, reach))
    return reach, share


def _ends(target: float, reach: float) -> tuple[float, float]:
    return max(target - reach, 0.0), min(target + reach, 1.0)


def _outside(beliefs: Distributions, target: float, reach: float, rng: np.random.Generator) -> Floats:
    """[n] draws, conditional on a distance from the target of at least `reach`."""
    values = beliefs.sample(rng)
    for _ in range(REDRAWS):
        again = np.flatnonzero(np.abs(values - target) < reach)
        if not len(again):
            break
        values[again] = beliefs.at(again).sample(rng)
    return values


def nearest(distances: Floats, count: int, rng: np.random.Generator) -> Counts:
    """Return the indices of the `count` >= 1 smallest distances, ascending; ties are broken and ordered at random."""
    places = np.arange(len(distances))
    if count < len(distances):
        last = np.partition(distances, count - 1)[count - 1]
        nearer, tied = np.flatnonzero(distances < last), rng.permutation(np.flatnonzero(distances == last))
        places = np.concatenate([nearer, tied[: count - len(nearer)]])
    mixed = rng.permutation(places)
    return mixed[np.argsort(distances[mixed], kind="stable")]
