"""Eligible tasks: a part of the pool without excluded tasks.

Tasks with their own evidence are listed; the others are only counted by profile until one is selected. So nothing here
takes time proportional to the pool.
"""

from dataclasses import dataclass

import numpy as np

from bots_service.core.arrays import Counts, Tasks, contained, first_places
from bots_service.core.belief.protocol import Belief, Distributions
from bots_service.core.pool import Part, Pool

ROUNDS = 16  # of rejection sampling; what is open then is listed


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
        pool, own_tasks, own_beliefs = self.pool, self.belief.own_tasks, self.belief.own_distributions(self.pool)
        kept = self.part.holds(own_tasks) & ~contained(own_tasks, (self.excluded,))
        if not kept.all():
            own_tasks, own_beliefs = own_tasks[kept], own_beliefs.at(kept)
        apart = pool.profile_of[np.concatenate([own_tasks, self.excluded])]
        return Candidates(
            own_tasks,
            own_beliefs,
            self.part.members.sizes - np.bincount(apart, minlength=pool.profiles),
            self.belief.profile_distributions(pool),
        )

    def tasks_of(self, owners: Counts, candidates: Candidates, rng: np.random.Generator) -> Tasks:
        """Return the tasks of these owners; for a profile, random members without replacement.

        Args:
            owners: [n] a profile, or G plus the index of a task in `candidates.own_tasks`; each at most as often as it
                has eligible members.
            candidates: the result of `candidates()`.
        """
        profiles, members = self.pool.profiles, self.part.members
        is_member = owners < profiles
        tasks = np.empty(len(owners), np.int32)
        tasks[~is_member] = candidates.own_tasks[owners[~is_member] - profiles]
        taken = (candidates.own_tasks, self.excluded)
        tasks[is_member] = pick_members(members.order, members.starts, owners[is_member], taken, rng)
        return tasks

    def at_random(self, count: int, rng: np.random.Generator) -> Tasks:
        """Return a uniform sample of `count` eligible tasks."""
        everyone, one_group = np.array([0, len(self.part)]), np.zeros(count, np.int64)
        return pick_members(self.part.members.order, everyone, one_group, (self.excluded,), rng)


def pick_members(
    order: Tasks, starts: Counts, groups: Counts, taken: tuple[Tasks, ...], rng: np.random.Generator
) -> Tasks:
    """Return for each entry of `groups` a random member of that group, all distinct and not taken.

    Rejection sampling: random positions are drawn again if their task is taken or already picked. All members are
    treated alike, so the picks of a group are a uniform sample without replacement.

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
