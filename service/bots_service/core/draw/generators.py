"""One selection from generators: tasks that the trainer makes at each draw, from the generator's id and a seed.

Nothing is used up, so a generator may be selected many times in one selection and while earlier draws are in flight.
No lease, walk or account has to be kept: each draw follows from the state and its random numbers alone.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bots_service.core.arrays import Counts, Floats, Tasks, contained, without
from bots_service.core.belief.protocol import Belief
from bots_service.core.draw.context import DrawContext, StrategyResult, undrawn
from bots_service.core.draw.passes import chances_of
from bots_service.core.draw.selection import (
    DrawnTasks,
    NamedTasks,
    SelectRequest,
    TagQuota,
    before,
    first_tasks,
    tag_quotas,
    too_small,
)
from bots_service.core.draw.thompson import draw_nearest
from bots_service.core.mix import shares_of
from bots_service.core.permutation import key_of, keys_of
from bots_service.core.pool import Pool
from bots_service.core.run_settings import StrategyName
from bots_service.errors import Flaw, InvalidSelectionError, PoolTooSmallError

SEED_BITS = 53  # a JSON number keeps so many, in every language

Seeds = NDArray[np.int64]


def seeds_of(count: int, *place: int) -> Seeds:
    """Return [count] a seed for each task of a selection, in [0, 2^53).

    Args:
        count: of tasks.
        place: the run's seed and where the selection stands in the run: no other selection has the same.
    """
    found = keys_of(np.arange(count), key_of("generated", *place))
    return np.asarray(found >> np.uint64(64 - SEED_BITS), np.int64)


def select_generators(
    belief: Belief, pool: Pool, request: SelectRequest, context: DrawContext, *, named: NamedTasks
) -> DrawnTasks:
    """Return exactly `request.count` draws of generators; one may be drawn many times.

    Those that rest after aborts are drawn only where no others are left. A mix holds for each selection on its own, on
    average.

    Args:
        belief: the run's belief.
        pool: its generators.
        request: a valid request: its tags exist.
        context: settings and random numbers of the run.
        named: the generators that the request names.

    Raises:
        PoolTooSmallError: no generator is available.
        InvalidSelectionError: the run's strategy is none for generators.
    """
    strategy = STRATEGIES_OF_GENERATORS.get(context.settings.strategy)
    if strategy is None:
        flaw = Flaw(("body", "run"), not_for_generators(context.settings.strategy))
        raise InvalidSelectionError("invalid selection", (flaw,))
    first = first_tasks(pool, request, named)
    count, chosen = request.task_count - len(first), [undrawn(first)]
    mixed = _mixed(pool, request, count, context, excluded=named.excluded)
    for quota in tag_quotas(mixed, count):
        available = _available(pool, request, quota, excluded=named.excluded)
        if not len(available):
            part = len(quota.part(pool, request))
            raise PoolTooSmallError(too_small(request, tasks=part, unavailable=part))
        preferred = _preferred(available, context.aborts.resting(context.step))
        chosen.append(strategy(belief, pool, preferred, quota.count, context))
    return DrawnTasks(np.concatenate([one.tasks for one in chosen]), np.concatenate([one.draws for one in chosen]), 0)


def not_for_generators(strategy: StrategyName) -> str:
    """Return why a run of generators can't have this strategy, and what to do."""
    return f"{strategy} needs tasks that are used up; for generators take {', '.join(STRATEGIES_OF_GENERATORS)}"


def _mixed(pool: Pool, request: SelectRequest, count: int, context: DrawContext, *, excluded: Tasks) -> dict[str, int]:
    """Return how many draws of each tag of the run's mix; empty without a mix.

    Nobody leases generators, so nothing tells what is in flight: the shares hold for each selection, on average.
    """
    shares = shares_of(context.settings.mix)
    quotas = [TagQuota(tag, count, before(tag, shares)) for tag in shares if tag in pool.tags]
    tags = [str(quota.tag) for quota in quotas if len(_available(pool, request, quota, excluded=excluded))]
    weights = np.array([shares[tag] for tag in tags])
    return dict(zip(tags, _shared_out(weights, count, context.rng).tolist(), strict=True)) if tags else {}


def _available(pool: Pool, request: SelectRequest, quota: TagQuota, *, excluded: Tasks) -> Tasks:
    """Return, sorted, the generators that can fill a quota."""
    part = quota.part(pool, request)
    return without(np.sort(part.members.order), part.keep(excluded))


def _preferred(available: Tasks, unwanted: Tasks) -> Tasks:
    """Return the generators that are not unwanted; all, where there are no others."""
    wanted = available[~contained(available, (unwanted,))]
    return wanted if len(wanted) else available


def by_effectiveness(belief: Belief, pool: Pool, generators: Tasks, count: int, context: DrawContext) -> StrategyResult:
    """Draw each generator in proportion to P(effective), as a pass takes tasks."""
    return _in_proportion(generators, chances_of(belief, pool, generators, context), count, context)


def uniformly(belief: Belief, pool: Pool, generators: Tasks, count: int, context: DrawContext) -> StrategyResult:
    """Draw each generator equally often."""
    del belief, pool
    return _in_proportion(generators, np.ones(len(generators)), count, context)


def nearest_to_target(
    belief: Belief, pool: Pool, generators: Tasks, count: int, context: DrawContext
) -> StrategyResult:
    """Sample p of `count` fresh tasks of each generator; take those with the smallest |p - target|, nearest first."""
    believed = belief.distributions(pool, generators)
    sizes, nobody = np.full(len(generators), count, np.int64), believed.at(np.empty(0, np.int64))
    drawn = draw_nearest(nobody, believed, sizes, count=count, target=context.settings.target, rng=context.rng)
    return StrategyResult(generators[drawn.owners], drawn.values)


STRATEGIES_OF_GENERATORS: dict[StrategyName, Callable[[Belief, Pool, Tasks, int, DrawContext], StrategyResult]] = {
    "pass": by_effectiveness,
    "thompson": nearest_to_target,
    "uniform": uniformly,
}


def _in_proportion(generators: Tasks, weights: Floats, count: int, context: DrawContext) -> StrategyResult:
    """Draw each generator in proportion to its weight, rounded up or down, in random order."""
    times = _shared_out(weights, count, context.rng)
    return undrawn(context.rng.permutation(np.repeat(generators, times)))


def _shared_out(weights: Floats, count: int, rng: np.random.Generator) -> Counts:
    """Return [n] how often each is drawn: `count` in all, each its share rounded up or down, and exact on average.

    Systematic sampling (W. G. Madow, Annals of Mathematical Statistics 20, 1949), in a random order.

    Args:
        weights: [n] at least 0; if all are 0, all are alike.
    """
    order = rng.permutation(len(weights))
    ends = np.cumsum(np.concatenate([[0.0], weights[order] if weights.any() else np.ones(len(weights))]))
    ends *= count / ends[-1]
    ends[-1] = count  # which rounding may have missed
    times = np.empty(len(weights), np.int64)
    times[order] = np.diff(np.ceil(ends - rng.random()))
    return times
