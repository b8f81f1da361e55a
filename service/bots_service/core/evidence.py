"""Evidence: what rollouts showed about tasks, checked before it may enter a journal; and what they cost."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import add
from typing import NamedTuple

import numpy as np

from bots_service.core.arrays import Counts, Flags, Floats, Table, Tasks, first_places, frozen, is_first

# Rollouts of one task in one outcome, as counts or as rewards; far above any group size. It bounds how far one wrong
# outcome can pull the mean that a learned `rollouts_per_task` is, and so what is implied for tasks never tried.
MAX_TRIALS = 4096
SPREAD = 1e-9  # of the reward range: smaller differences are rounding, and give no gradient


@dataclass(frozen=True, slots=True)
class Evidence(Table):
    """What groups of rollouts showed, one group of one task in each place; a task may occur more than once.

    successes, failures: [n] real counts >= 0, their sum > 0.
    effective: [n] whether the group has a gradient: its rewards differ.
    """

    successes: Floats
    failures: Floats
    effective: Flags


_NO_COUNTS = frozen(np.empty(0))
NO_EVIDENCE = Evidence(frozen(np.empty(0, np.int32)), _NO_COUNTS, _NO_COUNTS, frozen(np.empty(0, bool)))


def counts_of_rewards(rewards: list[float], reward_range: tuple[float, float]) -> tuple[float, float]:
    """Return sums of rewards, mapped linearly to [0, 1], and of what they lack; ValueError names one out of range."""
    low, high = reward_range
    if not rewards:
        raise ValueError("no rewards")
    for place, reward in enumerate(rewards):
        if not low <= reward <= high:  # false for NaN
            raise ValueError(
                f"reward {reward} at {place} is outside [{low:g}, {high:g}]; report successes and trials"
                " (Outcome.counts), next to rewards of any range; or, if the lowest reward means failed and the highest"
                " solved, set the run's reward_range to these"
            )
    successes = math.fsum((reward - low) / (high - low) for reward in rewards)
    return successes, math.fsum((high - reward) / (high - low) for reward in rewards)


def counts_of_trials(successes: float, trials: float) -> tuple[float, float]:
    """Return successes and failures; ValueError, with the counts, where they can't be true."""
    if not 0 < trials <= MAX_TRIALS:
        raise ValueError(f"{trials} trials; a task can have more than 0 and at most {MAX_TRIALS} in one outcome")
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes of {trials} trials")
    return float(successes), float(trials - successes)


def rewards_differ(rewards: list[float], reward_range: tuple[float, float]) -> bool:
    """Return whether a group of rollouts has a gradient: its rewards differ by more than SPREAD of the range's width.

    They may leave the range, which only scales them. ValueError names one that is not finite.
    """
    for place, reward in enumerate(rewards):
        if not math.isfinite(reward):
            raise ValueError(f"reward {reward} at {place} is not a finite number")
    low, high = reward_range
    return max(rewards) - min(rewards) > SPREAD * (high - low)


def sum_by_task(evidence: Evidence) -> Evidence:
    """Return the evidence with each task once, ascending, in new arrays; sums are exact, so that order leaves no trace.

    A task is effective if one of its parts is, or if the success rates of its parts differ.
    """
    by_task = evidence.tasks.argsort(kind="stable")
    tasks, effective = evidence.tasks.take(by_task), evidence.effective.take(by_task)
    ordered = Evidence(tasks, evidence.successes.take(by_task), evidence.failures.take(by_task), effective).frozen()
    is_new = is_first(ordered.tasks)
    if np.count_nonzero(is_new) == len(ordered):
        return ordered
    starts = np.flatnonzero(is_new)
    rates = ordered.successes / (ordered.successes + ordered.failures)
    differ = np.maximum.reduceat(rates, starts) - np.minimum.reduceat(rates, starts) > SPREAD
    return Evidence(
        ordered.tasks[starts],
        _sum_groups(ordered.successes, starts),
        _sum_groups(ordered.failures, starts),
        np.logical_or.reduceat(ordered.effective, starts) | differ,
    ).frozen()


