"""How many tasks are enough for so many effective groups."""

from collections.abc import Callable
from math import ceil

import numpy as np
from msgspec.structs import replace

from bots_service.core.arrays import Floats, Tasks
from bots_service.core.draw.selection import LARGEST_COUNT, SelectRequest
from bots_service.core.forecasts import Forecasts, Sums
from bots_service.errors import Flaw

MOST_DRAWS = 12  # of different counts; three or four are usual
USUAL_DRAWS, USUAL_COUNT = 4, 2  # and tasks for each wanted effective group
MOST_TIMES = 8  # tasks for each wanted effective group, where a request says no max_count; uniform choice may need four


def enough_tasks(
    chances: Callable[[int], Floats],
    wanted: int,
    *,
    confidence: float,
    forecasts: Forecasts,
    limit: int,
    luck: float,
) -> int:
    """Return how many tasks give so many effective groups with this probability; the limit if none do.

    One task more or less changes the probability by some per cent. So it is the count just above or the one just below,
    each so often that the probability is exact on average.

    Args:
        chances: P(effective) of each task of a selection of so many.
        wanted: effective groups, at least 1.
        confidence: in (0, 1).
        forecasts: of the run.
        limit: the most tasks, at least 1.
        luck: a random number in [0, 1).
    """
    too_few, enough, count = (0, 0.0), (limit + 1, 1.0), min(ceil(1.5 * wanted), limit)
    for _ in range(MOST_DRAWS):
        sums = Sums.of(forecasts.corrected(chances(count)))
        reached = float(forecasts.reached(wanted, sums))
        if reached < confidence:
            too_few = (count, reached)
        else:
            enough = (count, reached)
        if enough[0] - too_few[0] == 1:
            break
        shares: Floats = np.arange(too_few[0] + 1.0, enough[0]) / count
        alike = Sums(shares * sums.mean, shares * sums.variance)  # if other tasks are as these are
        place = int(np.count_nonzero(forecasts.reached(wanted, alike) < confidence))
        count = too_few[0] + 1 + min(place, len(shares) - 1)
    above = (confidence - too_few[1]) / (enough[1] - too_few[1])
    return min(enough[0] if luck < above or not too_few[0] else too_few[0], limit)


def counted(
    request: SelectRequest,
    select: Callable[[SelectRequest], Tasks],
    chances: Callable[[Tasks], Floats],
    *,
    forecasts: Forecasts,
    available: int,
    luck: float,
) -> SelectRequest:
    """Return the request with a count in place of `want_effective`.

    Args:
        request: wants effective groups.
        select: the tasks of a request with a count; the same request gives the same tasks.
        chances: P(effective) of tasks.
        forecasts: of the run.
        available: tasks that may be selected.
        luck: a random number in [0, 1).
    """
    count = enough_tasks(
        lambda count: chances(select(replace(request, count=count))),
        request.want_effective or 0,
        confidence=request.confidence,
        forecasts=forecasts,
        limit=max(min(most_tasks(request), available), 1),
        luck=luck,
    )
    return replace(request, count=count)


def most_tasks(request: SelectRequest) -> int:
    """Return the most tasks that a request for effective groups may get."""
    return request.max_count or min(MOST_TIMES * (request.want_effective or 0), LARGEST_COUNT)


def count_flaws(request: SelectRequest) -> list[Flaw]:
    """Return what is impossible about the number of tasks that a request asks for."""
    wanted = request.want_effective
    if wanted is None:
        return [] if request.count is not None else [Flaw(("body", "count"), "give either count or want_effective")]
    if request.count is not None:
        return [Flaw(("body", "want_effective"), "give either count or want_effective, not both")]
    if request.rollouts_budget is not None:
        return [Flaw(("body", "rollouts_budget"), "a budget needs count: with want_effective it is not known before")]
    if most_tasks(request) < wanted:
        return [Flaw(("body", "max_count"), f"{request.max_count} tasks can't give {wanted} effective groups")]
    return [
        Flaw(("body", "quotas", tag), f"{quota} is a number of tasks, which needs count; give a share, as in 0.25")
        for tag, quota in request.quotas.items()
        if isinstance(quota, int)
    ]
