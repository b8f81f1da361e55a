"""What reports and folds can produce at all: imported states and receipts must lie within it, or they may not fold."""

import numpy as np

from bots_service.core.attempts import are_possible
from bots_service.core.belief.capability import LARGEST_CAPABILITY
from bots_service.core.belief.protocol import PoolSize
from bots_service.core.checks import LARGEST_SUM, ROUNDING, are_within, is_within
from bots_service.core.evidence import MAX_TRIALS, Costs, Evidence
from bots_service.core.groups import MOST_PARTS
from bots_service.core.mix_account import is_possible_account
from bots_service.core.receipt import Receipt
from bots_service.core.state import RunState

LARGEST_LOG_LOSS = 1e3  # a mean is at least about 1e-19: a prior of 1e-3 compared with all rollouts; -log(1e-19) is 44
LARGEST_STEP = 2**31 - 1  # as steps are stored


def is_possible_evidence(evidence: Evidence, *, tasks: int, most_trials: float = MAX_TRIALS) -> bool:
    """Return whether reports could have brought this evidence.

    Args:
        evidence: any.
        tasks: how many the pool has.
        most_trials: of one piece.
    """
    successes, failures = evidence.successes, evidence.failures
    if not len(evidence.tasks) == len(successes) == len(failures) == len(evidence.effective):
        return False
    with np.errstate(over="ignore"):
        trials = successes + failures
    is_known = (evidence.tasks >= 0) & (evidence.tasks < tasks)
    # False for NaN, too.
    is_counted = (successes >= 0) & (failures >= 0) & (trials > 0) & (trials <= most_trials * (1 + ROUNDING))
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
        and is_within(step.rollouts, LARGEST_SUM)
        and (step.rollouts > 0) == (step.reported > 0)
        and is_within(step.successes, step.rollouts)
        and ((step.mean_pass_rate is None) == (step.reported == 0))
        and is_within(step.mean_pass_rate, 1.0)
        and is_within(None if receipt.capability is None else abs(receipt.capability), LARGEST_CAPABILITY)
        and ((receipt.closed and step.reported > 0) or predicted == (None, None, None))
        and receipt.costs.are_possible()
        and is_within(receipt.brier, 1.0)
        and is_within(receipt.log_loss, LARGEST_LOG_LOSS)
        and all(is_within(each, step.rollouts) for each in sums)
        and receipt.new_tasks <= step.reported
        and (not receipt.closed or receipt.new_tasks <= receipt.distinct_tasks)
    )


def is_possible_state(state: RunState, size: PoolSize) -> bool:
    """Return whether folding a journal could have led to this state, as far as the state alone tells.

    Args:
        state: any that can be decoded.
        size: of the pool.
    """
    waiting, totals = state.open_step, state.totals
    numbers = (state.epoch, totals.reported, totals.late, totals.expired, waiting.late, waiting.expired)
    kinds = totals.effective + totals.all_solved + totals.none_solved
    return (
        state.step <= LARGEST_STEP
        and max(numbers) <= LARGEST_SUM
        and kinds == totals.reported
        and is_within(totals.rollouts, LARGEST_SUM)
        and (totals.rollouts > 0) == (totals.reported > 0)
        and is_within(totals.successes, totals.rollouts)
        and Costs(totals.tokens, totals.seconds).are_possible()
        and waiting.costs.are_possible()
        and state.belief.is_possible(state.settings, state.step, size)
        and are_possible(
            state.attempts,
            state.step,
            size.tasks,
            reported=totals.reported,
            distinct=totals.distinct,
            rollouts=totals.rollouts,
            successes=totals.successes,
        )
        and state.walks.are_possible(size.tasks)
        and is_possible_account(state.mix)
        and state.guard.is_possible(state.step)
        # A group in parts may bring more rollouts than it said.
        and is_possible_evidence(waiting.evidence, tasks=size.tasks, most_trials=MAX_TRIALS * MOST_PARTS)
        and state.unfinished.are_possible(size.tasks)
        and state.aborts.are_possible(state.step, size.tasks)
        and are_within(waiting.made_at, max(0, state.step - state.belief.longest_lag), state.step)
    )
