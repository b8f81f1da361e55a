"""What the tags of a run's mix were owed and given so far, and how many tasks of each a selection takes.

The account is part of the run's state. Shares are owed for what was reported, so replicas, retries and replays agree, a
rewind takes the account back, and what was aborted or never came back is owed again.

The tags take turns as the states of a union take the chair: R. Tijdeman, "The chairman assignment problem", Discrete
Mathematics 32 (1980). While the shares stay and every tag has free tasks, each tag's tasks, in flight or reported, then
differ from its share of all by less than 1 at any time, however many tags there are.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bots_service.core.arrays import Tasks, contained
from bots_service.core.pool import Pool
from bots_service.core.run_settings import Mix

MOST_OWED = 256.0  # tasks; what a tag that had no free task for long makes up for, once it has some again
NONE = -1  # the source of a task that carries no tag of the mix


@dataclass(frozen=True, slots=True)
class MixedTag:
    """The account of one tag of the mix: tasks that its share came to, and tasks of it that were reported."""

    tag: str
    owed: float = 0.0
    given: int = 0

    @property
    def missing(self) -> float:
        """How many tasks of it were owed and not given; negative where it was given more."""
        return self.owed - self.given


MixAccount = tuple[MixedTag, ...]


@dataclass(frozen=True, slots=True)
class MixShare:
    """One tag of a run's mix.

    tag: the tag.
    share: the share of the tasks that it is owed.
    owed: tasks that its share came to so far, of those reported.
    given: tasks that were reported and count for it.
    """

    tag: str
    share: float
    owed: float
    given: int


def shares_of(mix: Mix) -> dict[str, float]:
    """Return the share of the tasks that each tag is owed; they add up to 1."""
    total = math.fsum(mix.values())
    return {tag: weight / total for tag, weight in mix.items()}


def sources_of(pool: Pool, mix: Mix, tasks: Tasks) -> Tasks:
    """[n] for each task the number of its tag in the mix: the first that it carries; NONE if it has none."""
    sources = np.full(len(tasks), NONE, np.int32)
    for number, tag in reversed(list(enumerate(mix))):
        if tag in pool.tags:
            sources[contained(tasks, (pool.tags[tag],))] = number
    return sources


def counts_by_tag(pool: Pool, mix: Mix, tasks: Tasks) -> dict[str, int]:
    """Return how many of the tasks count for each tag of the mix."""
    counts = np.bincount(sources_of(pool, mix, tasks) + 1, minlength=len(mix) + 1)[1:]
    return dict(zip(mix, counts.tolist(), strict=True))


def account_of(mix: Mix, account: MixAccount) -> dict[str, MixedTag]:
    """Return the account of each tag of the mix; one that is new there begins with nothing."""
    known = {one.tag: one for one in account}
    return {tag: known.get(tag, MixedTag(tag)) for tag in mix}


def mix_shares(mix: Mix, account: MixAccount) -> tuple[MixShare, ...]:
    """Return each tag of the mix as it stands, by name."""
    shares = shares_of(mix)
    return tuple(MixShare(tag, shares[tag], one.owed, one.given) for tag, one in account_of(mix, account).items())


def after_report(mix: Mix, account: MixAccount, pool: Pool, tasks: Tasks) -> MixAccount:
    """Return the account after a report of these tasks."""
    if not mix or not len(tasks):
        return account if mix else ()
    shares, given = shares_of(mix), counts_by_tag(pool, mix, tasks)
    reported = sum(given.values())
    after = tuple(
        MixedTag(tag, one.owed + shares[tag] * reported, one.given + given[tag])
        for tag, one in account_of(mix, account).items()
    )
    largest = max(abs(one.missing) for one in after)
    if largest <= MOST_OWED:
        return after
    scale = MOST_OWED / largest  # all differences are scaled down, so that their ratios stay
    return tuple(MixedTag(one.tag, one.given + one.missing * scale, one.given) for one in after)


# Selections of more tasks begin with what each tag is owed for certain; taking turns costs 1 us a task and tag.
MOST_TURNS = 256


@dataclass(slots=True)
class Turn:
    """One tag while tasks are dealt out; owed: its share so far, less those given, in flight or chosen.

    free: how many tasks of it can still be selected; chosen: how many this selection takes.
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

    A tag without free tasks leaves its turn to the others, which keep their ratios. shares add up to 1; owed: tasks
    that a tag was owed and not given, of those reported; in_flight: selected and not yet reported.
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
