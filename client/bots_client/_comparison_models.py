"""Responses about the comparison of a run's belief with others, as frozen dataclasses.

Unknown fields of a response are ignored. Fields with a default may be missing from it.
"""

from dataclasses import dataclass
from typing import ClassVar

from bots_client._tables import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorDifference:
    """How much larger an error is than the run's own: the mean over the rollouts, and its 95 % interval.

    If both bounds are below 0, the belief is certainly better.
    """

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedBelief:
    """One belief of a comparison and the errors of its predictions, over the same outcomes as all others.

    name: of the belief; "this run" is the run itself.
    role: run, tracker, bots (BOTS with its default settings), paper (BOTS as in the paper), or grid (BOTS with other
        values of forgetting and implicit_weight).
    forgetting, implicit_weight, capability: settings of the belief bots; None for others.
    references, tags, predictions: whether it uses those of the dataset; False shows what they are worth, no run can be
        set so.
    log_loss, brier: mean errors over the rollouts; smaller is better.
    calibration_error: mean difference between predicted and observed success rate, by tenths of the prediction.
    calibration_slope: rise of the observed success rate per rise of the prediction; 1 is ideal, below 1 the predictions
        are too extreme.
    log_loss_difference, brier_difference: to the run's own; None for the run itself and with too few steps.
    """

    name: str
    role: str
    belief: str
    forgetting: float | None = None
    implicit_weight: float | None = None
    capability: str | None = None
    references: bool = True
    tags: bool = True
    predictions: bool = True
    log_loss: float
    brier: float
    calibration_error: float
    calibration_slope: float | None = None
    log_loss_difference: ErrorDifference | None = None
    brier_difference: ErrorDifference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeliefComparison(Table):
    """What each belief would have predicted before each step of a run, compared with the step's outcomes.

    begins_after: the step after which it begins; 0: with the run's first step.
    restarted: whether the run had a belief there already; all beliefs, its own too, begin fresh.
    first_step, last_step: the first and the last step with outcomes; steps, rollouts: number of them.
    recommended: name of the belief to use; None: keep the run's own.
    advice: what to do, in one sentence.
    remarks: whether references and tags help, where that is certain.
    beliefs: the run itself first, the others by rising log loss.
    """

    _rows: ClassVar[str] = "beliefs"
    begins_after: int = 0
    restarted: bool = False
    first_step: int = 0
    last_step: int = 0
    steps: int
    rollouts: float = 0.0
    recommended: str | None = None
    advice: str
    remarks: tuple[str, ...] = ()
    beliefs: tuple[ComparedBelief, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonProgress:
    """A comparison, or its progress while the service computes it.

    seq: the last journal entry in it; pass it to the next call while `comparison` is None.
    folded, entries: number of journal entries computed so far, and in all; entries is 0 while it waits for another
        comparison.
    """

    seq: int
    folded: int = 0
    entries: int = 0
    comparison: BeliefComparison | None = None
