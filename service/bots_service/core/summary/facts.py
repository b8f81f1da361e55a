"""What follows from a run's journal and says how the run does, whatever time it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bots_service.core.coverage import coverage, narrow_advice
from bots_service.core.draw.strategies import BY_DIFFICULTY
from bots_service.core.guard.guard import VerifierAlarm
from bots_service.core.outlook import BINS, Outlook, advice, outlook, rollouts_of
from bots_service.core.pool import Pool
from bots_service.core.receipt import Calibration, Receipt, added
from bots_service.core.state import RunState
from bots_service.core.summary.tags import (
    GroupCounts,
    StepEvidence,
    carried_by,
    evidence_of_steps,
    group_counts,
    listed_tags,
)

EASY, HARD = 0.9, 0.1  # expected success probabilities from and up to which a task seldom teaches


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What follows from a run's journal.

    step: the number of its last step.
    alarms: those of the verifier guard that stand.
    groups: what became of the groups of rollouts in the last steps, by tag; None stands for all tasks.
    narrow: why few tasks take most visits, and what to do; None if they don't.
    calibration: predictions and observations of the last steps; group_size: mean rollouts of a reported task there.
    expected: the effective task ratio that uniform sampling is expected to reach now; None without available tasks.
    easy, hard: shares of the tasks whose expected success probability is at least EASY, and below HARD.
    aborting: how many tasks always abort; met: how many were aborted or tried.
    has_references: whether tasks have pass rates of reference models.
    hints: what is known to be wrong with the run's settings and references, a sentence or two each.
    """

    step: int
    alarms: tuple[VerifierAlarm, ...]
    groups: Mapping[str | None, GroupCounts]
    narrow: tuple[str, str] | None
    calibration: Calibration
    group_size: float
    expected: float | None
    easy: float
    hard: float
    aborting: int
    met: int
    has_references: bool
    hints: tuple[str, ...]


def facts_of(state: RunState, pool: Pool, evidence: Sequence[StepEvidence], receipts: Sequence[Receipt]) -> RunFacts:
    """Return what follows from a run's state and from its last steps.

    Args:
        state: the run's.
        pool: its tasks.
        evidence: of the last steps, for what became of the groups.
        receipts: of the last steps, for the calibration.
    """
    spread, expected = coverage(state, pool), outlook(state.belief, pool, rollouts_of(state))
    todo = narrow_advice(state.settings)
    easy, hard = (0.0, 0.0) if expected is None else _ends_of(expected)
    reported = sum(receipt.tally.reported for receipt in receipts)
    return RunFacts(
        step=state.step,
        alarms=state.guard.alarms,
        groups=_groups_of(state, pool, list(evidence)),
        narrow=None if spread.reason is None else (spread.reason.removesuffix(f" {todo}"), todo),
        calibration=added([receipt.calibration for receipt in receipts if receipt.calibration is not None]),
        group_size=sum(receipt.tally.rollouts for receipt in receipts) / reported if reported else 1.0,
        expected=None if expected is None else expected.effective_task_ratio,
        easy=easy,
        hard=hard,
        aborting=len(state.aborts.always_aborted),
        met=state.totals.distinct + state.attempts.never_tried(state.aborts.tasks),
        has_references=pool.has_references,
        hints=advice(state, pool),
    )


def _groups_of(state: RunState, pool: Pool, evidence: list[StepEvidence]) -> dict[str | None, GroupCounts]:
    """Return what became of the groups of rollouts, of the whole run first.

    A run that goes from easy tasks to hard ones and begins again with the easy ones falls by intent.
    """
    if state.settings.strategy in BY_DIFFICULTY:
        return {}
    whole = evidence_of_steps(evidence)
    found: dict[str | None, GroupCounts] = {None: group_counts(evidence)}
    for tag, _ in listed_tags(pool):
        found[tag] = group_counts(evidence, carried_by(pool, tag, whole))
    return found


def _ends_of(expected: Outlook) -> tuple[float, float]:
    """Return the shares of the tasks that are solved nearly always, and nearly never."""
    shares = expected.distribution
    return sum(shares[round(EASY * BINS) :]), sum(shares[: round(HARD * BINS)])
