"""The verifier guard: rewards that turn wrong at once raise an alarm.

A streak is a run of steps in which all groups of a tag failed, or all were solved. So a verifier shows that broke, or a
checkpoint that was not loaded. How likely a streak is follows from what the belief before each step says of those very
tasks, and from nothing else: a run that turns to hopeless tasks is no broken verifier. Groups count and not rollouts,
for the rollouts of one task succeed or fail together.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Literal, Self

import numpy as np

from bots_service.core.arrays import Counts, Flags, Floats, Tasks, contained
from bots_service.core.attempts import AttemptRows, Attempts
from bots_service.core.belief.distributions import Distributions
from bots_service.core.evidence import Evidence
from bots_service.core.pool import Pool

Outcome = Literal["failed", "succeeded"]
OUTCOMES: tuple[Outcome, ...] = ("failed", "succeeded")

FEWEST = 2  # groups with which a tag's first streak begins: by one group a step no alarm would come at once
# That groups do so by chance.
ALARM = 1e-9
# Of one group, whatever the belief says. A task may change without a fault, so an alarm takes at least seven groups.
LEAST_CHANCE = 0.05
LIKELY = 0.5  # what is likelier tells nothing: over many steps even a slight error of the belief would add up
AT_ONCE = 20  # steps: what took longer to look wrong did not turn so at once
LARGEST_GROUP = 256  # rollouts; of larger groups so many count


@dataclass(frozen=True, slots=True)
class Streak:
    """Rewards that turned all equal at once: steps without groups don't end it.

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

    def with_step(self, chance: float, groups: int, step: int) -> Self:
        """Return the streak with one more step; it begins again where it raised no alarm at once."""
        if self.chance > ALARM and step - self.since_step >= AT_ONCE:
            return replace(self, chance=chance, groups=groups, since_step=step, last_step=step)
        return replace(self, chance=self.chance * chance, groups=self.groups + groups, last_step=step)


