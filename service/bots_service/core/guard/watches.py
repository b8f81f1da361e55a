"""Watches over groups of rollouts: how likely is it that all of them failed, or all succeeded, since some step?

So a verifier shows that broke, or a checkpoint that was not loaded; models hardly ever change so fast.
"""

from dataclasses import dataclass
from math import prod
from typing import NamedTuple, Self

import numpy as np

from bots_service.core.arrays import Flags, Floats
from bots_service.core.checks import LARGEST_SUM, ROUNDING, is_within
from bots_service.core.evidence import Evidence

# That groups do so by chance. A run with 16 offset tags has 17 watches, which look for two outcomes after each step: by
# this bound, 1,000 steps give a false alarm in fewer than 1 of 29,000 runs.
ALARM = 1e-9
SUSPICION = 0.01  # evidence may wait from here on; by chance it does so in 1 of 100 steps, until the next
FEWEST_BEFORE = 8  # groups: with fewer, nobody knows what is usual
MOST_BEFORE = 0.8  # of the groups had that outcome already: what is left to change is no fall
KEPT = 0.9  # share of the earlier groups that each step keeps: about the last ten steps tell what is usual

FAILED, VARIED, SOLVED = -1, 0, 1


@dataclass(frozen=True, slots=True)
class SeenGroups:
    """The groups of rollouts of a step, and what the belief before it expected of them.

    evidence: [n] each task once.
    means: [n] the belief's success probabilities.
    chances: [n] how likely each group was effective.
    """

    evidence: Evidence
    means: Floats
    chances: Floats

    def counts(self, places: Flags) -> list[list[int]]:
        """Return for each row of places ([W, n]) how many groups it has, how many failed, and how many were solved."""
        outcomes = np.ones((len(self.means), 3), np.int32)
        np.equal(self.evidence.successes, 0.0, out=outcomes[:, 1], casting="unsafe")
        np.equal(self.evidence.failures, 0.0, out=outcomes[:, 2], casting="unsafe")
        counts: list[list[int]] = (places.astype(np.int32) @ outcomes).tolist()
        return counts

    def chance(self, places: Flags, outcome: int, usual: float) -> float:
        """Return an upper bound of how likely the groups in some places ([n]) all have an outcome.

        Groups and not rollouts, for the rollouts of one task succeed or fail together. Each counts with the larger of
        what was usual before, and what the belief expects of it: a run that turns to harder tasks is no broken
        verifier. A group fails with E[(1 - p)^m], and that is at most 1 - E[p]; to fail and to be solved together have
        the probability that it is not effective.
        """
        means, chances = self.means[places], self.chances[places]
        expected = np.minimum(1.0 - means if outcome == FAILED else means, 1.0 - chances)
        return float(prod(np.maximum(usual, expected).tolist()))


