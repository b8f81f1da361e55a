"""Selection strategies: functions with one signature that select among eligible tasks.

`thompson` is BOTS (Shen et al., arXiv:2510.26374); `pass` has a file of its own. The others are baselines, and
Trinity-RFT's built-in strategies.
"""

from collections.abc import Callable

import numpy as np

from bots_service.core.arrays import Counts, Floats, Tasks, first_places
from bots_service.core.draw.by_cell import draw_by_cell
from bots_service.core.draw.context import DrawContext, Strategy, StrategyResult, undrawn
from bots_service.core.draw.draws import TINY
from bots_service.core.draw.eligible import Candidates, Eligible
from bots_service.core.draw.passes import walk_pass
from bots_service.core.draw.spaced import spaced
from bots_service.core.draw.thompson import draw_nearest
from bots_service.core.run_settings import StrategyName


def thompson(eligible: Eligible, count: int, context: DrawContext) -> StrategyResult:
    """Sample p_k of every task from the belief; select the smallest |p_k - target|, nearest first."""
    by_cell = draw_by_cell(eligible, count, target=context.settings.target, rng=context.rng)
    if by_cell is not None:
        return StrategyResult(by_cell.owners.astype(np.int32), by_cell.values)
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


def mean(eligible: Eligible, count: int, context: DrawContext) -> StrategyResult:
    """Select the smallest |mean_k - target|, nearest first; ties are broken at random.

    All members of a profile tie: without randomness, the same few would be selected every time.
    """
    candidates = eligible.candidates()
    sizes, distances = _sizes_and_distances(candidates, context.settings.target)
    by_distance = np.argsort(distances, kind="stable")
    within = np.cumsum(sizes[by_distance])
    last = distances[by_distance[np.searchsorted(within, count)]]
    nearer, tied = np.flatnonzero(distances < last), np.flatnonzero(distances == last)
    taken = np.zeros(len(sizes), np.int64)
    taken[nearer] = sizes[nearer]
    taken[tied] = context.rng.multivariate_hypergeometric(sizes[tied], count - int(taken.sum()), method="marginals")
    return undrawn(eligible.tasks_of(np.repeat(by_distance, taken[by_distance]), candidates, context.rng))


def softmax(eligible: Eligible, count: int, context: DrawContext) -> StrategyResult:
    """Sample without replacement with weights exp(-|mean_k - target| / temperature).

    Gumbel-top-k (Kool et al. 2019): the largest sums of log-weight and Gumbel noise. Equivalently, the first arrivals
    if task k arrives after an exponential time of rate weight_k. The i-th of a profile's m equal members arrives
    Exp(1) / (m - i + 1) after the previous one, so at most `count` of them need a time.
    """
    candidates = eligible.candidates()
    sizes, distances = _sizes_and_distances(candidates, context.settings.target)
    runners = np.minimum(sizes, count)
    owners = np.repeat(np.arange(len(sizes)), runners)
    before = np.cumsum(runners) - runners
    rank = np.arange(len(owners)) - before[owners]
    waits = context.rng.standard_exponential(len(owners)) / (sizes[owners] - rank)
    total = np.cumsum(waits)
    # The first arrival of a profile uses its own waiting time: a difference of two long sums would lose digits.
    times = np.where(rank == 0, waits, total - (total - waits)[before[owners]])
    keys = np.log(np.maximum(times, TINY)) + distances[owners] / context.settings.temperature
    first = np.argpartition(keys, count - 1)[:count]
    return undrawn(eligible.tasks_of(owners[first[np.argsort(keys[first])]], candidates, context.rng))


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
    "mean": mean,
    "softmax": softmax,
    "uniform": uniform,
    "easy_to_hard": easy_to_hard,
    "shuffle": shuffle,
    "pass": walk_pass,
    "spaced": spaced,
}

IN_ORDER: tuple[StrategyName, ...] = ("shuffle", "easy_to_hard")  # these continue where the tasks reported so far end
BY_DIFFICULTY: tuple[StrategyName, ...] = ("easy_to_hard",)  # later tasks are harder, by intent


def _sizes_and_distances(candidates: Candidates, target: float) -> tuple[Counts, Floats]:
    """[G + T] number of tasks, and distance of their posterior mean from the target: profiles, then listed tasks."""
    means = candidates.profile_beliefs.joined(candidates.own_beliefs).mean
    sizes = np.concatenate([candidates.profile_members, np.ones(len(candidates.own_tasks), np.int64)])
    return sizes, np.abs(means - target)


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
