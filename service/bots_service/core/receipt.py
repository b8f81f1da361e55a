"""Receipts: the results of folding entries, and their sums over a run. They follow from the journal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import add, attrgetter
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from bots_service.core.arrays import Floats, ordered_sum
from bots_service.core.evidence import Evidence, OpenStep
from bots_service.core.pool import Pool
from bots_service.core.run_settings import StrategyName

BELOW_ONE = float(np.nextafter(1.0, 0.0))
BINS = 10  # of a calibration: predictions in [0, 0.1), [0.1, 0.2), and so on


class Calibration(NamedTuple):
    """Predicted and observed success, by bins of the predicted success probability: [BINS] sums over rollouts.

    rollouts: how many there were; predicted: of the predicted success rates; solved: successes.
    """

    rollouts: tuple[float, ...]
    predicted: tuple[float, ...]
    solved: tuple[float, ...]


def added(several: Sequence[Calibration]) -> Calibration:
    """Return the sums of several."""
    sums = np.array(several).sum(axis=0) if several else np.zeros((3, BINS))
    return Calibration(*(tuple(each) for each in sums.tolist()))


class TagCounts(NamedTuple):
    """What a step showed of the tasks of one tag; as in `Totals`."""

    reported: int = 0
    effective: int = 0
    rollouts: float = 0.0
    successes: float = 0.0

    @property
    def success_rate(self) -> float | None:
        """The share of successful rollouts; None without any."""
        return self.successes / self.rollouts if self.rollouts else None


def counts_by_tag(pool: Pool, evidence: Evidence) -> dict[str, TagCounts]:
    """Return what a step's evidence, each task once, showed of each of the pool's watched tags that its tasks carry."""
    names = pool.watched_tags.names
    if not names or not len(evidence):
        return {}
    rollouts = evidence.successes + evidence.failures
    columns = np.array([np.ones(len(evidence)), evidence.effective, rollouts, evidence.successes])
    sums = (pool.watched_tags.carried_by(evidence.tasks) @ columns.T).tolist()
    return {
        tag: TagCounts(int(reported), int(effective), trials, solved)
        for tag, (reported, effective, trials, solved) in zip(names, sums, strict=True)
        if reported
    }


class Receipt(Struct, frozen=True, kw_only=True):
    """The result of folding one entry; it stands in the entry's row, field by field.

    step: closed steps after the entry.
    closed: whether the entry closed a step; then what follows is about that step, otherwise about the open step so far.
    strategy: in use after the entry.
    reported: tasks, each counted once; effective: those whose group of rollouts has a gradient: its rewards differ.
    all_solved: those of the others whose success rate is at least 0.5.
    rollouts, successes: summed over the tasks; fractional rewards give fractional successes.
    late: outcomes of this entry for a step that had already closed; they have less weight.
    expired: outcomes too late to count.
    brier, log_loss: error of the belief's mean as a prediction of each rollout, made before the step's evidence.
    calibration: the same predictions, by bins.
    tags: what the step showed by tag; empty where it is open.
    new_tasks: those of the tasks that no step before had reported.
    distinct_tasks: how many different tasks the closed steps reported so far.
    tokens, seconds: what the step's rollouts cost.
    total_reported, total_effective, total_rollouts: sums over all closed steps.
    """

    seq: int
    epoch: int
    step: int
    closed: bool
    strategy: StrategyName = "pass"
    reported: int = 0
    effective: int = 0
    all_solved: int = 0
    rollouts: float = 0.0
    successes: float = 0.0
    capability: float | None = None
    late: int = 0
    expired: int = 0
    brier: float | None = None
    log_loss: float | None = None
    calibration: Calibration | None = None
    tags: Mapping[str, TagCounts] = {}
    new_tasks: int = 0
    distinct_tasks: int = 0
    tokens: float = 0.0
    seconds: float = 0.0
    total_reported: int = 0
    total_effective: int = 0
    total_rollouts: float = 0.0

    @property
    def effective_task_ratio(self) -> float | None:
        """The share of the reported tasks that were effective; None without any."""
        return self.effective / self.reported if self.reported else None

    @property
    def success_rate(self) -> float | None:
        """The share of successful rollouts; None without any."""
        return self.successes / self.rollouts if self.rollouts else None


def errors_of(means: Floats, evidence: Evidence) -> tuple[float | None, float | None]:
    """Return Brier score and log loss, means over rollouts, of predicted success probabilities, [B] in (0, 1]."""
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
    """Return predictions, [B] in (0, 1], and observed success by bins; None if nothing was observed."""
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
    def rollouts_per_task(self) -> float | None:
        """How many rollouts a reported task had, on average; None before the first."""
        return self.rollouts / self.reported if self.reported else None

    def plus(self, step: "Totals") -> "Totals":
        """Return the totals with one more closed step."""
        return Totals(*map(add, _SUMS(self), _SUMS(step)))


_SUMS = attrgetter(*Totals.__slots__)


def totals_of(whole: Evidence, step: OpenStep, new_tasks: int) -> Totals:
    """Return the sums over one step. whole: its evidence, each task once; new_tasks: reported by no step before."""
    solved, failed = whole.successes, whole.failures
    reported, effective = len(whole), int(np.count_nonzero(whole.effective))
    all_solved = int(np.count_nonzero(~whole.effective & (solved >= failed)))
    return Totals(
        reported=reported,
        effective=effective,
        all_solved=all_solved,
        none_solved=reported - effective - all_solved,
        rollouts=ordered_sum(solved + failed),
        successes=ordered_sum(solved),
        late=step.late,
        expired=step.expired,
        distinct=new_tasks,
        tokens=step.costs.tokens,
        seconds=step.costs.seconds,
    )
