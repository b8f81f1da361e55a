"""How many of a selection's tasks must carry each tag: numbers of tasks, and shares of the selection."""

import math
from collections.abc import Mapping

import numpy as np

Quotas = Mapping[str, int | float]  # an int is a number of tasks, a float in (0, 1] a share of the selection

SLACK = 1e-6  # by which shares may add up to more than 1, as numbers that a program computed do
DIGITS = 9  # of a number of tasks; 0.29 * 100 is 28.999999999999996


def wanted_in_all(quotas: Quotas, count: int) -> float:
    """Return how many of `count` tasks the quotas ask for, on average."""
    shares = math.fsum(quota for quota in quotas.values() if isinstance(quota, float))
    return sum(quota for quota in quotas.values() if isinstance(quota, int)) + shares * count


def fit(quotas: Quotas, count: int) -> bool:
    """Say whether so many tasks can keep the quotas."""
    return wanted_in_all(quotas, count) <= count * (1 + SLACK)


def in_tasks(quotas: Quotas, count: int, rng: np.random.Generator) -> dict[str, int]:
    """Return the quotas as numbers of tasks.

    A share x of n tasks becomes floor(n x) or ceil(n x), whose expectation is n x exactly: over many selections each
    tag gets its share, also where every selection has room for one of them only. One draw decides for all (systematic
    sampling: W. G. Madow, Annals of Mathematical Statistics 20, 1949), so that the sum, too, is rounded up or down.

    Args:
        quotas: such as `fit`.
        count: n.
        rng: is drawn from only where there are shares.
    """
    wanted = {tag: quota for tag, quota in quotas.items() if isinstance(quota, int)}
    shares = {tag: quota for tag, quota in quotas.items() if isinstance(quota, float)}
    if not shares:
        return wanted
    room = count - sum(wanted.values())
    ends = np.minimum(np.round(np.cumsum([0.0, *shares.values()]) * count, DIGITS), room)
    lots = np.diff(np.ceil(ends - rng.random())).astype(int)
    of_shares = dict(zip(shares, lots.tolist(), strict=True))
    return {tag: wanted.get(tag, of_shares.get(tag, 0)) for tag in quotas}
