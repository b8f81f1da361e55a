"""Receipts: the results of folding entries, and their sums over a run. They follow from the journal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bots_service.core.arrays import Floats, ordered_sum
from bots_service.core.evidence import NO_COSTS, Costs, Evidence, OpenStep
from bots_service.core.pool import Pool
from bots_service.core.run_settings import StrategyName

BELOW_ONE = float(np.nextafter(1.0, 0.0))
BINS = 10  # of a calibration: predictions in [0, 0.1), [0.1, 0.2), and so on


@dataclass(frozen=True, slots=True)
class Tally:
    """Sums of evidence, with each task counted once.

    reported: tasks; effective: those whose group of rollouts has a gradient: its rewards differ.
    all_solved, none_solved: the others, by whether their success rate is at least 0.5.
    rollouts, successes: summed over the tasks; fractional rewards give fractional successes.
    mean_pass_rate: mean over tasks of successes / rollouts; None without tasks.
    """

    reported: int
    effective: int
    all_solved: int
    none_solved: int
    rollouts: float
    successes: float
    mean_pass_rate: float | None


@dataclass(frozen=True, slots=True)
class Calibration:
    """Predicted and observed success, by bins of the predicted success probability: [BINS] sums over rollouts.

    rollouts: how many there were; predicted: of the predicted success rates; solved: successes.
    """

    rollouts: tuple[float, ...]
    predicted: tuple[float, ...]
    solved: tuple[float, ...]


def added(several: Sequence[Calibration]) -> Calibration:
    """Return the sums of several."""
    rows = [(one.rollouts, one.predicted, one.solved) for one in several]
    sums = np.array(rows).sum(axis=0) if rows else np.zeros((3, BINS))
    return Calibration(*(tuple(each) for each in sums.tolist()))


@dataclass(frozen=True, slots=True)
class StepSums:
    """Sums over some closed steps: reported and effective tasks, and rollouts."""

    reported: int = 0
    effective: int = 0
    rollouts: float = 0.0

    @property
    def effective_task_ratio(self) -> float | None:
        """The share of the reported tasks that were effective; None without any."""
        return self.effective / self.reported if self.reported else None

    def less(self, earlier: "StepSums") -> "StepSums":
        """Return the sums without those over the first of the steps."""
        reported, effective = self.reported - earlier.reported, self.effective - earlier.effective
        return StepSums(reported, effective, self.rollouts - earlier.rollouts)


NO_SUMS = StepSums()


@dataclass(frozen=True, slots=True)
class TagCounts:
    """What a step showed of the tasks of one tag. pass_rates: the sum over these tasks of successes / rollouts."""

    reported: int = 0
    effective: int = 0
    rollouts: float = 0.0
    pass_rates: float = 0.0

    @property
    def mean_pass_rate(self) -> float | None:
        """The mean over the tasks of the share of successful rollouts; None without tasks."""
        return self.pass_rates / self.reported if self.reported else None

    def plus(self, other: "TagCounts") -> "TagCounts":
        """Return the sums of both."""
        reported, effective = self.reported + other.reported, self.effective + other.effective
        return TagCounts(reported, effective, self.rollouts + other.rollouts, self.pass_rates + other.pass_rates)


NO_COUNTS = TagCounts()


def counts_by_tag(pool: Pool, evidence: Evidence) -> dict[str, TagCounts]:
    """Return what a step showed of each of the pool's watched tags that its tasks carry.

    Args:
        pool: the tasks.
        evidence: of the step, each task once.
    """
    names = pool.watched_tags.names
    if not names or not len(evidence):
        return {}
    rollouts = evidence.successes + evidence.failures
    columns = np.array([np.ones(len(evidence)), evidence.effective, rollouts, evidence.successes / rollouts])
    sums = (pool.watched_tags.carried_by(evidence.tasks) @ columns.T).tolist()
    return {
        tag: TagCounts(int(reported), int(effective), trials, rates)
        for tag, (reported, effective, trials, rates) in zip(names, sums, strict=True)
        if reported
    }


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of folding one entry.

    step: closed steps after the entry.
    closed: whether the entry closed a step; `tally` describes that step, otherwise the open step so far.
    late: outcomes of this entry for a step that had already closed; they have less weight.
    expired: outcomes too late to count.
    new_tasks: those of the tally's tasks that no step before had reported.
    distinct_tasks: how many different tasks the closed steps reported so far; totals: sums over these steps.
    strategy: in use after the entry.
    tags: what the tally's step showed by tag; empty where it is open.
    costs: what the rollouts of the tally's step cost.
    brier, log_loss: error of the belief's mean as a prediction of each rollout, made before the step was folded.
    calibration: the same predictions, by bins.
    """

    seq: int
    epoch: int
    step: int
    closed: bool
    tally: Tally
    capability: float | None
    late: int = 0
    expired: int = 0
    brier: float | None = None
    log_loss: float | None = None
    calibration: Calibration | None = None
    new_tasks: int = 0
    distinct_tasks: int = 0
    totals: StepSums = NO_SUMS
    strategy: StrategyName = "pass"
    tags: Mapping[str, TagCounts] = field(default_factory=dict)
    costs: Costs = NO_COSTS


