"""The strategy `spaced`: the tasks with the largest 4 E[p (1 - p)] x age.

The first factor, at least 1/20, says how much a task is expected to teach now, the second how long it had to wait: each
task comes back at a rate in proportion to what it is expected to teach. Nothing is drawn. Tasks that were never
reported are ordered by a random number that seed and task fix. Within a profile it falls along a keyed order of the
members, so that the best of millions are found without a look at the others.
"""

from dataclasses import dataclass

import numpy as np

from bots_service.core.arrays import Counts, Floats, Tasks, contained, places_of, united
from bots_service.core.draw.context import DrawContext, StrategyResult, undrawn
from bots_service.core.draw.eligible import Eligible
from bots_service.core.permutation import fractions, items_at, key_of, keys_of, rectangle

# Of 4 E[p (1 - p)]: however sure the belief is that a task teaches nothing, it comes back at a twentieth of the largest
# rate. Else a belief that is wrong about tasks that it never meets would stay wrong (LEAST_CHANCE of passes.py).
LEAST_SIGNAL = 1 / 20


@dataclass(frozen=True, slots=True)
class SpacedKeys:
    """What the random numbers of a run follow from.

    order: of the members of a profile. offset: of a profile's first place. task: of a single task.
    """

    order: int
    offset: int
    task: int

    @classmethod
    def of(cls, seed: int) -> "SpacedKeys":
        """Return the keys of a run with this seed."""
        return cls(*(key_of("spaced", name, seed) for name in ("order", "offset", "task")))


@dataclass(frozen=True, slots=True)
class UntriedAges:
    """The ages of tasks that were never reported.

    step: the steps since the run began.
    round_steps: the steps in which each task could be selected once.
    """

    step: int
    round_steps: float

    def at(self, shares: Floats) -> Floats:
        """[n] the ages where the given share of all tasks, in [0, 1], goes first."""
        return self.step + self.round_steps * (1 - 0.5 * shares)


@dataclass(frozen=True, slots=True)
class Listed:
    """Tasks that are scored one by one.

    tasks: [n] distinct; values: [n] signal x age.
    """

    tasks: Tasks
    values: Floats

    def best(self, count: int, key: int) -> "Listed":
        """Return the `count` largest, largest first; equals in an order that the key fixes."""
        if len(self.tasks) > count:
            kept = self.values >= np.partition(self.values, -count)[-count]
            tasks, values = self.tasks[kept], self.values[kept]
        else:
            tasks, values = self.tasks, self.values
        order = np.lexsort((fractions(tasks, key), -values))[:count]
        return Listed(tasks[order], values[order])


@dataclass(frozen=True, slots=True)
class Profiles:
    """Profiles with members that were never reported, each with its members in a random order.

    The value of the member at place j is signal x age(share), share = (j + offset) / places: it falls with j.

    numbers: [K] of the profiles.
    signals: [K] 4 E[p (1 - p)] of these members.
    offsets: [K] in [0, 1).
    places: [K] how many places the order has; some hold no member.
    """

    numbers: Counts
    signals: Floats
    offsets: Floats
    places: Counts

    def at(self, rows: Counts) -> "Profiles":
        """Return some of the profiles."""
        return Profiles(*(getattr(self, name)[rows] for name in Profiles.__slots__))

    def values(self, rows: Counts, places: Counts, ages: UntriedAges) -> Floats:
        """[n] signal x age at the given places of the given rows."""
        return self.signals[rows] * ages.at((places + self.offsets[rows]) / self.places[rows])

    def firsts(self, ages: UntriedAges) -> Floats:
        """[K] the values at the first places."""
        return self.signals * ages.at(self.offsets / self.places)

    def best(self, wanted: int, ages: UntriedAges) -> tuple["Profiles", float]:
        """Return the profiles among which are about so many of the largest values, and the value that bounds them.

        Every place with a value above the bound belongs to one of these profiles.
        """
        if wanted >= int(self.places.sum()):
            return self, -np.inf
        firsts, bound = self.firsts(ages), -np.inf
        chosen = self
        if len(firsts) > wanted:
            bound = float(np.partition(firsts, -wanted)[-wanted])
            chosen = self.at(np.flatnonzero(firsts >= bound))
        return chosen, max(bound, chosen.level(wanted, ages))

    def level(self, wanted: int, ages: UntriedAges) -> float:
        """Return above which value about so many places lie: exact, were places as fine as numbers.

        A profile's values fall evenly, from its first place to its last. So the number of places above a level is made
        of straight lines, with bends where a profile's values begin or end.
        """
        highest, lowest = self.signals * ages.at(np.zeros(1)), self.signals * ages.at(np.ones(1))
        density = self.places / (highest - lowest)
        levels = np.concatenate([highest, lowest])
        falling = np.argsort(-levels)
        levels = levels[falling]
        slopes = np.cumsum(np.concatenate([density, -density])[falling])
        # Rounding may leave a slope just below 0 where all values of some profiles have ended.
        rises = np.maximum(slopes[:-1], 0.0) * -np.diff(levels)
        return float(np.interp(wanted, np.concatenate([[0.0], np.cumsum(rises)]), levels))

    def places_above(self, bound: float, ages: UntriedAges) -> tuple[Counts, Counts]:
        """Return row and place of every value above the bound, and perhaps of some more."""
        shares = (1 - (bound / self.signals - ages.step) / ages.round_steps) / 0.5
        # One more than computed: rounding must not lose a place.
        counts = np.clip(np.floor(shares * self.places - self.offsets) + 2, 0, self.places).astype(np.int64)
        rows = np.repeat(np.arange(len(counts)), counts)
        return rows, np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]