@dataclass(frozen=True, slots=True)
class SeenGroups:
    """The groups of rollouts of a step, [n], and what was known of their tasks before it.

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
        """Return how likely groups at some places have an outcome, [n], 1 at all others and where nobody can know.

        A group counts where an earlier step showed its task otherwise; using `with_drawn`, for all groups of a step
        together, also where a pass drew a task that was never tried from the whole pool at random. Also return in which
        step each task was last tried, [n], 0 where it never was.
        """
        rows, found = self.attempts.of(self.evidence.tasks), np.ones(len(places))
        counts = rows.successes > 0.0 if outcome == "failed" else rows.successes < rows.rollouts
        if with_drawn:
            counts |= (rows.visits == 0) & contained(rows.tasks, (self.drawn,))
        known = np.flatnonzero(places & counts)
        found[known] = _telling(self._alike(known, outcome))
        return found, rows.last_step

    def drawn_first(self, chosen: Flags) -> Counts:
        """Return which of the chosen groups ([n]) are of tasks that the first pass drew and nobody tried before."""
        tasks = self.evidence.tasks
        is_first = self.in_first_pass & contained(tasks, (self.drawn,)) & (self.attempts.of(tasks).visits == 0)
        return np.flatnonzero(chosen & is_first)

    def chances_of_drawn(self, places: Counts, outcome: Outcome, tried: AttemptRows, since: int) -> Floats:
        """Return how likely groups of a tag that the first pass drew have an outcome, [m], one after the other.

        The pass walks in an order at random. So the tag's tasks that it met before the streak (`tried`, before step
        `since`) say by the rule of succession how many have the outcome by their nature; the belief counts where it
        finds that likelier.
        """
        same = tried.successes == 0.0 if outcome == "failed" else tried.successes >= tried.rollouts
        others = np.count_nonzero(~same & (tried.last_step < since))
        numbers = np.count_nonzero(same) + 1.0 + np.arange(len(places))
        return _telling(np.maximum(numbers / (numbers + others + 1.0), self._alike(places, outcome)))

    def _alike(self, places: Counts, outcome: Outcome) -> Floats:
        """Return how likely the belief finds it that the groups at [m] places have an outcome."""
        sizes = np.rint((self.evidence.successes + self.evidence.failures).take(places))
        believed = self.believed.at(places)
        mirrored = believed if outcome == "failed" else believed.mirrored()
        return mirrored.all_fail(np.clip(sizes, 1, LARGEST_GROUP).astype(np.int64))


def _telling(chances: Floats) -> Floats:
    """Return chances of single groups as they count: none for less than LEAST_CHANCE, the likely ones for nothing."""
    return np.where(chances > LIKELY, 1.0, np.maximum(chances, LEAST_CHANCE))


@dataclass(frozen=True, slots=True)
class VerifierGuard:
    """The streaks of a run that continue, by tag, the whole run's first; of each at most one."""

    streaks: tuple[Streak, ...] = ()

    @property
    def alarms(self) -> tuple[Streak, ...]:
        """The streaks that somebody should look at, that of the whole run first."""
        return tuple(streak for streak in self.streaks if streak.chance <= ALARM)

    def after_step(self, pool: Pool, seen: SeenGroups, *, step: int) -> "VerifierGuard":
        """Return the guard after a step."""
        if not (self.streaks or pool.watched_tags.names) and seen.evidence.effective.any():  # as nearly always
            return self
        failed, succeeded = (seen.places(outcome) for outcome in OUTCOMES)
        if not len(failed) or not (self.streaks or failed.any() or succeeded.any()):
            return self
        names: tuple[str | None, ...] = (None, *pool.watched_tags.names)
        carries = np.vstack([np.ones(len(failed), bool), pool.watched_tags.carried_by(seen.evidence.tasks)])
        sizes = dict(zip(names, carries.sum(axis=1).tolist(), strict=True))
        tags = {one.tag for one in self.streaks}
        found = {one.tag: one for one in self.streaks if not sizes.get(one.tag)}  # without groups here they go on
        for outcome, places in zip(OUTCOMES, (failed, succeeded), strict=True):
            ongoing = {one.tag: one for one in self.streaks if one.outcome == outcome}
            is_alike: Flags = np.logical_not((carries & ~places).any(axis=1))
            alike = [
                (tag, carries[row])
                for row, tag in enumerate(names)
                if is_alike[row] and sizes[tag] >= (1 if tag in tags else FEWEST)
            ]
            found |= {one.tag: one for one in _grown(alike, outcome, ongoing, pool, seen, step)}
        return VerifierGuard(tuple(sorted(found.values(), key=lambda one: (one.tag is not None, one.tag or ""))))


NO_ALARMS = VerifierGuard()


def _grown(
    alike: list[tuple[str | None, Flags]],
    outcome: Outcome,
    ongoing: dict[str | None, Streak],
    pool: Pool,
    seen: SeenGroups,
    step: int,
) -> Iterator[Streak]:
    """Yield the streaks of tags, all of whose groups had one outcome; a new one only where that tells something.

    alike: those tags, None for the whole run, and [n] which groups they have; ongoing: streaks of this outcome so far.
    """
    if not alike:
        return
    places = seen.places(outcome)
    of_tags = seen.chances(places, outcome)
    for tag, own in alike:
        streak = ongoing.get(tag, Streak(tag, outcome, step, step, 0, 1.0))
        chances, last = of_tags if tag is not None else seen.chances(places, outcome, with_drawn=True)
        # A task that changed may come again and again: within a streak it counts once.
        chance = prod(chances[own & (last < streak.since_step)].tolist())
        if tag is not None and len(drawn := seen.drawn_first(own)):
            known = seen.attempts.whole
            tried = known.where(contained(known.tasks, (pool.tags[tag],)))
            chance *= prod(seen.chances_of_drawn(drawn, outcome, tried, streak.since_step).tolist())
        if tag in ongoing or chance < 1.0:
            yield streak.with_step(chance, int(np.count_nonzero(own)), step)
