"""What rollouts cost, as answers tell it: sums with the means that follow from them, and what a run saved."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bots_service.core.arrays import Floats
from bots_service.core.costs import CostSum, CostSums

CostSource = Literal["measured", "estimated"]
WIDTH = 6  # numbers of a row of costs


@dataclass(frozen=True, slots=True)
class Cost:
    """What some rollouts cost in one resource.

    spent: tokens or accelerator seconds, with those of rollouts that were aborted or came too late to count.
    rollouts: how many reported rollouts this covers: those whose outcome said what they cost.
    effective: how many effective tasks this covers, each once a step.
    per_rollout: spent for each rollout that it covers; null without any.
    per_effective: spent for each effective task that it covers; null without any.
    """

    spent: float
    rollouts: float
    effective: int
    per_rollout: float | None
    per_effective: float | None


def cost_of(found: CostSum) -> Cost | None:
    """Return the answer for a sum; None where no outcome said what it cost."""
    if not (found.spent or found.rollouts):
        return None
    return Cost(found.spent, found.rollouts, found.effective, found.per_rollout, found.per_effective)


@dataclass(frozen=True, slots=True)
class Saving:
    """What a run saved in one resource, compared with uniform sampling that finds as many effective tasks.

    saved: how much more uniform sampling needs; null where the gain has no factor.
    spent: what the run spent in the steps compared.
    rollouts: how many rollouts of these steps this covers; the others said no cost, and nothing is assumed of them.
    source: where the cost of a rollout of uniform sampling comes from: measured by the baseline, or estimated: the same
        as of the run's own rollouts.
    """

    saved: float | None
    spent: float
    rollouts: float
    source: CostSource


def saving(factor: float | None, own: CostSum, uniform: CostSum) -> Saving | None:
    """Return what a run saved; None where its outcomes said no cost.

    Args:
        factor: the rollouts that uniform sampling needs for as many effective tasks, as a multiple of the run's.
        own: what the run spent.
        uniform: what the baseline spent; nothing without one.
    """
    if own.per_rollout is None:
        return None
    price, source = uniform.per_rollout, "measured"
    if price is None:
        price, source = own.per_rollout, "estimated"
    saved = None if factor is None else own.rollouts * factor * price - own.spent
    return Saving(saved, own.spent, own.rollouts, source)  # type: ignore[arg-type]  # one of the two


def sums_of_row(row: Floats) -> CostSums:
    """Return sums from [WIDTH]: of each resource what was spent, the rollouts, and the effective tasks."""
    return CostSums(*(CostSum(spent, rollouts, int(found)) for spent, rollouts, found in row.reshape(2, 3).tolist()))


def no_rows(steps: int = 0) -> Floats:
    """Return [steps, WIDTH] rows of steps without costs."""
    return np.zeros((steps, WIDTH))
