"""The tasks that one choice may be made from: a part of the pool, less those that are barred.

Tasks with evidence of their own are listed; the others are only counted, profile by profile, until one is chosen. So
nothing here looks at the whole pool.
"""

from dataclasses import dataclass

import numpy as np

from bots_service.core.arrays import Counts, Tasks, contained, first_places, is_first, places_of
from bots_service.core.belief.protocol import Belief, Distributions
from bots_service.core.pool import Part, Pool

# A random member is free with at least this probability, or the group's free members are listed instead.
LIKELY_FREE = 0.25
ROUNDS = 16  # of throwing at random; a round fails with probability below 3/4 a slot, the rest is listed


@dataclass(frozen=True, slots=True)
class Candidates:
    """The eligible tasks: one by one where they have evidence of their own, the others only counted.

    own_tasks: [T] sorted tasks with evidence of their own.
    own_beliefs: [T] their distributions.
    profile_members: [G] how many others follow each profile.
    profile_beliefs: [G] the distributions of these others.
    """

    own_tasks: Tasks
    own_beliefs: Distributions
    profile_members: Counts
    profile_beliefs: Distributions


@dataclass(frozen=True, slots=True)
class Eligible:
    """Tasks that may be chosen.

    part: where they are.
    barred: sorted tasks of that part which may not be chosen.
    """

    pool: Pool
    belief: Belief
    part: Part
    barred: Tasks

    def __len__(self) -> int:
        return len(self.part) - len(self.barred)

    def candidates(self) -> Candidates:
        """Return which tasks are drawn one by one and how many are only counted, with their distributions."""
        own_tasks, own_beliefs = self.belief.own_tasks, self.belief.own_distributions(self.pool)
        kept = self.part.holds(own_tasks)
        kept[places_of(self.barred, own_tasks)] = False
        if not kept.all():
            own_tasks, own_beliefs = own_tasks[kept], own_beliefs.at(kept)
        own_way = np.concatenate([own_tasks, self.barred])
        profile_members = self.part.members.sizes - np.bincount(
            self.pool.profile_of[own_way], minlength=self.pool.profiles
        )
        return Candidates(own_tasks, own_beliefs, profile_members, self.belief.profile_distributions(self.pool))

    def tasks_of(self, owners: Counts, candidates: Candidates, rng: np.random.Generator) -> Tasks:
        """Return the tasks of these owners; a profile's are random members of it, without replacement.

        Args:
            owners: [n] the number of a profile, or G plus the place of a task in `candidates.own_tasks`, each at
                most as often as it has eligible members.
            candidates: what `candidates()` returned.
        """
        profiles = self.pool.profiles
        is_member = owners < profiles
        tasks = np.empty(len(owners), np.int32)
        tasks[~is_member] = candidates.own_tasks[owners[~is_member] - profiles]
        tasks[is_member] = self._members(owners[is_member], candidates, rng)
        return tasks

    def _members(self, groups: Counts, candidates: Candidates, rng: np.random.Generator) -> Tasks:
        """Return a random member for each entry of `groups`, without replacement."""
        order, starts = self.part.members.order, self.part.members.starts
        tasks = order[starts[groups]]
        # The only member of a profile needs no picking: where every task is a profile, this saves looking at all.
        several = np.flatnonzero(starts[groups + 1] - starts[groups] > 1)
        if len(several):
            taken = (candidates.own_tasks, self.barred)
            tasks[several] = pick_members(order, starts, groups[several], candidates.profile_members, taken, rng)
        return tasks

    def at_random(self, count: int, rng: np.random.Generator) -> Tasks:
        """Return `count` eligible tasks, each set of them equally likely."""
        everyone = np.array([0, len(self.part)])
        one_group = np.zeros(count, np.int64)
        return pick_members(self.part.members.order, everyone, one_group, np.array([len(self)]), (self.barred,), rng)


def pick_members(
    order: Tasks, starts: Counts, groups: Counts, free: Counts, taken: tuple[Tasks, ...], rng: np.random.Generator
) -> Tasks:
    """Return for each entry of `groups` a random member of that group, all distinct and none of them taken.

    Positions are thrown at random and thrown again where they hit a task that is taken or chosen; the first distinct
    hits of such a sequence are a uniform sample without replacement.

    Args:
        order: tasks; those of group g are `order[starts[g]:starts[g + 1]]`.
        groups: [n] groups, each at most as often as it has free members.
        free: [G] how many members of each group are not taken.
        taken: sorted tasks, in any number of arrays.
    """
    in_order = np.sort(groups)
    wanted = np.searchsorted(in_order, groups, "right") - np.searchsorted(in_order, groups, "left")
    scarce = free[groups] - wanted < LIKELY_FREE * (starts[groups + 1] - starts[groups])
    chosen = np.full(len(groups), -1, np.int32)
    open_slots = np.flatnonzero(~scarce)
    for _ in range(ROUNDS):
        if not len(open_slots):
            break
        thrown = order[rng.integers(starts[groups[open_slots]], starts[groups[open_slots] + 1])]
        chosen[open_slots] = thrown
        again = np.ones(len(groups), bool)
        again[first_places(chosen)] = False
        again[open_slots] |= contained(thrown, taken)
        again[scarce] = False
        open_slots = np.flatnonzero(again)
    rest = np.flatnonzero(scarce)
    if len(open_slots):
        chosen[open_slots] = -1
        rest = np.sort(np.concatenate([rest, open_slots]))
    if len(rest):
        settled = np.sort(chosen[chosen >= 0])
        chosen[rest] = pick_from_lists(order, starts, groups[rest], (*taken, settled), rng)
    return chosen


def pick_from_lists(
    order: Tasks, starts: Counts, groups: Counts, taken: tuple[Tasks, ...], rng: np.random.Generator
) -> Tasks:
    """Like `pick_members`, by listing the free members of the groups asked for."""
    in_order = np.sort(groups)
    asked = in_order[is_first(in_order)]
    wanted = np.searchsorted(in_order, asked, "right") - np.searchsorted(in_order, asked)
    lengths = starts[asked + 1] - starts[asked]
    group = np.repeat(np.arange(len(asked)), lengths)
    first = np.cumsum(lengths) - lengths
    tasks = order[np.arange(len(group)) + (starts[asked] - first)[group]]
    is_free = ~contained(tasks, taken)
    tasks, group = tasks[is_free], group[is_free]
    by_group = np.lexsort((rng.random(len(tasks)), group))
    tasks, group = tasks[by_group], group[by_group]
    rank = np.arange(len(group)) - np.searchsorted(group, group)
    chosen = np.empty(len(groups), np.int32)
    chosen[np.argsort(groups, kind="stable")] = tasks[rank < wanted[group]]
    return chosen
