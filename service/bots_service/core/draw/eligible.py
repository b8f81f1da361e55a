"""Eligible tasks: a part of the pool without excluded tasks.

Tasks with their own evidence are listed; the others are only counted by profile until one is selected. So nothing here
takes time proportional to the pool.
"""

from dataclasses import dataclass

import numpy as np

from bots_service.core.arrays import Counts, Tasks, contained, first_places, is_first, places_of
from bots_service.core.belief.protocol import Belief, Distributions
from bots_service.core.pool import Part, Pool

# If a random member is free with a smaller probability, the group's free members are listed instead.
LIKELY_FREE = 0.25
ROUNDS = 16  # of rejection sampling; a round fails with probability below 3/4 per slot; the rest is listed


@dataclass(frozen=True, slots=True)
class Candidates:
    """The eligible tasks: listed if they have their own evidence, otherwise counted by profile.

    own_tasks: [T] sorted tasks with their own evidence.
    own_beliefs: [T] their distributions.
    profile_members: [G] number of other tasks of each profile.
    profile_beliefs: [G] distributions of these others.
    """

    own_tasks: Tasks
    own_beliefs: Distributions
    profile_members: Counts
    profile_beliefs: Distributions


@dataclass(frozen=True, slots=True)
class Eligible:
    """Tasks that may be selected.

    part: the part of the pool.
    excluded: sorted tasks of the part that may not be selected.
    """

    pool: Pool
    belief: Belief
    part: Part
    excluded: Tasks

    def __len__(self) -> int:
        return len(self.part) - len(self.excluded)

    def candidates(self) -> Candidates:
        """Return the tasks with their own evidence, the counts of the others, and their distributions."""
        own_tasks, own_beliefs = self.own()
        own_way = np.concatenate([own_tasks, self.excluded])
        profile_members = self.part.members.sizes - np.bincount(
            self.pool.profile_of[own_way], minlength=self.pool.profiles
        )
        return Candidates(own_tasks, own_beliefs, profile_members, self.belief.profile_distributions(self.pool))

    def own(self) -> tuple[Tasks, Distributions]:
        """Return, sorted, the tasks with their own evidence, and their distributions; [T] each."""
        own_tasks, own_beliefs = self.belief.own_tasks, self.belief.own_distributions(self.pool)
        kept = self.part.holds(own_tasks)
        kept[places_of(self.excluded, own_tasks)] = False
        return (own_tasks, own_beliefs) if kept.all() else (own_tasks[kept], own_beliefs.at(kept))

    def tasks_of(self, owners: Counts, candidates: Candidates, rng: np.random.Generator) -> Tasks:
        """Return the tasks of these owners; for a profile, random members without replacement.

        Args:
            owners: [n] a profile, or G plus the index of a task in `candidates.own_tasks`; each at most as often as it
                has eligible members.
            candidates: the result of `candidates()`.
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
        # A profile's only member needs no sampling: fast if every task is a profile.
        several = np.flatnonzero(starts[groups + 1] - starts[groups] > 1)
        if len(several):
            taken = (candidates.own_tasks, self.excluded)
            tasks[several] = pick_members(order, starts, groups[several], candidates.profile_members, taken, rng)
        return tasks

    def at_random(self, count: int, rng: np.random.Generator) -> Tasks:
        """Return a uniform sample of `count` eligible tasks."""
        everyone = np.array([0, len(self.part)])
        one_group = np.zeros(count, np.int64)
        return pick_members(self.part.members.order, everyone, one_group, np.array([len(self)]), (self.excluded,), rng)


def pick_members(
    order: Tasks, starts: Counts, groups: Counts, free: Counts, taken: tuple[Tasks, ...], rng: np.random.Generator
) -> Tasks:
    """Return for each entry of `groups` a random member of that group, all distinct and not taken.

    Rejection sampling: random positions are drawn again if their task is taken or already picked. The first distinct
    accepted positions are a uniform sample without replacement.

    Args:
        order: tasks; those of group g are `order[starts[g]:starts[g + 1]]`.
        groups: [n] groups, each at most as often as it has free members.
        free: [G] number of members of each group that are not taken.
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
    """Like `pick_members`, but lists the free members of these groups."""
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
