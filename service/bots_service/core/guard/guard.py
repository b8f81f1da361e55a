"""The verifier guard of a run: the streaks that it follows, and the alarms that they raise."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np

from bots_service.core.guard.streaks import OUTCOMES, Outcome, SeenGroups, Streak
from bots_service.core.pool import Pool

FEWEST = 2  # groups with which a streak begins


@dataclass(frozen=True, slots=True)
class VerifierAlarm:
    """Rewards that turned all equal at once.

    tag: whose tasks; null for the whole run.
    outcome: what all groups of rollouts did.
    since_step: the first step in which they did.
    last_step: the last one.
    groups: how many groups did.
    chance: how likely the belief thought that.
    """

    tag: str | None
    outcome: Outcome
    since_step: int
    last_step: int
    groups: int
    chance: float


@dataclass(frozen=True, slots=True)
class VerifierGuard:
    """The streaks of a run.

    streaks: those that continue, by tag, the whole run's first; of each at most one.
    """

    streaks: tuple[Streak, ...] = ()

    @property
    def alarms(self) -> tuple[Streak, ...]:
        """The streaks that somebody should look at."""
        return tuple(streak for streak in self.streaks if streak.is_alarm)

    def after_step(self, pool: Pool, seen: SeenGroups, *, step: int) -> "VerifierGuard":
        """Return the guard after a step.

        Args:
            pool: the tasks.
            seen: the groups of the step.
            step: its number.
        """
        tasks, watched = seen.evidence.tasks, pool.watched_tags
        if not (self.streaks or watched.names) and seen.evidence.effective.any():  # nothing is alike, as nearly always
            return self
        bits = watched.bits_of(tasks)
        alike = _alike(self.streaks, pool, seen, bits)
        if not (self.streaks or alike) or not len(tasks):
            return self
        return VerifierGuard(_followed(self.streaks, alike, pool, seen, bits, step))

    def described(self) -> tuple[VerifierAlarm, ...]:
        """Return the alarms that stand, that of the whole run first."""
        return tuple(
            VerifierAlarm(
                tag=streak.tag,
                outcome=streak.outcome,
                since_step=streak.since,
                last_step=streak.last,
                groups=streak.groups,
                chance=streak.chance,
            )
            for streak in self.alarms
        )


NO_ALARMS = VerifierGuard()


def _alike(streaks: Iterable[Streak], pool: Pool, seen: SeenGroups, bits: list[int]) -> dict[str | None, Outcome]:
    """Return the tags, None for the whole run, all of whose groups in a step have one outcome.

    Those of a streak, and those with at least two groups: by one group a step no alarm would come at once.

    Args:
        streaks: so far.
        pool: the tasks.
        seen: the groups.
        bits: [n] of the tags of each group.
    """
    varied = seen.evidence.effective.tolist()
    equal, others, twice = _gathered(bits, [not one for one in varied])
    for streak in streaks:
        if streak.tag is not None:
            twice |= pool.watched_tags.bit_of(streak.tag)
    wanted = twice & equal & ~others
    if not wanted and (len(varied) < FEWEST or any(varied)):
        return {}
    found: dict[str | None, Outcome] = {}
    for outcome in OUTCOMES:
        groups = seen.places(outcome).tolist()
        if all(groups):
            found[None] = outcome
        own, others, _ = _gathered(bits, groups)
        found |= dict.fromkeys(pool.watched_tags.named(wanted & own & ~others), outcome)
    return found


def _gathered(bits: list[int], chosen: list[bool]) -> tuple[int, int, int]:
    """Return the bits of all chosen groups, of all others, and those that two of the chosen ones have.

    By Python's own numbers: a step has few groups.
    """
    own = others = twice = 0
    for one, is_chosen in zip(bits, chosen, strict=True):
        if is_chosen:
            twice |= own & one
            own |= one
        else:
            others |= one
    return own, others, twice


def _followed(
    streaks: Iterable[Streak],
    alike: dict[str | None, Outcome],
    pool: Pool,
    seen: SeenGroups,
    bits: list[int],
    step: int,
) -> tuple[Streak, ...]:
    """Return the streaks after a step.

    Args:
        streaks: before it.
        alike: as `_alike` returned it.
        pool, seen, bits: as there.
        step: its number.
    """
    present, _, _ = _gathered(bits, [True] * len(bits))
    ongoing = {
        streak.tag: streak
        for streak in streaks
        if (streak.tag is not None and not pool.watched_tags.bit_of(streak.tag) & present)  # it has no groups here
        or alike.get(streak.tag) == streak.outcome
    }
    for outcome in OUTCOMES:
        if own := [tag for tag, found in alike.items() if found == outcome]:
            ongoing |= _grown(own, outcome, ongoing, pool, seen, step)
    return tuple(sorted(ongoing.values(), key=_order))


def _grown(
    tags: list[str | None],
    outcome: Outcome,
    ongoing: dict[str | None, Streak],
    pool: Pool,
    seen: SeenGroups,
    step: int,
) -> Iterator[tuple[str | None, Streak]]:
    """Yield tags, all of whose groups had one outcome, with their streaks; a new one only where that tells something.

    Args:
        tags: those; None for the whole run.
        outcome: of their groups.
        ongoing: the streaks so far.
        pool: the tasks.
        seen: the groups of the step.
        step: its number.
    """
    places = seen.places(outcome)
    of_tags = seen.chances(places, outcome)
    for tag in tags:
        own = pool.watched_tags.carry(seen.evidence.tasks, tag)
        streak = ongoing.get(tag, Streak(tag, outcome, 1.0, 0, step, step))
        chances, last = of_tags if tag is not None else seen.chances(places, outcome, with_drawn=True)
        # A task that changed may come again and again: within a streak it counts once.
        chance = prod(chances[own & (last < streak.since)].tolist())
        if tag is not None and len(drawn := seen.drawn_first(own)):
            tried = seen.attempts.tried(partial(pool.watched_tags.carry, tag=tag))
            chance *= prod(seen.chances_of_drawn(drawn, outcome, tried, streak.since).tolist())
        if tag in ongoing or chance < 1.0:
            yield tag, streak.with_step(chance, int(np.count_nonzero(own)), step)


def _order(streak: Streak) -> tuple[bool, str]:
    return streak.tag is not None, streak.tag or ""
