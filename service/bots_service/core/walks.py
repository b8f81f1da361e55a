"""Where a run's passes stand: how far the strategy `pass` has walked through each part of the pool.

Part of the run's state. A selection's id carries how far it walked, its report journals that, and the state keeps the
farthest: so replicas, retries and replays agree without another store, and a rewind takes the walks back.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from bots_service.core.permutation import places_of_pass

WHOLE = 0  # the key of the part of a pool that holds all tasks
MOST_WALKS = 128  # of a run: one for each set of tags that its selections ask for, and each tag of its mix


@dataclass(frozen=True, slots=True)
class Walk:
    """How far one part of a pool is walked.

    part: the part's key.
    turn: the number of the pass, counted from 0.
    place: where it continues in the order of that pass.
    size: how many tasks the part had when the pass began, retired ones included.
    """

    part: int
    turn: int
    place: int
    size: int

    @property
    def is_finished(self) -> bool:
        """Whether its pass has no place left."""
        return self.place >= places_of_pass(self.size)

    @property
    def reached(self) -> tuple[int, int]:
        """Pass and place, so that the farther of two walks compares as the larger."""
        return self.turn, self.place

    def beginning(self, size: int) -> "Walk":
        """Return where the next selection begins, in a part that has `size` tasks by now.

        Tasks that were appended join with the next pass, which begins once this one has no place left.
        """
        if self.place > 0 and not self.is_finished and self.size <= size:
            return self
        return Walk(self.part, self.turn + (self.place > 0), 0, size)


@dataclass(frozen=True, slots=True)
class Walks:
    """The walks of a run.

    first_turn: the pass with which a part begins that has no walk here.
    walks: at most MOST_WALKS, the one that was moved last at the end.
    finished: how many passes had reached their end before `first_turn`, of the part that was walked last then.
    """

    first_turn: int = 0
    walks: tuple[Walk, ...] = ()
    finished: int = 0

    def done(self, size: int) -> tuple[int, float]:
        """Return how many passes reached their end, and the share of the present one, of the part that was walked last.

        That is the whole pool, or a subset of it, unless the selections name tags.

        Args:
            size: how many tasks the pool has, retired ones included.
        """
        walk = self.walks[-1] if self.walks else Walk(WHOLE, self.first_turn, 0, size)
        walk = walk.beginning(size if walk.part == WHOLE else walk.size)
        return self.finished + walk.turn - self.first_turn, walk.place / places_of_pass(walk.size)

    def of(self, part: int, size: int) -> Walk:
        """Return where the next selection from a part begins.

        Args:
            part: the part's key.
            size: how many tasks it has, retired ones included.
        """
        for walk in self.walks:
            if walk.part == part:
                return walk.beginning(size)
        return Walk(part, self.first_turn, 0, size)

    def moved(self, ends: Iterable[Walk]) -> "Walks":
        """Return the walks after a report whose selection ended here; a walk that is farther already stays.

        Beyond MOST_WALKS the one that was not moved for the longest time is dropped; its part then starts again.
        """
        walks = {walk.part: walk for walk in self.walks}
        for end in ends:
            if end.turn >= self.first_turn:
                walks[end.part] = max(walks.pop(end.part, end), end, key=lambda walk: walk.reached)
        return Walks(self.first_turn, tuple(walks.values())[-MOST_WALKS:], self.finished)

    def restarted(self) -> "Walks":
        """Return walks that begin with a pass that none of these has reached.

        After evidence whose selection is unknown nobody can say how far it walked. Where each walk stays in its place,
        the next selection would find the same tasks again.
        """
        if not self.walks:
            return Walks(self.first_turn + 1, finished=self.finished)
        last = self.walks[-1]
        return Walks(
            first_turn=max(walk.turn for walk in self.walks) + 1,
            finished=self.finished + last.turn - self.first_turn + last.is_finished,
        )


def walk_numbers(walk: Walk) -> tuple[int, int, int, int]:
    """Return the numbers of a walk, in the order of its fields."""
    return walk.part, walk.turn, walk.place, walk.size
