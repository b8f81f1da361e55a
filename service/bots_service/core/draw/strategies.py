"""Selection strategies: functions with one signature that select among eligible tasks.

`thompson` is BOTS (Shen et al., arXiv:2510.26374); `pass` has a file of its own. The others are baselines.
"""

from collections.abc import Callable

import numpy as np

from bots_service.core.arrays import Tasks, first_places
from bots_service.core.draw.context import DrawContext, Strategy, StrategyResult, undrawn
from bots_service.core.draw.eligible import Eligible
from bots_service.core.draw.passes import walk_pass
from bots_service.core.draw.thompson import draw_nearest
from bots_service.core.run_settings import StrategyName


def thompson(eligible: Eligible, count: int, context: DrawContext) -> StrategyResult:
    """Sample p_k of every task from the belief; select the smallest |p_k - target|, nearest first."""
    candidates = eligible.candidates()
    drawn = draw_nearest(
        candidates.own_beliefs,
        candidates.profile_beliefs,
        candidates.profile_members,
        count=count,
        target=context.settings.target,
        rng=context.rng,
    )
    return StrategyResult(eligible.tasks_of(drawn.owners, candidates, context.rng), drawn.values)


def uniform(eligible: Eligible, count: int, context: DrawContext) -> StrategyResult:
    """Select a uniform sample."""
    return undrawn(eligible.at_random(count, context.rng))


def shuffle(eligible: Eligible, count: int, context: DrawContext) -> StrategyResult:
    """Walk through the part in an order given by the seed and the number of the pass, from the context's position."""
    return _walk(eligible, count, context.position, lambda turn: eligible.part.shuffled(context.settings.seed, turn))


def easy_to_hard(eligible: Eligible, count: int, context: DrawContext) -> StrategyResult:
    """Walk through the part by descending reference pass rates, unknown ones last, from the context's position."""
    return _walk(eligible, count, context.position, lambda _turn: eligible.part.easy_to_hard)


STRATEGIES: dict[StrategyName, Strategy] = {
    "thompson": thompson,
    "uniform": uniform,
    "easy_to_hard": easy_to_hard,
    "shuffle": shuffle,
    "pass": walk_pass,
}

IN_ORDER: tuple[StrategyName, ...] = ("shuffle", "easy_to_hard")  # these continue where the tasks reported so far end
BY_DIFFICULTY: tuple[StrategyName, ...] = ("easy_to_hard",)  # later tasks are harder, by intent


def _walk(eligible: Eligible, count: int, position: int, order_of: Callable[[int], Tasks]) -> StrategyResult:
    """Select the next eligible tasks from `position` on; at the end of a pass, continue with the next one."""
    turn, start = divmod(position, len(eligible.part))
    # Each excluded task occurs at most once per pass, so this stretch is long enough unless the pass ends.
    longest = count + len(eligible.excluded)
    ahead = order_of(turn)[start : start + longest]
    if start + longest > len(eligible.part):
        # Tasks of this pass may occur again in the next one: look that much farther.
        ahead = np.concatenate([ahead, order_of(turn + 1)[: longest + len(ahead)]])
    places = np.searchsorted(eligible.excluded, ahead)
    excluded = np.append(eligible.excluded, -1)[places] == ahead
    allowed = ahead[~excluded]
    return undrawn(allowed[first_places(allowed)[:count]])