def tally(evidence: Evidence) -> Tally:
    """Return the sums of the evidence.

    Args:
        evidence: each task once.
    """
    solved, failed = evidence.successes, evidence.failures
    trials = solved + failed
    reported, effective = len(evidence), int(np.count_nonzero(evidence.effective))
    all_solved = int(np.count_nonzero(~evidence.effective & (solved >= failed)))
    return Tally(
        reported=reported,
        effective=effective,
        all_solved=all_solved,
        none_solved=reported - effective - all_solved,
        rollouts=ordered_sum(trials),
        successes=ordered_sum(solved),
        mean_pass_rate=ordered_sum(solved / trials) / reported if reported else None,
    )


def prediction_error(means: Floats, evidence: Evidence) -> tuple[float | None, float | None]:
    """Return the Brier score and the log loss, each a mean over rollouts, of the predicted success probabilities.

    Args:
        means: [B] predictions, in (0, 1].
        evidence: [B] observed outcomes.
    """
    if len(evidence) == 0:
        return None, None
    solved, failed = evidence.successes, evidence.failures
    rollouts = ordered_sum(solved + failed)
    # Clip away from 1, or a failure would make the log loss infinite.
    means = np.minimum(means, BELOW_ONE)
    brier = ordered_sum(solved * (1 - means) ** 2 + failed * means**2) / rollouts
    log_loss = -ordered_sum(solved * np.log(means) + failed * np.log1p(-means)) / rollouts
    return brier, log_loss


def calibration(means: Floats, evidence: Evidence) -> Calibration | None:
    """Return predicted and observed success by bins; None if nothing was observed.

    Args:
        means: [B] predictions, in (0, 1].
        evidence: [B] observed outcomes.
    """
    if len(evidence) == 0:
        return None
    bins = np.minimum((means * BINS).astype(np.int64), BINS - 1)
    rollouts = evidence.successes + evidence.failures
    sums = (rollouts, means * rollouts, evidence.successes)
    return Calibration(*(tuple(np.bincount(bins, each, BINS).tolist()) for each in sums))


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all closed steps; a task counts once in each step that reported it.

    distinct: how many different tasks they reported.
    tokens, seconds: what their rollouts cost, as far as reports said it.
    """

    reported: int = 0
    effective: int = 0
    all_solved: int = 0
    none_solved: int = 0
    rollouts: float = 0.0
    successes: float = 0.0
    late: int = 0
    expired: int = 0
    distinct: int = 0
    tokens: float = 0.0
    seconds: float = 0.0

    @property
    def sums(self) -> StepSums:
        """What is compared with other runs and with uniform sampling."""
        return StepSums(self.reported, self.effective, self.rollouts)

    @property
    def rollouts_per_task(self) -> float | None:
        """How many rollouts a reported task had, on average; None before the first."""
        return self.rollouts / self.reported if self.reported else None

    def plus(self, step: Tally, open_step: OpenStep, new_tasks: int) -> "Totals":
        """Return the totals with one more closed step, of whose tasks so many were never reported before."""
        return Totals(
            reported=self.reported + step.reported,
            effective=self.effective + step.effective,
            all_solved=self.all_solved + step.all_solved,
            none_solved=self.none_solved + step.none_solved,
            rollouts=self.rollouts + step.rollouts,
            successes=self.successes + step.successes,
            late=self.late + open_step.late,
            expired=self.expired + open_step.expired,
            distinct=self.distinct + new_tasks,
            tokens=self.tokens + open_step.costs.tokens,
            seconds=self.seconds + open_step.costs.seconds,
        )
