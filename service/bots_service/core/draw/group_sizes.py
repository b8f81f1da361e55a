"""How many rollouts the groups of a selection have: as usual, or shared out of a budget."""

from bots_service.core.arrays import Floats, Tasks, frozen
from bots_service.core.belief.protocol import Distributions
from bots_service.core.draw.budget import MOST_GAINS, chances_of, most_by_default, shared_out
from bots_service.core.draw.selection import SelectRequest
from bots_service.errors import Flaw


def sized_groups(request: SelectRequest, believed: Distributions, group_size: float) -> tuple[Tasks | None, Floats]:
    """Return how many rollouts each task gets, None where the request has no budget, and P(effective) of each group.

    Args:
        request: a possible one.
        believed: [n] of the selected tasks.
        group_size: rollouts of a task where there is no budget.
    """
    if request.rollouts_budget is None:
        return None, believed.effective(group_size)
    gains = believed.gains(most_rollouts(request))
    rollouts = shared_out(gains, request.rollouts_budget, least=request.min_rollouts)
    return frozen(rollouts), chances_of(gains, rollouts)


def most_rollouts(request: SelectRequest) -> int:
    """Return the largest number of rollouts that a task of this request can get; it has a budget."""
    budget, count, least = request.rollouts_budget or 0, request.task_count, request.min_rollouts
    most = most_by_default(budget, count) if request.max_rollouts is None else request.max_rollouts
    return max(min(most, budget - (count - 1) * least), least)


def gains_looked_at(request: SelectRequest) -> int:
    """Return how many numbers the sharing out of a request's budget looks at."""
    return 0 if request.rollouts_budget is None else request.task_count * (most_rollouts(request) - 1)


def budget_flaws(request: SelectRequest) -> list[Flaw]:
    """Return what is impossible about a request's numbers of rollouts."""
    budget, least, most = request.rollouts_budget, request.min_rollouts, request.max_rollouts
    if budget is None:
        return []
    count = request.task_count
    if most is not None and least > most:
        what = f"{least} is larger than max_rollouts, {most}; swap them"
        return [Flaw(("body", "min_rollouts"), what)]
    if budget < count * least:
        what = f"{budget} rollouts are too few for {count} tasks with at least {least} each; budget {count * least}"
        return [Flaw(("body", "rollouts_budget"), what)]
    if most is not None and budget > count * most:
        what = f"{budget} rollouts are too many for {count} tasks with at most {most} each; budget {count * most}"
        return [Flaw(("body", "rollouts_budget"), what)]
    if gains_looked_at(request) > MOST_GAINS:
        what = f"{count} tasks of up to {most_rollouts(request)} rollouts are more than {MOST_GAINS} choices"
        return [Flaw(("body", "max_rollouts"), f"{what}; lower max_rollouts")]
    return []
