"""Ways to choose tasks among the eligible, all called alike.

`thompson` is BOTS (Shen et al., arXiv:2510.26374). The others are what users compare it with, and Trinity-RFT's own.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bots_service.core.arrays import Counts, Floats, Tasks, first_places
from bots_service.core.draw.draws import TINY
from bots_service.core.draw.eligible import Candidates, Eligible
from bots_service.core.draw.thompson import draw_nearest
from bots_service.core.run_settings import RunSettings, StrategyName


@dataclass(frozen=True, slots=True)
class DrawContext:
    """What a strategy may look at besides the eligible tasks and their belief.

    settings: of the run; a parameter of a strategy is one of them.
    position: how many tasks were reported so far: where `shuffle` and `easy_to_hard` go on.
    rng: the only source of random numbers.
    """

    settings: RunSettings
    position: int
    rng: np.random.Generator


@dataclass(frozen=True, slots=True)
class StrategyResult:
    """tasks: [n] distinct; draws: [n] the success probability drawn for each, NaN where nothing was drawn."""

    tasks: Tasks
    draws: Floats


# Called with at least one task wanted, and no more than are eligible.
Strategy = Callable[[Eligible, int, DrawContext], StrategyResult]


def thompson(eligible: Eligible, count: int, context: DrawContext) -> StrategyResult:
    """Draw p_k of every task from the belief; take the smallest |p_k - target|, nearest first."""
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
    """Take the smallest |mean_k - target|, nearest first; among equals, at random.

    Members of a profile are equal, so without the chance the same few of them would be chosen again and again.
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
    return _undrawn(eligible.tasks_of(np.repeat(by_distance, taken[by_distance]), candidates, context.rng))


def softmax(eligible: Eligible, count: int, context: DrawContext) -> StrategyResult:
    """Sample without replacement with weights exp(-|mean_k - target| / temperature).

    Gumbel-top-k (Kool et al. 2019): the largest log-weight plus Gumbel noise, which are the first arrivals of a race in
    which task k arrives after an exponential time of rate weight_k. Of the m equal members of a profile the i-th
    arrives Exp(1) / (m - i + 1) after the one before, so at most `count` of them need a time.
    """
    candidates = eligible.candidates()
    sizes, distances = _sizes_and_distances(candidates, context.settings.target)
    runners = np.minimum(sizes, count)
    owners = np.repeat(np.arange(len(sizes)), runners)
    before = np.cumsum(runners) - runners
    rank = np.arange(len(owners)) - before[owners]
    waits = context.rng.standard_exponential(len(owners)) / (sizes[owners] - rank)
    total = np.cumsum(waits)
    # The first of a profile takes its own wait: the difference of two long sums would lose its digits.
    times = np.where(rank == 0, waits, total - (total - waits)[before[owners]])
    keys = np.log(np.maximum(times, TINY)) + distances[owners] / context.settings.temperature
    first = np.argpartition(keys, count - 1)[:count]
    return _undrawn(eligible.tasks_of(owners[first[np.argsort(keys[first])]], candidates, context.rng))


def uniform(eligible: Eligible, count: int, context: DrawContext) -> StrategyResult:
    """Take any tasks, each set of them equally likely."""
    return _undrawn(eligible.at_random(count, context.rng))


def shuffle(eligible: Eligible, count: int, context: DrawContext) -> StrategyResult:
    """Walk through the part in an order that the seed and the number of the pass fix, from where reports have come."""
    return _walk(eligible, count, context.position, lambda turn: eligible.part.shuffled(context.settings.seed, turn))


def easy_to_hard(eligible: Eligible, count: int, context: DrawContext) -> StrategyResult:
    """Walk through the part by falling reference pass rates, unknown ones last, from where reports have come."""
    return _walk(eligible, count, context.position, lambda _turn: eligible.part.easy_to_hard)


STRATEGIES: dict[StrategyName, Strategy] = {
    "thompson": thompson,
    "mean": mean,
    "softmax": softmax,
    "uniform": uniform,
    "easy_to_hard": easy_to_hard,
    "shuffle": shuffle,
}


def _sizes_and_distances(candidates: Candidates, target: float) -> tuple[Counts, Floats]:
    """[G + T] how many tasks there are, and how far their posterior mean is from the target: profiles, then own."""
    means = candidates.profile_beliefs.joined(candidates.own_beliefs).mean
    sizes = np.concatenate([candidates.profile_members, np.ones(len(candidates.own_tasks), np.int64)])
    return sizes, np.abs(means - target)


def _walk(eligible: Eligible, count: int, position: int, order_of: Callable[[int], Tasks]) -> StrategyResult:
    """Take the next eligible tasks from `position` on, going on with the next pass where this one ends."""
    turn, start = divmod(position, len(eligible.part))
    # Each barred task is met at most once a pass, so this stretch holds enough unless the pass ends.
    longest = count + len(eligible.barred)
    ahead = order_of(turn)[start : start + longest]
    if start + longest > len(eligible.part):
        # What this pass still had may be met again in the next: look that much farther.
        ahead = np.concatenate([ahead, order_of(turn + 1)[: longest + len(ahead)]])
    places = np.searchsorted(eligible.barred, ahead)
    barred = np.append(eligible.barred, -1)[places] == ahead
    allowed = ahead[~barred]
    return _undrawn(allowed[first_places(allowed)[:count]])


def _undrawn(tasks: Tasks) -> StrategyResult:
    return StrategyResult(tasks, np.full(len(tasks), np.nan))
