"""How many tasks of each tag a selection takes, so that the run's mix is exact over time, at any number of tasks.

The tags take turns as the states of a union take the chair: R. Tijdeman, "The chairman assignment problem", Discrete
Mathematics 32 (1980). While the shares stay and every tag has free tasks, each tag's tasks, in flight or reported, then
differ from its share of all by less than 1 at any time, however many tags there are.
"""

from collections.abc import Mapping
from dataclasses import dataclass

# Selections of more tasks begin with what each tag is owed for certain; taking turns costs 1 us a task and tag.
MOST_TURNS = 256


@dataclass(slots=True)
class Turn:
    """One tag while the tasks of a selection are dealt out.

    tag: its name.
    share: its share of the tasks.
    owed: tasks that its share comes to so far, less those given, in flight or chosen: its difference.
    free: how many tasks of it can still be selected.
    chosen: how many this selection takes.
    """

    tag: str
    share: float
    owed: float
    free: int
    chosen: int = 0

    def take(self, count: int) -> None:
        """Choose so many tasks more."""
        self.chosen += count
        self.free -= count
        self.owed -= count


def deal(
    count: int,
    *,
    shares: Mapping[str, float],
    owed: Mapping[str, float],
    in_flight: Mapping[str, int],
    free: Mapping[str, int],
) -> dict[str, int]:
    """Return how many tasks of each tag to select: `count` in all, fewer only if fewer are free.

    A tag without free tasks leaves its turn to the others, which keep their ratios.

    Args:
        count: tasks to select.
        shares: of each tag; they add up to 1.
        owed: for each tag, tasks that it was owed and not given, of those reported.
        in_flight: for each tag, its tasks that were selected and not yet reported.
        free: for each tag, its tasks that can be selected.
    """
    flying = sum(in_flight.values())
    turns = [Turn(tag, share, owed[tag] + share * flying - in_flight[tag], free[tag]) for tag, share in shares.items()]
    left = min(count, sum(free.values()))
    if left > MOST_TURNS:
        left -= _deal_in_bulk(turns, left - MOST_TURNS)
    for _ in range(left):
        _give_turn(turns)
    return {turn.tag: turn.chosen for turn in turns}


def _deal_in_bulk(turns: list[Turn], count: int) -> int:
    """Let each tag take what `count` tasks owe it for certain; return how many tasks that is."""
    taken = 0
    for turn in turns:
        turn.owed += turn.share * count
    room = count
    for turn in turns:
        sure = min(max(int(turn.owed), 0), turn.free, room)
        turn.take(sure)
        taken, room = taken + sure, room - sure
    for turn in turns:  # each task that is dealt later adds to what is owed
        turn.owed -= turn.share * (count - taken)
    return taken


def _give_turn(turns: list[Turn]) -> None:
    """Give one task to the tag that must have one soonest, of those that are owed enough of it to take it."""
    slack = 1.0 / max(2 * len(turns) - 2, 1)
    for turn in turns:
        turn.owed += turn.share
    able = [turn for turn in turns if turn.free]
    ripe = [turn for turn in able if turn.owed >= slack and turn.share > 0.0]
    min(ripe or able, key=lambda turn: _deadline(turn, slack)).take(1)


def _deadline(turn: Turn, slack: float) -> tuple[float, float]:
    """Return after how many more tasks the tag would miss nearly a whole one; of equals the most owed comes first."""
    if turn.share <= 0.0:
        return float("inf"), -turn.owed
    return (1.0 - slack - turn.owed) / turn.share, -turn.owed
