"""What reports and folds can produce at all: imported states and receipts must lie within it, or they may not fold."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bots_service.core.belief.capability import Capability
from bots_service.core.belief.tried import Rows
from bots_service.core.evidence import MAX_TRIALS, Evidence
from bots_service.core.receipt import Receipt
from bots_service.core.state import RunState

ROUNDING = 1e-9  # relative: sums and differences of counts may be off by less
LARGEST_SUM = 1e18  # rollouts, all in all: no service sees as many, and sums of their squares are still numbers
LARGEST_CAPABILITY = 1e6  # a position along the references; what they can be divided by keeps it far below
LARGEST_LOG_LOSS = 1e3  # a mean is at least about 1e-19: a prior of 1e-3 beside all rollouts; -log(1e-19) is 44
LARGEST_STEP = 2**31 - 1  # as steps are stored


def is_possible_evidence(evidence: Evidence, *, tasks: int) -> bool:
    """Return whether reports could have brought this evidence.

    Args:
        evidence: any.
        tasks: how many the pool has.
    """
    successes, failures = evidence.successes, evidence.failures
    if not len(evidence.tasks) == len(successes) == len(failures) == len(evidence.effective):
        return False
    with np.errstate(over="ignore"):
        trials = successes + failures
    is_known = (evidence.tasks >= 0) & (evidence.tasks < tasks)
    # False for NaN, too.
    is_counted = (successes >= 0) & (failures >= 0) & (trials > 0) & (trials <= MAX_TRIALS * (1 + ROUNDING))
    return bool((is_known & is_counted).all())


def is_possible_receipt(receipt: Receipt) -> bool:
    """Return whether folding an entry could have done this, as far as the receipt alone tells."""
    step = receipt.tally
    kinds = step.effective + step.all_solved + step.none_solved
    predicted = (receipt.brier, receipt.log_loss, receipt.calibration)
    shown = receipt.calibration
    sums = () if shown is None else (*shown.rollouts, *shown.predicted, *shown.solved)
    return (
        kinds == step.reported
        and _within(step.rollouts, LARGEST_SUM)
        and (step.rollouts > 0) == (step.reported > 0)
        and _within(step.successes, step.rollouts)
        and ((step.mean_pass_rate is None) == (step.reported == 0))
        and _within(step.mean_pass_rate, 1.0)
        and _within(None if receipt.capability is None else abs(receipt.capability), LARGEST_CAPABILITY)
        and ((receipt.closed and step.reported > 0) or predicted == (None, None, None))
        and _within(receipt.brier, 1.0)
        and _within(receipt.log_loss, LARGEST_LOG_LOSS)
        and all(_within(each, step.rollouts) for each in sums)
    )


def is_possible_state(state: RunState, *, tasks: int, profiles: int, models: int) -> bool:
    """Return whether folding a journal could have led to this state, as far as the state alone tells.

    Args:
        state: any that can be decoded.
        tasks, profiles, models: how many the pool has; models: of reference.
    """
    belief, waiting, totals = state.belief, state.open_step, state.totals
    numbers = (state.epoch, totals.reported, totals.late, totals.expired, waiting.late, waiting.expired)
    kinds = totals.effective + totals.all_solved + totals.none_solved
    return (
        state.step <= LARGEST_STEP
        and max(numbers) <= LARGEST_SUM
        and kinds == totals.reported
        and _within(totals.rollouts, LARGEST_SUM)
        and (totals.rollouts > 0) == (totals.reported > 0)
        and _within(totals.successes, totals.rollouts)
        and belief.prior == state.settings.prior
        and belief.implied.shape[1] <= profiles
        and _all_within(belief.implied, 0.0, LARGEST_SUM)
        and _is_possible_capability(belief.estimate, models)
        and _within(belief.tried.scale, 1.0)
        and all(
            _are_possible_rows(rows, belief.tried.scale, state.step, tasks)
            for rows in (belief.tried.settled, belief.tried.recent)
        )
        and _is_possible_past(state)
        and is_possible_evidence(waiting.evidence, tasks=tasks)
        and _all_within(waiting.made_at, max(0, state.step - len(belief.past)), state.step)
    )


def _are_possible_rows(rows: Rows, scale: float, step: int, tasks: int) -> bool:
    is_sorted = _all_within(rows.tasks, 0, tasks - 1) and bool((np.diff(rows.tasks) > 0).all())
    is_past = _all_within(rows.last_step, 0, step)
    with np.errstate(invalid="ignore"):
        counts = rows.counts * scale
    return is_sorted and is_past and _all_within(counts, -LARGEST_SUM, LARGEST_SUM)


def _is_possible_capability(estimate: Capability, models: int) -> bool:
    squares, products = estimate.sums
    return (
        len(squares) in (0, min(models, max(models - 1, 1)))  # one reference has a neighbour that solves nothing
        and _all_within(squares, 0.0, LARGEST_SUM)
        and _all_within(products, -LARGEST_SUM, LARGEST_SUM)
        and _within(None if estimate.value is None else abs(estimate.value), LARGEST_CAPABILITY)
    )


def _is_possible_past(state: RunState) -> bool:
    past = state.belief.past
    capability = past.capability[~np.isnan(past.capability)]  # NaN where there was none yet
    return (
        len(past) <= state.step
        and _all_within(np.abs(capability), 0.0, LARGEST_CAPABILITY)
        and _all_within(past.booked, 0.0, LARGEST_SUM)
        and _all_within(past.kept, 0.0, 1.0)
    )


def _within(number: float | None, most: float) -> bool:
    """Return whether the number, if there is one, lies in [0, most]; NaN doesn't."""
    return number is None or 0.0 <= number <= most * (1 + ROUNDING)


def _all_within(numbers: NDArray[Any], least: float, most: float) -> bool:
    return bool(((numbers >= least) & (numbers <= most)).all())
