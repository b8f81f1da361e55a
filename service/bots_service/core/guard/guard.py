"""What watches over a run's rewards found, and the groups of rollouts that wait outside the belief because of it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bots_service.core.arrays import Flags, Tasks, frozen
from bots_service.core.checks import Arrays, are_within
from bots_service.core.evidence import NO_EVIDENCE, Evidence, joined
from bots_service.core.guard import Decision
from bots_service.core.guard.watches import FAILED, SeenGroups, Watch
from bots_service.core.past_evidence import AgedEvidence
from bots_service.core.pool import Pool

MOST_HELD = 65_536  # groups; the oldest make room: a belief has forgotten most of what they could tell it

Outcome = Literal["failed", "succeeded"]


@dataclass(frozen=True, slots=True)
class HeldGroups:
    """Groups of rollouts that wait outside the belief.

    evidence: [R] in the order of their steps.
    steps: [R] the number of the step that each closed with.
    """

    evidence: Evidence
    steps: Tasks

    def __len__(self) -> int:
        return len(self.steps)

    def where(self, wanted: Flags) -> "HeldGroups":
        """Return the groups in the wanted places ([R])."""
        return HeldGroups(self.evidence.where(wanted).frozen(), frozen(self.steps[wanted]))

    def plus(self, evidence: Evidence, step: int) -> "HeldGroups":
        """Return the newest of these groups and those of one more step."""
        steps = np.concatenate([self.steps, np.full(len(evidence), step, np.int32)])
        grown = HeldGroups(joined([self.evidence, evidence]).frozen(), frozen(steps))
        return grown if len(grown) <= MOST_HELD else grown.where(np.arange(len(grown)) >= len(grown) - MOST_HELD)

    def aged(self, step: int) -> AgedEvidence:
        """Return the groups as late evidence, for a belief after so many closed steps."""
        return AgedEvidence(self.evidence, frozen((step - self.steps).astype(np.float64)))


NOTHING_HELD = HeldGroups(NO_EVIDENCE, frozen(np.empty(0, np.int32)))


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Something that raised an alarm.

    tag: whose tasks; null for the whole run.
    outcome: what all groups of rollouts did.
    since_step: the first step in which they did.
    groups: how many groups did, in this streak; 0 once it is over.
    usual: the share of groups that did before, in [0, 1].
    ongoing: whether the last step with such tasks still showed it.
    held: how many groups wait outside the belief because of it.
    """

    tag: str | None
    outcome: Outcome
    since_step: int
    groups: int
    usual: float
    ongoing: bool
    held: int


@dataclass(frozen=True, slots=True)
class VerifierGuard:
    """The watches over a run, and what waits.

    watches: that over all tasks, and one for each offset tag.
    """

    watches: tuple[Watch, ...]
    held: HeldGroups = NOTHING_HELD

    @classmethod
    def fresh(cls, pool: Pool) -> "VerifierGuard":
        """Return the guard of a run that closed no step."""
        return cls((Watch(),) * (1 + len(pool.offset_tags)))

    @property
    def nbytes(self) -> int:
        """How much memory the arrays take."""
        return self.held.evidence.nbytes + int(self.held.steps.nbytes)

    @property
    def alarms(self) -> int:
        """How many alarms stand."""
        return sum(watch.is_alarmed for watch in self.watches)

    def after_step(
        self, pool: Pool, seen: SeenGroups, *, step: int, holds: bool
    ) -> tuple["VerifierGuard", Flags, HeldGroups]:
        """Return the guard after a step, [n] which of its groups wait, and those that need not wait any longer.

        Args:
            pool: the tasks.
            seen: the groups of the step.
            step: its number.
            holds: whether groups may wait.
        """
        places = watched(pool, seen.evidence.tasks)
        rows = zip(self.watches, places, seen.counts(places), strict=True)
        watches = tuple(watch.after_step(seen, mine, count, step) for watch, mine, count in rows)
        waits = _of_any(places, (holds and watch.is_suspicious for watch in watches))
        held = self.held.plus(seen.evidence.where(waits), step) if waits.any() else self.held
        if not len(held):  # most steps; what follows would find the same
            calm = (watch if watch.is_ongoing else watch.without_alarm() for watch in watches)
            return VerifierGuard(tuple(calm)), waits, NOTHING_HELD
        belonging = _belonging(watches, held, pool)
        stays = _of_any(belonging, (watch.is_suspicious or watch.is_alarmed for watch in watches))
        undecided = (
            watch if watch.is_ongoing or mine.any() else watch.without_alarm()
            for watch, mine in zip(watches, belonging, strict=True)
        )
        return VerifierGuard(tuple(undecided), held.where(stays)), waits, held.where(~stays)

    def decided(self, pool: Pool, decision: Decision, *, step: int) -> tuple["VerifierGuard", HeldGroups]:
        """Return the guard after a decision about all alarms, and the groups that waited because of them.

        Args:
            pool: the tasks.
            decision: after "release", what raised the alarms counts as usual. After "drop", groups wait as long as it
                continues.
            step: how many steps closed.
        """
        belonging = _belonging(self.watches, self.held, pool)
        decided = _of_any(belonging, (watch.is_alarmed for watch in self.watches))
        watches = tuple(
            watch.accepted() if decision == "release" else watch.waiting_anew(step + 1) for watch in self.watches
        )
        return VerifierGuard(watches, self.held.where(~decided)), self.held.where(decided)

    def doubts(self, pool: Pool, tasks: Tasks) -> Flags:
        """[n] whether what comes of each task now looks wrong."""
        return _of_any(watched(pool, tasks), (watch.is_suspicious for watch in self.watches))

    def suspicions(self, pool: Pool) -> tuple[Suspicion, ...]:
        """Return what raised the alarms that stand, that of the whole run first."""
        belonging = _belonging(self.watches, self.held, pool)
        rows = zip((None, *pool.offset_tags), self.watches, belonging, strict=True)
        return tuple(
            Suspicion(
                tag=tag,
                outcome="failed" if watch.alarm == FAILED else "succeeded",
                since_step=watch.since,
                groups=watch.streak if watch.is_ongoing else 0,
                usual=watch.before(watch.alarm) / watch.groups,
                ongoing=watch.is_ongoing,
                held=int(np.count_nonzero(mine)),
            )
            for tag, watch, mine in rows
            if watch.is_alarmed
        )

    def is_possible(self, step: int, tasks: int, offset_tags: int) -> bool:
        """Return whether folding a journal could have led here, as far as the guard alone tells."""
        return (
            len(self.watches) == 1 + offset_tags
            and all(watch.is_possible(step) for watch in self.watches)
            and len(self.held) <= MOST_HELD
            and are_within(self.held.steps, 1, step)
            and are_within(self.held.evidence.tasks, 0, tasks - 1)
        )