class Watch(NamedTuple):
    """What became of the groups of rollouts of all tasks, or of those of an offset tag.

    A streak is a run of steps in which all groups of the watch failed, or all were solved. Steps without such tasks
    are no part of it, and don't end it.

    groups, failed, solved: groups before the streak, those without a success, and those without a failure.
    chance: how likely all groups of the streak have its outcome; 1 as well where nobody knows what is usual.
    outcome: of the streak: FAILED, SOLVED, or VARIED where there is none.
    streak: its groups.
    since: the step in which the streak began that raised the alarm; without alarm, the last one.
    alarm: the outcome that raised an alarm which stands; VARIED where none does.
    """

    groups: float = 0.0
    failed: float = 0.0
    solved: float = 0.0
    chance: float = 1.0
    outcome: int = VARIED
    streak: int = 0
    since: int = 0
    alarm: int = VARIED

    @classmethod
    def of_numbers(cls, numbers: list[float]) -> Self:
        """Return the watch with these fields.

        Raises:
            ValueError: one of the last four is not whole.
        """
        if not all(number.is_integer() for number in numbers[4:]):
            raise ValueError("a watch counts fractions")
        groups, failed, solved, chance, *whole = numbers
        outcome, streak, since, alarm = map(int, whole)
        return cls(groups, failed, solved, chance, outcome, streak, since, alarm)

    @property
    def is_suspicious(self) -> bool:
        """Whether the streak is unlikely enough for its groups to wait."""
        return self.chance <= SUSPICION

    @property
    def is_alarmed(self) -> bool:
        """Whether an alarm stands."""
        return self.alarm != VARIED

    @property
    def is_ongoing(self) -> bool:
        """Whether what raised the alarm continues."""
        return self.is_alarmed and self.outcome == self.alarm and self.is_suspicious

    def before(self, outcome: int) -> float:
        """Return how many groups failed, or were solved, before the streak."""
        return self.failed if outcome == FAILED else self.solved

    def after_step(self, seen: SeenGroups, places: Flags, counts: list[int], step: int) -> "Watch":
        """Return the watch after a closed step; an alarm stands until `without_alarm`.

        Args:
            seen: the groups of the step.
            places: [n] which of them are this watch's.
            counts: of them: all, failed, and solved.
            step: its number.
        """
        groups, failed, solved = counts
        if not groups:
            return self
        outcome = FAILED if failed == groups else SOLVED if solved == groups else VARIED
        if outcome == VARIED:
            return self._with_streak_as_usual()._with_groups(groups, failed, solved)
        if outcome == self.outcome:
            return self._going_on(seen, places, groups)
        since = self.since if self.is_alarmed else step
        begun = self._with_streak_as_usual()._replace(outcome=outcome, since=since)
        return begun._going_on(seen, places, groups)

    def _going_on(self, seen: SeenGroups, places: Flags, groups: int) -> "Watch":
        before, chance = self.before(self.outcome), self.chance
        if self.groups >= FEWEST_BEFORE and before <= MOST_BEFORE * self.groups:
            usual = (before + 1.0) / (self.groups + 2.0)  # Laplace's rule
            chance *= seen.chance(places, self.outcome, usual)
        alarm = self.outcome if chance <= ALARM else self.alarm
        return self._replace(chance=chance, streak=self.streak + groups, alarm=alarm)

    def _with_streak_as_usual(self) -> "Watch":
        """Return the watch without its streak, whose groups count as usual unless they raised an alarm."""
        if self.outcome == VARIED:
            return self
        if self.chance <= ALARM:
            return Watch(self.groups, self.failed, self.solved, since=self.since, alarm=self.alarm)
        return self._with_groups(
            self.streak, self.streak * (self.outcome == FAILED), self.streak * (self.outcome == SOLVED)
        )

    def _with_groups(self, groups: int, failed: int, solved: int) -> "Watch":
        """Return the watch without a streak and with more groups that tell what is usual."""
        return Watch(
            KEPT * self.groups + groups,
            KEPT * self.failed + failed,
            KEPT * self.solved + solved,
            since=self.since,
            alarm=self.alarm,
        )

    def without_alarm(self) -> "Watch":
        """Return the watch without its alarm."""
        return self._replace(alarm=VARIED) if self.is_alarmed else self

    def waiting_anew(self, step: int) -> "Watch":
        """Return the watch after somebody dropped what raised its alarm: what continues does so from this step."""
        return self._replace(since=step) if self.is_ongoing else self.without_alarm()

    def accepted(self) -> "Watch":
        """Return the watch after somebody said that what raised its alarm is right: it is usual from now on."""
        if not self.is_ongoing:
            return self.without_alarm()
        return Watch(outcome=self.outcome, streak=self.streak, since=self.since)._with_streak_as_usual()

    def is_possible(self, step: int) -> bool:
        """Return whether folding a journal of so many steps could have led here, as far as the watch alone tells."""
        return (
            all(is_within(each, LARGEST_SUM) for each in (self.groups, self.failed, self.solved, self.streak))
            and self.failed + self.solved <= self.groups * (1 + ROUNDING)
            and (self.groups > 0 or not self.is_alarmed)
            and is_within(self.chance, 1.0)
            and all(FAILED <= each <= SOLVED for each in (self.outcome, self.alarm))
            and 0 <= self.since <= step + 1
        )