def _sum_groups(counts: Floats, starts: Counts) -> Floats:
    ends = [*starts[1:].tolist(), len(counts)]
    values = counts.tolist()
    return np.array([math.fsum(values[start:end]) for start, end in zip(starts.tolist(), ends, strict=True)])


MOST_SPENT = 1e11  # by one outcome: 3,000 accelerator years


class Costs(NamedTuple):
    """What some rollouts cost, with those that were aborted or came too late to count; 0 where no outcome said it."""

    tokens: float = 0.0
    seconds: float = 0.0


NO_COSTS = Costs()


@dataclass(frozen=True, slots=True)
class DatedEvidence(Evidence):
    """Evidence, and when it was asked for. made_at: [n] the step at which each group's task was selected."""

    made_at: Tasks


@dataclass(frozen=True, slots=True)
class OpenStep:
    """Evidence that waits for its step to close, in the order in which it came; tasks may repeat.

    late: how many of these groups came after their step had closed; expired: how many too late to count.
    costs: of the reports that came since the last step closed.
    """

    evidence: DatedEvidence
    late: int = 0
    expired: int = 0
    costs: Costs = NO_COSTS

    @property
    def tasks(self) -> int:
        """How many distinct tasks have evidence here."""
        return int(np.count_nonzero(is_first(np.sort(self.evidence.tasks))))

    def with_report(self, evidence: Evidence, made_at: int, *, late: bool) -> "OpenStep":
        """Return the open step with the evidence of one report, all of it selected at one step."""
        if len(evidence) == 0:
            return self
        steps = np.empty(len(evidence), np.int32)
        steps[:] = made_at
        whole = DatedEvidence.joined([self.evidence, DatedEvidence(*(*evidence, frozen(steps)))])
        return OpenStep(whole, self.late + late * len(evidence), self.expired, self.costs)

    def with_costs(self, costs: Costs) -> "OpenStep":
        """Return the open step with what one more report cost."""
        return self if costs == NO_COSTS else replace(self, costs=Costs(*map(add, self.costs, costs)))

    def first(self, count: int) -> tuple["OpenStep", "OpenStep"]:
        """Return the groups of the tasks that came first, so many of them, and those after them."""
        begins = first_places(self.evidence.tasks)
        if count >= len(begins):
            return self, NOTHING_OPEN
        is_first = np.arange(len(self.evidence)) < begins[count]
        return replace(self, evidence=self.evidence.where(is_first)), OpenStep(self.evidence.where(~is_first))

    def not_before(self, step: int) -> "OpenStep":
        """Return the open step with nothing selected before this step: what is older counts as selected then."""
        if not len(self.evidence):
            return self
        made_at = frozen(np.maximum(self.evidence.made_at, step))
        return replace(self, evidence=replace(self.evidence, made_at=made_at))

    def by_step(self, whole: Evidence) -> Iterator[tuple[int, Evidence]]:
        """Yield, oldest first, each step of selection with its evidence, each task once. whole: all of it."""
        made_at = self.evidence.made_at
        steps = made_at[is_first(made_at)].tolist()
        for step in sorted(set(steps)):
            yield step, whole if len(steps) == 1 else sum_by_task(self.evidence.where(made_at == step))


NOTHING_OPEN = OpenStep(DatedEvidence(*(*NO_EVIDENCE, NO_EVIDENCE.tasks)))


@dataclass(frozen=True, slots=True)
class ClosingStep:
    """The evidence of a step that closes.

    number: of the step, 1 for the first.
    batches: lag and evidence (each task once, ascending), the largest lag first. Lag 0 came on time; evidence of lag n
        was selected n steps before, and should have come with the step that closed as the n-th last.
    whole: all of it together, each task once, ascending.
    rollouts: m, the rollouts of a task in this run; 0.0 if none were ever reported.
    """

    number: int
    batches: tuple[tuple[int, Evidence], ...]
    whole: Evidence
    rollouts: float