def spaced(eligible: Eligible, count: int, context: DrawContext) -> StrategyResult:
    """Select the largest 4 E[p (1 - p)] x age, largest first; equals in an order that the seed fixes.

    The age of a task is the number of steps since it was last reported, 1 just after. Of one that was never reported it
    is the steps since the run began, and N / count x (0.5 to 1) more, N being the number of tasks of the part: about
    when its turn would come in a pass.
    """
    keys = SpacedKeys.of(context.settings.seed)
    ages = UntriedAges(context.step, len(eligible.part) / count)
    listed = _listed(eligible, ages, keys, context)
    others = _others(eligible, listed.tasks, count, ages, keys)
    tasks, values = np.concatenate([listed.tasks, others.tasks]), np.concatenate([listed.values, others.values])
    return undrawn(Listed(tasks, values).best(count, keys.task).tasks)


def _listed(eligible: Eligible, ages: UntriedAges, keys: SpacedKeys, context: DrawContext) -> Listed:
    """Return the eligible tasks that were reported or have evidence of their own."""
    attempts = context.attempts.whole
    tasks = eligible.part.keep(united(attempts.tasks, eligible.belief.own_tasks))
    if len(eligible.excluded):
        tasks = np.delete(tasks, places_of(eligible.excluded, tasks))
    last_step = attempts.of(tasks).last_step
    ages_of = np.where(last_step > 0, context.step - last_step + 1.0, ages.at(fractions(tasks, keys.task)))
    variance = eligible.belief.distributions(eligible.pool, tasks).rollout_variance
    return Listed(tasks, _signals(variance) * ages_of)


def _others(eligible: Eligible, listed: Tasks, count: int, ages: UntriedAges, keys: SpacedKeys) -> Listed:
    """Return the best `count` of the other eligible tasks, or all of them, and perhaps some more."""
    members = eligible.part.members
    taken = np.concatenate([listed, eligible.excluded])
    free = members.sizes - np.bincount(eligible.pool.profile_of[taken], minlength=eligible.pool.profiles)
    wanted = min(count, int(free.sum()))
    if wanted == 0:
        return Listed(taken[:0], np.empty(0))
    profiles = _profiles(eligible, np.flatnonzero(free), keys)
    looked_at = wanted
    while True:
        looked_at *= 2
        best, bound = profiles.best(looked_at, ages)
        rows, places = best.places_above(bound, ages)
        numbers = best.numbers[rows]
        sizes = members.sizes[numbers]
        items = items_at(places, sizes, keys_of(numbers, keys.order))
        found = np.flatnonzero(items < sizes)
        tasks = members.order[members.starts[numbers[found]] + items[found]]
        is_free = ~contained(tasks, (listed, eligible.excluded))
        found, tasks = found[is_free], tasks[is_free]
        values = best.values(rows[found], places[found], ages)
        if np.count_nonzero(values > bound) >= wanted:
            return Listed(tasks, values)


def _profiles(eligible: Eligible, numbers: Counts, keys: SpacedKeys) -> Profiles:
    """Return what is known of these profiles."""
    believed = eligible.belief.profile_distributions(eligible.pool)
    rows, columns = rectangle(eligible.part.members.sizes[numbers])
    return Profiles(
        numbers, _signals(believed.at(numbers).rollout_variance), fractions(numbers, keys.offset), rows * columns
    )


def _signals(variance: Floats) -> Floats:
    """[n] how much tasks are expected to teach, 4 E[p (1 - p)], in [LEAST_SIGNAL, 1]."""
    return np.maximum(4 * variance, LEAST_SIGNAL)
