"""Streaks: steps in which all groups of a tag failed, or all were solved, and how likely that is.

So a verifier shows that broke, or a checkpoint that was not loaded. How likely it is follows from what the belief
before each step says of those very tasks, and from nothing else: a run that turns to hopeless tasks is no broken
verifier.
Groups count and not rollouts, for the rollouts of one task succeed or fail together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Self

import numpy as np

from bots_service.core.arrays import Counts, Flags, Floats, Tasks, as_places, contained
from bots_service.core.attempts import AttemptRows, Attempts
from bots_service.core.belief.protocol import Distributions
from bots_service.core.checks import as_count, as_number
from bots_service.core.evidence import Evidence

Outcome = Literal["failed", "succeeded"]
OUTCOMES: tuple[Outcome, ...] = ("failed", "succeeded")

# That groups do so by chance: docs/verifier-guard.md has how often an alarm was false.
ALARM = 1e-9
# Of one group, whatever the belief says. A task may change without a fault, so an alarm takes at least seven groups.
LEAST_CHANCE = 0.05
LIKELY = 0.5  # what is likelier tells nothing: over many steps even a slight error of the belief would add up
AT_ONCE = 20  # steps: what took longer to look wrong did not turn so at once
LARGEST_GROUP = 256  # rollouts; of larger groups so many count


@dataclass(frozen=True, slots=True)
class SeenGroups:
    """The groups of rollouts of a step, and what was known of their tasks before it.

    evidence: [n] each group once.
    believed: [n] of the tasks.
    attempts: what earlier steps reported.
    drawn: tasks that a pass drew from the whole pool, where an earlier step had begun it.
    in_first_pass: whether that was the run's first pass, so that it drew the tasks tried before at random, too.
    """

    evidence: Evidence
    believed: Distributions
    attempts: Attempts
    drawn: Tasks
    in_first_pass: bool

    def places(self, outcome: Outcome) -> Flags:
        """[n] whether all rollouts of the group had the outcome."""
        others = self.evidence.successes if outcome == "failed" else self.evidence.failures
        return np.asarray(~self.evidence.effective & (others == 0.0), np.bool_)

    def chances(self, places: Flags, outcome: Outcome, *, with_drawn: bool = False) -> tuple[Floats, Tasks]:
        """Return how likely the groups in some places have an outcome, [n], 1 in all others and where nobody can know.

        A group counts where an earlier step showed its task otherwise. Of a task that was never tried nobody knows
        whether it is like others.

        Args:
            places: [n] groups with this outcome.
            outcome: of all of them.
            with_drawn: whether a task that was never tried counts, too, where a pass drew it from the whole pool at
                random: for all groups of a step together, and for no part of them.

        Returns:
            These chances, and [n] in which step each task was last tried, 0 where it never was.
        """
        found, last = np.ones(len(places)), np.zeros(len(places), np.int32)
        some = np.flatnonzero(places)
        rows = self.attempts.of_few(self.evidence.tasks.take(some))
        last[some] = rows.last_step
        counts = rows.successes > 0.0 if outcome == "failed" else rows.successes < rows.rollouts
        if with_drawn and len(self.drawn):
            counts |= (rows.visits == 0) & contained(rows.tasks, (self.drawn,))
        known = some[counts]
        if not len(known):
            return found, last
        found[known] = _telling(self._alike(known, outcome))
        return found, last

    def drawn_first(self, chosen: Flags) -> Counts:
        """Return which of the chosen groups ([n]) are of tasks that the first pass drew and nobody tried before."""
        places = as_places(chosen & self.in_first_pass)
        tasks = self.evidence.tasks.take(places)
        return places.compress(contained(tasks, (self.drawn,)) & (self.attempts.of_few(tasks).visits == 0))

    def chances_of_drawn(self, places: Counts, outcome: Outcome, tried: AttemptRows, since: int) -> Floats:
        """Return how likely groups of a tag that the first pass drew have an outcome, one after the other.

        The pass walks in an order at random. So the tag's tasks that it met before the streak say how many have the
        outcome by their nature; the belief counts where it finds that likelier.

        Args:
            places: [m] of these groups.
            outcome: of all of them.
            tried: the tag's tasks that were tried before.
            since: the first step of the streak.

        Returns:
            [m], by the rule of succession.
        """
        same = tried.successes == 0.0 if outcome == "failed" else tried.successes >= tried.rollouts
        others = np.count_nonzero(~same & (tried.last_step < since))
        numbers = np.count_nonzero(same) + 1.0 + np.arange(len(places))
        return _telling(np.maximum(numbers / (numbers + others + 1.0), self._alike(places, outcome)))

    def _alike(self, places: Counts, outcome: Outcome) -> Floats:
        """Return how likely the belief finds it that groups have an outcome, [m]. places: [m] of these groups."""
        sizes = np.rint((self.evidence.successes + self.evidence.failures).take(places))
        believed = self.believed.at(places)
        mirrored = believed if outcome == "failed" else believed.mirrored()
        return mirrored.all_fail(np.clip(sizes, 1, LARGEST_GROUP).astype(np.int64))


def _telling(chances: Floats) -> Floats:
    """Return chances of single groups as they count: none for less than LEAST_CHANCE, the likely ones for nothing."""
    return np.where(chances > LIKELY, 1.0, np.maximum(chances, LEAST_CHANCE))


class Streak(NamedTuple):
    """Steps in which all groups of a tag, or of the whole run, had one outcome.

    Steps without such groups are no part of a streak, and don't end it.

    tag: whose groups; None for the whole run.
    outcome: of all groups.
    chance: how likely that is.
    groups: how many there were.
    since, last: its first and its last step.
    """

    tag: str | None
    outcome: Outcome
    chance: float
    groups: int
    since: int
    last: int

    @property
    def is_alarm(self) -> bool:
        """Whether somebody should look at it."""
        return self.chance <= ALARM

    def with_step(self, chance: float, groups: int, step: int) -> Self:
        """Return the streak with one more step; it begins again where it raised no alarm at once."""
        if self.chance > ALARM and step - self.since >= AT_ONCE:
            return self._replace(chance=chance, groups=groups, since=step, last=step)
        return self._replace(chance=self.chance * chance, groups=self.groups + groups, last=step)


def encoded(streaks: Sequence[Streak]) -> list[list[object]]:
    """Return plain values. Inverse of `decoded`."""
    return [list(streak) for streak in streaks]


def decoded(values: list[list[object]]) -> tuple[Streak, ...]:
    """Return the streaks that were encoded.

    Raises:
        TypeError, ValueError: these are none.
    """
    return tuple(_streak_of(*one) for one in values)


def _streak_of(*fields: object) -> Streak:
    tag, outcome, chance, groups, since, last = fields
    if not isinstance(tag, str | None):
        raise TypeError(f"{fields} is no streak")
    if outcome == "failed" or outcome == "succeeded":  # noqa: PLR1714 - so mypy knows the type
        counts = as_count(groups), as_count(since), as_count(last)
        return Streak(tag, outcome, as_number(chance), *counts)
    raise ValueError(f"{outcome!r} is no outcome")