def watched(pool: Pool, tasks: Tasks) -> Flags:
    """[W, n] whether each watch looks at each task: the first at all, the others at those with an offset tag."""
    everything = np.ones((1, len(tasks)), np.bool_)
    if not pool.offset_tags:
        return everything
    carried = pool.carried[pool.profile_of[tasks]]
    bits = np.arange(len(pool.offset_tags), dtype=carried.dtype)[:, None]
    return np.concatenate([everything, (carried >> bits) & carried.dtype.type(1) == 1])


def _of_any(places: Flags, watches: Iterable[bool]) -> Flags:
    """[n] whether any of some watches ([W]) looks at each task; places: [W, n]."""
    return np.asarray(places[list(watches)].any(axis=0), np.bool_)


def _belonging(watches: tuple[Watch, ...], held: HeldGroups, pool: Pool) -> Flags:
    """[W, R] whether each group waits since what a watch shows began."""
    since = np.array([watch.since for watch in watches])
    return np.asarray(watched(pool, held.evidence.tasks) & (held.steps >= since[:, None]), np.bool_)


_EVIDENCE = {"tasks": "<i4", "successes": "<f8", "failures": "<f8", "effective": "|b1"}


def encoded(guard: VerifierGuard) -> Arrays:
    """Return arrays. Inverse of `decoded`."""
    watches = {"guard_watches": np.array(guard.watches, np.float64)}
    if not len(guard.held):
        return watches
    held = {f"guard_held_{name}": getattr(guard.held.evidence, name) for name in _EVIDENCE}
    return {**watches, **held, "guard_held_steps": guard.held.steps}


def shapes(arrays: Arrays) -> dict[str, tuple[Any, ...]]:
    """Return the types and shapes that a guard's arrays must have."""
    fields = len(Watch._fields)
    watches: dict[str, tuple[Any, ...]] = {"guard_watches": ("<f8", arrays["guard_watches"].size // fields, fields)}
    if "guard_held_steps" not in arrays:
        return watches
    held = len(arrays["guard_held_steps"])
    return {
        **watches,
        **{f"guard_held_{name}": (kind, held) for name, kind in _EVIDENCE.items()},
        "guard_held_steps": ("<i4", held),
    }


def decoded(arrays: Arrays) -> VerifierGuard:
    """Return the guard that was encoded.

    Raises:
        ValueError: a number of groups or of steps is not whole.
    """
    watches = tuple(Watch.of_numbers(row) for row in arrays["guard_watches"].tolist())
    if "guard_held_steps" not in arrays:
        return VerifierGuard(watches)
    evidence = Evidence(*(arrays[f"guard_held_{name}"] for name in _EVIDENCE))
    return VerifierGuard(watches, HeldGroups(evidence, arrays["guard_held_steps"]))
