"""One selection: which tasks to hand out next, under tags, quotas, a uniform share, and leases."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from bots_service.core.arrays import Floats, Tasks, contained, united, without
from bots_service.core.belief.protocol import Belief
from bots_service.core.checks import MAX_IDS, Name, Tag, TaskId
from bots_service.core.draw.eligible import Eligible
from bots_service.core.draw.strategies import STRATEGIES, DrawContext, StrategyResult, uniform
from bots_service.core.pool import Pool
from bots_service.errors import PoolTooSmallError

Share = Annotated[float, Meta(gt=0, le=1)]
Count = Annotated[int, Meta(ge=1, le=100_000)]
Quotas = Mapping[str, int | float]  # an int is a number of tasks, a float in (0, 1] a share of the selection


class SelectRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Which tasks are wanted.

    count: how many tasks.
    tags: only tasks that carry one of these.
    quotas: for a tag, how many of the tasks must carry it (a whole number), or which share of them (a number with a
        fraction: 0.75, 1.0).
    exclude: tasks that are not wanted.
    first: tasks that are wanted before any others, in flight or not; those that are excluded or retired, or lack the
        tags, are passed over.
    uniform_share: the share of the others that is chosen uniformly.
    """

    dataset: Name
    count: Count
    run: Name = "default"
    tags: Annotated[tuple[Tag, ...], Meta(max_length=64)] = ()
    quotas: Annotated[dict[Tag, Count | Share], Meta(max_length=64)] = {}
    exclude: Annotated[tuple[TaskId, ...], Meta(max_length=MAX_IDS)] = ()
    first: Annotated[tuple[TaskId, ...], Meta(max_length=MAX_IDS)] = ()
    uniform_share: Annotated[float, Meta(ge=0, le=1)] = 0.0


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


NO_TASKS: Tasks = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class NamedTasks:
    """The tasks that a request names by id.

    excluded: sorted; they may not be chosen.
    first: distinct, in the request's order; they are handed out before any others, in flight or not, unless they may
        not be chosen. They count towards the quotas.
    """

    excluded: Tasks = field(default_factory=lambda: NO_TASKS)
    first: Tasks = field(default_factory=lambda: NO_TASKS)


@dataclass(frozen=True, slots=True)
class DrawnTasks:
    """What is handed out.

    tasks: [n] distinct; those wanted first, then quota by quota, each nearest first where the strategy knows distances.
    draws: [n] the success probability drawn for each task; NaN where nothing was drawn.
    reused: how many of them are leased already.
    """

    tasks: Tasks
    draws: Floats
    reused: int


@dataclass(frozen=True, slots=True)
class TagQuota:
    """This many tasks that carry a tag (None: any), of which `uniform_count` are chosen uniformly."""

    tag: str | None
    count: int
    uniform_count: int


def select_tasks(
    belief: Belief, pool: Pool, request: SelectRequest, context: DrawContext, *, named: NamedTasks, leased: Tasks
) -> DrawnTasks:
    """Return exactly `request.count` distinct tasks.

    Leased tasks are left out unless too few others are eligible; then the strategy chooses among them too. Quotas are
    filled in order, each without regard to those that follow.

    Args:
        belief: of the run.
        pool: its tasks.
        request: one that the pool can meet: its tags are known, its quotas fit.
        context: settings, position and random numbers of the run.
        named: the tasks that the request names.
        leased: tasks in flight, in any order.

    Raises:
        PoolTooSmallError: fewer tasks than asked for may be handed out, even with the leased ones.
        ValueError: a tag is unknown.
    """
    gone, in_flight = named.excluded, united(leased)
    quotas = in_tasks(request.quotas, request.count, context.rng)
    first = first_tasks(pool, request, named)
    chosen = [StrategyResult(first, np.full(len(first), np.nan))]
    reused = len(first) - len(without(united(first), in_flight))
    gone, quotas = united(gone, first), quotas_left(quotas, pool, first, request.count - len(first))
    for quota in tag_quotas(quotas, request.count - len(first), request.uniform_share):
        results, again = fill_quota(belief, pool, request, quota, context, gone=gone, leased=in_flight)
        gone = united(gone, *(one.tasks for one in results))
        chosen += results
        reused += again
    tasks = np.concatenate([one.tasks for one in chosen])
    return DrawnTasks(tasks, np.concatenate([one.draws for one in chosen]), reused)


