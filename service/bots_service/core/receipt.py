"""Receipts: the results of folding entries. They follow from the journal, so that they can be computed again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bots_service.core.arrays import Bits, Floats, Tasks, frozen, ordered_sum, tag_bits
from bots_service.core.evidence import NO_COSTS, Costs, Evidence

MOST_TAGS = 16  # with metrics of their own: each costs Prometheus four series per run
OTHER = "(other)"


@dataclass(frozen=True, slots=True)
class MetricTags:
    """The tags of a pool for metrics: the most frequent ones, and OTHER.

    names: [T] by descending number of tasks; OTHER is last, if there are further tags.
    carried: [N] one number a task; its bit t is set where the task carries tag t, or for OTHER one of those tags.
    """

    names: tuple[str, ...]
    carried: Bits


@dataclass(frozen=True, slots=True)
class TagSums:
    """Sums over the tasks that carry a tag, [T] each; a task with several tags counts under each of them.

    names: [T] of the tags.
    reported: tasks; effective: those whose group of rollouts has a gradient: its rewards differ.
    rollouts, solved: summed over the tasks; fractional rewards give fractional sums.
    """

    names: tuple[str, ...]
    reported: Floats
    effective: Floats
    rollouts: Floats
    solved: Floats


def metric_tags(tags: Mapping[str, Tasks], size: int) -> MetricTags:
    """Return the tags with most tasks, and all others as one.

    Args:
        tags: for each tag, the tasks that carry it. One that is called like OTHER is one of the others.
        size: how many tasks there are (N).
    """
    by_tasks = sorted(tags, key=lambda tag: (tag == OTHER, -len(tags[tag]), tag))
    names = [tag for tag in by_tasks[:MOST_TAGS] if tag != OTHER]
    carriers = [tags[tag] for tag in names]
    if others := by_tasks[len(names) :]:
        names.append(OTHER)
        carriers.append(np.concatenate([tags[tag] for tag in others]))
    return MetricTags(tuple(names), frozen(tag_bits(carriers, size)))


def sums_by_tag(tags: MetricTags, evidence: Evidence) -> TagSums:
    """Return the sums of the evidence by tag.

    Args:
        tags: the pool's tags for metrics.
        evidence: each task once.
    """
    carries = (tags.carried[evidence.tasks, None] >> np.arange(len(tags.names), dtype=np.uint32)) & 1  # [B, T]
    solved, failed = evidence.successes, evidence.failures
    of_tasks = np.stack([np.ones(len(evidence)), evidence.effective, solved + failed, solved])
    return TagSums(tags.names, *frozen(of_tasks @ carries.astype(np.float64)))


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
class Receipt:
    """The result of folding one entry.

    step: closed steps after the entry.
    closed: whether the entry closed a step; `tally` describes that step, otherwise the open step so far.
    late: outcomes of this entry for a step that had already closed; they have less weight.
    expired: outcomes too late to count.
    new_tasks: those of the tally's tasks that no step before had reported.
    distinct_tasks: how many different tasks the closed steps reported so far.
    costs: what the rollouts of the tally's step cost.
    brier, log_loss: error of the belief's mean as a prediction of each rollout, made before the step was folded.
    calibration: the same predictions, by bins.
    tags: the closed step by tag; None where no task has tags, and in a receipt from SQL, which does not keep it.
    skipped: why the fold skipped the entry, a change that its state did not allow; None for all others.
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
    costs: Costs = NO_COSTS
    tags: TagSums | None = field(default=None, compare=False)
    skipped: str | None = None


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
