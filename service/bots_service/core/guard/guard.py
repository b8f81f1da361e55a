"""The verifier guard of a run: the streaks that it follows, and the groups of rollouts that wait because of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import NamedTuple

import numpy as np

from bots_service.core.arrays import Flags, Tasks
from bots_service.core.guard import Decision
from bots_service.core.guard.held import NOTHING_HELD, HeldGroups, union
from bots_service.core.guard.streaks import OUTCOMES, Outcome, SeenGroups, Streak
from bots_service.core.pool import NO_TASKS, Pool
from bots_service.errors import NothingToDecideError

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
    ongoing: whether it continues.
    held: how many of these groups wait outside the belief.
    """

    tag: str | None
    outcome: Outcome
    since_step: int
    last_step: int
    groups: int
    chance: float
    ongoing: bool
    held: int


class GuardedStep(NamedTuple):
    """What the guard makes of a step.

    guard: after it.
    waits: [n] which of its groups wait from now on; None where none does, as in nearly all steps.
    tasks: of these groups, sorted.
    freed: earlier groups that need not wait any longer: what they showed was chance.
    """

    guard: "VerifierGuard"
    waits: Flags | None
    tasks: Tasks
    freed: HeldGroups


@dataclass(frozen=True, slots=True)
class VerifierGuard:
    """The streaks of a run, and what waits.

    streaks: by tag, the whole run's first; of each at most one that continues, and alarms that are over but undecided.
    held: the groups that wait.
    """

    streaks: tuple[Streak, ...] = ()
    held: HeldGroups = NOTHING_HELD

    @property
    def alarms(self) -> tuple[Streak, ...]:
        """The streaks that somebody should look at."""
        return tuple(streak for streak in self.streaks if streak.is_alarm)

    def after_step(self, pool: Pool, seen: SeenGroups, *, step: int, holds: bool) -> GuardedStep:
        """Return what the guard makes of a step.

        Args:
            pool: the tasks.
            seen: the groups of the step.
            step: its number.
            holds: whether groups may wait.
        """
        tasks, watched = seen.evidence.tasks, pool.watched_tags
        if not (self.streaks or watched.names) and seen.evidence.effective.any():  # nothing is alike, as nearly always
            return GuardedStep(self, None, NO_TASKS, NOTHING_HELD)
        bits = watched.bits_of(tasks)
        alike = _alike(self.streaks, pool, seen, bits)
        if not (self.streaks or alike) or not len(tasks):
            return GuardedStep(self, None, NO_TASKS, NOTHING_HELD)
        streaks = _followed(self.streaks, alike, pool, seen, bits, step)
        active = (streak for streak in streaks if holds and streak.is_suspicious and streak.last == step)
        waits = union([watched.carry(tasks, streak.tag) for streak in active], len(tasks))
        held = self.held.plus(seen.evidence.where(waits), step)
        if not len(held):  # nearly always; what follows would find the same
            return GuardedStep(
                VerifierGuard(tuple(streak for streak in streaks if streak.ongoing)), None, NO_TASKS, held
            )
        covered = _covered(streaks, held, pool)
        kept = tuple(streak for streak, own in zip(streaks, covered, strict=True) if streak.ongoing or own.any())
        stays = union([own for streak, own in zip(streaks, covered, strict=True) if _retains(streak)], len(held))
        guard, freed, own_tasks = VerifierGuard(kept, held.where(stays)), held.where(~stays), np.unique(tasks[waits])
        return GuardedStep(guard, waits if len(own_tasks) else None, own_tasks, freed)

    def require_alarm(self, tag: str | None) -> None:
        """Raise NothingToDecideError unless an alarm stands about the tag; None: any alarm."""
        tags = [alarm.tag for alarm in self.alarms]
        if not tags if tag is None else tag not in tags:
            about = "" if tag is None else f" about the tag {tag!r}"
            raise NothingToDecideError(f"no alarm of the verifier guard{about} stands")

    def decided(
        self, pool: Pool, decision: Decision, tag: str | None, *, step: int
    ) -> tuple["VerifierGuard", HeldGroups]:
        """Return the guard after a decision about alarms, and the groups that waited because of them.

        Args:
            pool: the tasks.
            decision: see `Streak.decided`.
            tag: whose alarms; None for all of the run.
            step: how many steps closed.
        """
        chosen = [streak for streak in self.alarms if tag is None or streak.tag == tag]
        decided = union(_covered(chosen, self.held, pool), len(self.held))
        rest = (streak.decided(decision, step) if streak in chosen else streak for streak in self.streaks)
        streaks = tuple(streak for streak in rest if streak is not None)
        held = self.held.where(~decided)
        left = zip(streaks, _covered(streaks, held, pool), strict=True)
        kept = tuple(streak for streak, own in left if streak.ongoing or own.any())
        return VerifierGuard(kept, held), self.held.where(decided)

    def described(self, pool: Pool) -> tuple[VerifierAlarm, ...]:
        """Return the alarms that stand, that of the whole run first."""
        alarms = self.alarms
        return tuple(
            VerifierAlarm(
                tag=streak.tag,
                outcome=streak.outcome,
                since_step=streak.since,
                last_step=streak.last,
                groups=streak.groups,
                chance=streak.chance,
                ongoing=streak.ongoing,
                held=int(np.count_nonzero(own)),
            )
            for streak, own in zip(alarms, _covered(alarms, self.held, pool), strict=True)
        )


NO_ALARMS = VerifierGuard()


def _retains(streak: Streak) -> bool:
    """Say whether groups wait because of a streak."""
    return streak.is_suspicious or streak.is_alarm


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
) -> list[Streak]:
    """Return the streaks after a step; alarms that are over stand apart, also where nothing waits.

    Args:
        streaks: before it.
        alike: as `_alike` returned it.
        pool, seen, bits: as there.
        step: its number.
    """
    present, _, _ = _gathered(bits, [True] * len(bits))
    over = {(streak.tag, streak.outcome): streak for streak in streaks if not streak.ongoing}
    ongoing = {streak.tag: streak for streak in streaks if streak.ongoing}
    for tag, streak in list(ongoing.items()):
        is_absent = tag is not None and not pool.watched_tags.bit_of(tag) & present
        if is_absent or alike.get(tag) == streak.outcome:
            continue
        if ongoing.pop(tag).is_alarm:
            ended = streak._replace(ongoing=False)
            earlier = over.get((tag, streak.outcome))
            over[tag, streak.outcome] = ended if earlier is None else ended.joined(earlier)
    for outcome in OUTCOMES:
        if own := [tag for tag, found in alike.items() if found == outcome]:
            ongoing |= _grown(own, outcome, ongoing, pool, seen, step)
    return sorted([*over.values(), *ongoing.values()], key=_order)


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


def _order(streak: Streak) -> tuple[bool, str, bool, str]:
    return streak.tag is not None, streak.tag or "", streak.ongoing, streak.outcome


def _covered(streaks: Iterable[Streak], held: HeldGroups, pool: Pool) -> list[Flags]:
    """Return for each streak [R] which of the groups that wait are its own."""
    tasks, watched = held.evidence.tasks, pool.watched_tags
    return [watched.carry(tasks, streak.tag) & streak.covers(held.steps) for streak in streaks]