def first_tasks(pool: Pool, request: SelectRequest, named: NamedTasks) -> Tasks:
    """Return the tasks that are wanted first and may be handed out, as many as are asked for."""
    if not len(named.first):
        return named.first
    may_be = named.first[pool.part(request.tags).holds(named.first) & ~contained(named.first, (named.excluded,))]
    return may_be[: request.count]


def quotas_left(quotas: dict[str, int], pool: Pool, first: Tasks, room: int) -> dict[str, int]:
    """Return what is left of the quotas when some tasks are handed out first, and `room` more in all."""
    if not len(first):
        return quotas
    left: dict[str, int] = {}
    for tag, wanted in quotas.items():
        left[tag] = min(max(wanted - int(pool.part((), tag).holds(first).sum()), 0), room)
        room -= left[tag]
    return left


def tag_quotas(quotas: Mapping[str, int], count: int, uniform_share: float) -> Iterator[TagQuota]:
    """Yield the quotas and the rest of `count` tasks; round(count * uniform_share) uniform ones spread evenly."""
    rest = count - sum(quotas.values())
    through = uniform_before = 0
    for tag, wanted in [*quotas.items(), (None, rest)]:
        through += wanted
        uniform_through = round(through * uniform_share)
        if wanted:
            yield TagQuota(tag, wanted, uniform_through - uniform_before)
        uniform_before = uniform_through


def fill_quota(
    belief: Belief,
    pool: Pool,
    request: SelectRequest,
    quota: TagQuota,
    context: DrawContext,
    *,
    gone: Tasks,
    leased: Tasks,
) -> tuple[list[StrategyResult], int]:
    """Choose the tasks of one quota; return the choices and how many of their tasks are leased.

    Args:
        gone: sorted tasks that are excluded or chosen already.
        leased: sorted tasks in flight.
    """
    part = pool.part(request.tags, quota.tag)
    gone = part.keep(gone)
    busy = without(part.keep(leased), gone)
    free = len(part) - len(gone) - len(busy)
    if free + len(busy) < quota.count:
        raise PoolTooSmallError(too_small(request, quota, tasks=len(part), gone=len(gone)))
    strategy = STRATEGIES[context.settings.strategy]
    barred = united(gone, busy)
    by_strategy = min(quota.count - quota.uniform_count, free)
    uniform_count = min(quota.uniform_count, free - by_strategy)
    again = quota.count - by_strategy - uniform_count
    chosen: list[StrategyResult] = []
    if by_strategy:
        chosen.append(strategy(Eligible(pool, belief, part, barred), by_strategy, context))
    if uniform_count:
        barred = united(barred, *(one.tasks for one in chosen))
        chosen.append(uniform(Eligible(pool, belief, part, barred), uniform_count, context))
    if again:
        chosen.append(strategy(Eligible(pool, belief, pool.listed(busy), NO_TASKS), again, context))
    return chosen, again


def too_small(request: SelectRequest, quota: TagQuota, *, tasks: int, gone: int) -> str:
    """Say what was requested, what is available, and what to do."""
    among = f" tagged {' or '.join(request.tags)}" if request.tags else ""
    tagged = "" if quota.tag is None else f", {quota.count} of them tagged {quota.tag}"
    those = "" if quota.tag is None else f" tagged {quota.tag}"
    why = f" ({gone} of {tasks} are excluded or already chosen)" if gone else ""
    return (
        f"requested {request.count} tasks{among}{tagged}; {tasks - gone}{those} are available{why}. "
        "Request fewer, or append tasks"
    )
