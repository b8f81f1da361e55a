"""One selection: which tasks to train on next, with tags, quotas, a uniform share, and leases."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from bots_service.core.arrays import Flags, Floats, Tasks, contained, united, without
from bots_service.core.belief.protocol import Belief
from bots_service.core.checks import MAX_IDS, Name, Tag, TaskId
from bots_service.core.draw.budget import LEAST_ROLLOUTS
from bots_service.core.draw.context import DrawContext, Strategy, StrategyResult, undrawn
from bots_service.core.draw.eligible import Eligible
from bots_service.core.draw.mixing import deal
from bots_service.core.draw.strategies import STRATEGIES, uniform
from bots_service.core.evidence import MAX_TRIALS
from bots_service.core.mix_account import account_of, counts_by_tag, shares_now
from bots_service.core.pool import Part, Pool
from bots_service.core.resting import resting_tasks
from bots_service.core.run_settings import StrategyName
from bots_service.core.walks import Walk
from bots_service.errors import PoolTooSmallError

Share = Annotated[float, Meta(gt=0, le=1)]
Probability = Annotated[float, Meta(ge=0, le=1)]
LARGEST_COUNT = 100_000
Count = Annotated[int, Meta(ge=1, le=LARGEST_COUNT)]
Rollouts = Annotated[int, Meta(ge=1, le=MAX_TRIALS)]
Confidence = Annotated[float, Meta(ge=0.5, le=0.999)]
Budget = Annotated[int, Meta(ge=1, le=10_000_000)]
Quotas = Mapping[str, int | float]  # an int is a number of tasks, a float in (0, 1] a share of the selection


class SelectRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A request for tasks.

    count: number of tasks; None where want_effective decides it.
    subset: only tasks of this subset of the dataset.
    tags: only tasks with one of these tags.
    quotas: for each tag the number of tasks with it (a whole number) or their share of the selection (a number with a
        fraction: 0.75, 1.0).
    exclude: tasks never to select.
    first: tasks to select before any others, in flight or not; excluded or retired tasks, and tasks without the tags or
        outside the subset, are skipped.
    rollouts_budget: rollouts of all selected tasks together; they are shared out so that most groups are effective.
    min_rollouts, max_rollouts: of each task, where a budget is given; None: four times the mean.
    want_effective: effective groups that the tasks give, in place of a count.
    confidence: with which probability they give them.
    max_count: the most tasks that are selected for them; None: eight times as many.
    uniform_share: share of the other tasks that is selected uniformly at random.
    min_mean, max_mean: tasks with an expected success probability outside these bounds are selected only where too few
        others are free, so that a bound never stops a training job. Tasks in `first` are not bound.
    """

    dataset: Name
    count: Count | None = None
    run: Name = "default"
    subset: Name | None = None
    tags: Annotated[tuple[Tag, ...], Meta(max_length=64)] = ()
    quotas: Annotated[dict[Tag, Count | Share], Meta(max_length=64)] = {}
    exclude: Annotated[tuple[TaskId, ...], Meta(max_length=MAX_IDS)] = ()
    first: Annotated[tuple[TaskId, ...], Meta(max_length=MAX_IDS)] = ()
    uniform_share: Probability = 0.0
    min_mean: Probability = 0.0
    max_mean: Probability = 1.0
    rollouts_budget: Budget | None = None
    min_rollouts: Rollouts = LEAST_ROLLOUTS
    max_rollouts: Rollouts | None = None
    want_effective: Count | None = None
    confidence: Confidence = 0.9
    max_count: Count | None = None

    @property
    def task_count(self) -> int:
        """The number of tasks to select.

        Raises:
            ValueError: the request leaves it open.
        """
        if self.count is None:
            raise ValueError("a request without a count")
        return self.count

    @property
    def bounds_means(self) -> bool:
        """Whether the request has a bound that a task could lie outside of."""
        return self.min_mean > 0.0 or self.max_mean < 1.0


SLACK = 1e-6  # shares may add up to this much more than 1, because of rounding
DIGITS = 9  # a number of tasks is rounded to; 0.29 * 100 is 28.999999999999996


def wanted_in_all(quotas: Quotas, count: int) -> float:
    """Return the total of the quotas in tasks, as an expectation."""
    shares = math.fsum(quota for quota in quotas.values() if isinstance(quota, float))
    return sum(quota for quota in quotas.values() if isinstance(quota, int)) + shares * count


def fit(quotas: Quotas, count: int) -> bool:
    """Return whether the quotas fit into `count` tasks."""
    return wanted_in_all(quotas, count) <= count * (1 + SLACK)


def in_tasks(quotas: Quotas, count: int, rng: np.random.Generator) -> dict[str, int]:
    """Return the quotas as numbers of tasks.

    A share x of n tasks becomes floor(n x) or ceil(n x) with expectation n x: over many selections each tag gets its
    share, even if a selection has room for only one of them. One random number decides for all tags (systematic
    sampling: W. G. Madow, Annals of Mathematical Statistics 20, 1949), so that their sum is also rounded up or down.

    Args:
        quotas: quotas that fit into `count`.
        count: n.
        rng: used only if there are shares.
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


AVOIDING: tuple[StrategyName, ...] = ("thompson", "mean", "softmax")  # strategies that `cooldown` is for
NO_TASKS: Tasks = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class NamedTasks:
    """The tasks that a request names by id.

    excluded: sorted; never selected.
    first: distinct, in the request's order; selected before any others, in flight or not, unless they are excluded or
        not eligible. They count towards the quotas.
    """

    excluded: Tasks = field(default_factory=lambda: NO_TASKS)
    first: Tasks = field(default_factory=lambda: NO_TASKS)


@dataclass(frozen=True, slots=True)
class DrawnTasks:
    """The selected tasks.

    tasks: [n] distinct unless they are repeatable; the `first` tasks, then those of each quota, nearest first if the
        strategy knows distances.
    draws: [n] the sampled success probability of each task; NaN if nothing was sampled.
    reused: number of tasks that are already leased.
    walks: how far the selection walked through passes, one for each part of the pool.
    """

    tasks: Tasks
    draws: Floats
    reused: int
    walks: tuple[Walk, ...] = ()


@dataclass(frozen=True, slots=True)
class TagQuota:
    """A number of tasks with a tag (None: any), of which `uniform_count` are selected uniformly at random.

    but: tags that the tasks must not carry.
    """

    tag: str | None
    count: int
    uniform_count: int
    but: tuple[str, ...] = ()

    def part(self, pool: Pool, request: SelectRequest) -> Part:
        """Return the tasks that can fill the quota, unless they are excluded."""
        return pool.part(request.tags, self.tag, self.but)


def select_tasks(
    belief: Belief,
    pool: Pool,
    request: SelectRequest,
    context: DrawContext,
    *,
    named: NamedTasks,
    leased: Tasks,
    repeatable: bool = False,
) -> DrawnTasks:
    """Return exactly `request.count` tasks, distinct unless they are repeatable and too few.

    Leased tasks are excluded unless too few others are eligible; then the strategy also selects among them. The same
    holds for tasks that cool down, rest, or lie outside the request's bounds, which come before leased ones; the
    uniform share knows neither cooldown nor rest. Quotas are filled in order; each ignores those after it.

    Args:
        belief: the run's belief.
        pool: its tasks.
        request: a valid request: its tags exist, its quotas fit.
        context: settings, position and random numbers of the run.
        named: the tasks that the request names.
        leased: tasks in flight, in any order.
        repeatable: whether a task may come again where a quota wants more tasks than there are.

    Raises:
        PoolTooSmallError: fewer tasks than requested are available, including leased ones.
        ValueError: a tag is unknown.
    """
    unavailable, in_flight = named.excluded, united(leased)
    quotas = in_tasks(request.quotas, request.task_count, context.rng)
    first = first_tasks(pool, request, named)
    chosen = [undrawn(first)]
    reused = len(first) - len(without(united(first), in_flight))
    unavailable, quotas = united(unavailable, first), quotas_left(quotas, pool, first, request.task_count - len(first))
    mixed = mix_quotas(pool, request, quotas, context, first=first, unavailable=unavailable, leased=in_flight)
    outside = outside_bounds(belief, pool, request)
    for quota in tag_quotas(quotas, request.task_count - len(first), request.uniform_share, mixed):
        left, taken = quota, unavailable
        if repeatable:
            left, several, taken = repeated(pool, request, quota, named.excluded, unavailable)
            chosen.append(undrawn(several))
        results, again = fill_quota(
            belief, pool, request, left, context, unavailable=taken, leased=in_flight, outside=outside
        )
        unavailable = united(unavailable, *(one.tasks for one in results))
        chosen += results
        reused += again
    tasks = np.concatenate([one.tasks for one in chosen])
    walks = tuple(walk for one in chosen for walk in one.walks)
    return DrawnTasks(tasks, np.concatenate([one.draws for one in chosen]), reused, walks)


def first_tasks(pool: Pool, request: SelectRequest, named: NamedTasks) -> Tasks:
    """Return the request's `first` tasks that may be selected, at most `count`."""
    if not len(named.first):
        return named.first
    may_be = named.first[pool.part(request.tags).holds(named.first) & ~contained(named.first, (named.excluded,))]
    return may_be[: request.task_count]


def quotas_left(quotas: dict[str, int], pool: Pool, first: Tasks, room: int) -> dict[str, int]:
    """Return the remaining quotas after the `first` tasks, limited to `room` more tasks in total."""
    if not len(first):
        return quotas
    left: dict[str, int] = {}
    for tag, wanted in quotas.items():
        left[tag] = min(max(wanted - int(pool.part((), tag).holds(first).sum()), 0), room)
        room -= left[tag]
    return left


def mix_quotas(
    pool: Pool,
    request: SelectRequest,
    quotas: Mapping[str, int],
    context: DrawContext,
    *,
    first: Tasks,
    unavailable: Tasks,
    leased: Tasks,
) -> dict[str, int]:
    """Return how many tasks of each tag of the run's mix to select, besides the quotas; empty without a mix.

    Args:
        pool: the tasks.
        request: its tags limit what is free.
        quotas: of the request, in tasks; they count for the mix.
        context: settings and account of the run.
        first: tasks that are selected already; they count for the mix.
        unavailable: sorted tasks that are excluded or already selected.
        leased: sorted tasks in flight.
    """
    mix = context.settings.mix
    count = request.task_count - len(first) - sum(quotas.values())
    if not mix or not count:
        return {}
    taken, free = united(unavailable, leased), dict.fromkeys(mix, 0)
    for tag in mix.keys() & pool.tags.keys():  # another replica may know tags that came with tasks appended just now
        part = pool.part(request.tags, tag, before(tag, mix))
        free[tag] = max(len(part) - len(part.keep(taken)) - quotas.get(tag, 0), 0)
    in_flight = counts_by_tag(pool, mix, united(leased, first))
    return deal(
        count,
        shares=shares_now(context.settings, context.mix, context.step),
        owed={tag: one.missing for tag, one in account_of(mix, context.mix).items()},
        in_flight={tag: in_flight[tag] + quotas.get(tag, 0) for tag in mix},
        free=free,
    )


def before(tag: str, mix: Mapping[str, object]) -> tuple[str, ...]:
    """Return the tags of the mix that come before this one: a task counts for the first that it carries."""
    return tuple(other for other in mix if other < tag)


def tag_quotas(
    quotas: Mapping[str, int], count: int, uniform_share: float, mixed: Mapping[str, int] | None = None
) -> Iterator[TagQuota]:
    """Yield the quotas, then those of the mix, then the rest of `count` tasks.

    round(count * uniform_share) uniform ones are spread evenly.
    """
    mixed = mixed or {}
    rest = count - sum(quotas.values()) - sum(mixed.values())
    through = uniform_before = 0
    of_mix = [(tag, wanted, before(tag, mixed)) for tag, wanted in mixed.items()]
    for tag, wanted, but in [*((tag, wanted, ()) for tag, wanted in quotas.items()), *of_mix, (None, rest, ())]:
        through += wanted
        uniform_through = round(through * uniform_share)
        if wanted:
            yield TagQuota(tag, wanted, uniform_through - uniform_before, but)
        uniform_before = uniform_through


def repeated(
    pool: Pool, request: SelectRequest, quota: TagQuota, excluded: Tasks, unavailable: Tasks
) -> tuple[TagQuota, Tasks, Tasks]:
    """Return what is left of a quota of repeatable tasks once all of them came as often as it has room for.

    Args:
        pool: the tasks.
        request: whose tags limit them.
        quota: of any number of tasks.
        excluded: sorted tasks that never come.
        unavailable: sorted tasks that are excluded, or came already.

    Returns:
        A quota of at most as many tasks as there are; the tasks that came before; and, sorted, those that may not fill
        the quota: tasks that came already may, where there are too few others.
    """
    part = quota.part(pool, request)
    available = without(np.sort(part.members.order), part.keep(excluded))
    times = (quota.count - 1) // len(available) if len(available) else 0
    left = quota.count - times * len(available)
    quota = replace(quota, count=left, uniform_count=min(quota.uniform_count, left))
    is_enough = len(part) - len(part.keep(unavailable)) >= left
    return quota, np.tile(available, times), unavailable if is_enough else excluded


def fill_quota(
    belief: Belief,
    pool: Pool,
    request: SelectRequest,
    quota: TagQuota,
    context: DrawContext,
    *,
    unavailable: Tasks,
    leased: Tasks,
    outside: Tasks,
) -> tuple[list[StrategyResult], int]:
    """Select the tasks of one quota; return the results and how many of their tasks are leased.

    Args:
        unavailable: sorted tasks that are excluded or already selected.
        leased: sorted tasks in flight.
        outside: sorted tasks outside the request's bounds.
    """
    part = quota.part(pool, request)
    unavailable = part.keep(unavailable)
    leased_here = without(part.keep(leased), unavailable)
    free = len(part) - len(unavailable) - len(leased_here)
    if free + len(leased_here) < quota.count:
        raise PoolTooSmallError(too_small(request, quota, tasks=len(part), unavailable=len(unavailable)))
    excluded = united(unavailable, leased_here)
    by_strategy = min(quota.count - quota.uniform_count, free)
    uniform_count = min(quota.uniform_count, free - by_strategy)
    again = quota.count - by_strategy - uniform_count
    strategy, chosen = STRATEGIES[context.settings.strategy], list[StrategyResult]()
    if by_strategy:
        resting = resting_tasks(belief, pool, context.settings, context.group_size)
        avoided = united(cooling_tasks(context), resting, context.aborts.resting(context.step), outside)
        chosen += avoiding(avoided, strategy, Eligible(pool, belief, part, excluded), by_strategy, context)
    if uniform_count:
        excluded = united(excluded, *(one.tasks for one in chosen))
        chosen += avoiding(outside, uniform, Eligible(pool, belief, part, excluded), uniform_count, context)
    if again:
        chosen.append(strategy(Eligible(pool, belief, pool.listed(leased_here), NO_TASKS), again, context))
    return chosen, again


def avoiding(
    avoided: Tasks, strategy: Strategy, eligible: Eligible, count: int, context: DrawContext
) -> list[StrategyResult]:
    """Select `count` tasks by a strategy, and the avoided ones only where there are too few others."""
    avoided = without(eligible.part.keep(avoided), eligible.excluded)
    if not len(avoided):
        return [strategy(eligible, count, context)]
    rest = max(count - (len(eligible) - len(avoided)), 0)
    chosen: list[StrategyResult] = []
    if rest < count:
        others = replace(eligible, excluded=united(eligible.excluded, avoided))
        chosen.append(strategy(others, count - rest, context))
    if rest:
        listed = eligible.pool.listed(avoided)
        chosen.append(strategy(replace(eligible, part=listed, excluded=NO_TASKS), rest, context))
    return chosen


def outside_bounds(belief: Belief, pool: Pool, request: SelectRequest) -> Tasks:
    """Return, sorted, the tasks with an expected success probability outside the request's bounds."""
    if not request.bounds_means:
        return NO_TASKS

    def is_outside(means: Floats) -> Flags:
        return (means < request.min_mean) | (means > request.max_mean)

    found = is_outside(belief.profile_distributions(pool).mean)[pool.profile_of]
    found[belief.own_tasks] = is_outside(belief.own_distributions(pool).mean)
    return np.flatnonzero(found).astype(np.int32)


def cooling_tasks(context: DrawContext) -> Tasks:
    """Return, sorted, the tasks that were reported in the last `cooldown` closed steps, if the strategy avoids them."""
    settings = context.settings
    if settings.strategy not in AVOIDING or not settings.cooldown:
        return NO_TASKS
    attempts = context.attempts.whole
    return attempts.tasks[attempts.last_step > context.step - settings.cooldown]


def too_small(request: SelectRequest, quota: TagQuota, *, tasks: int, unavailable: int) -> str:
    """Return the message: what was requested, what is available, and what to do."""
    among = f" tagged {' or '.join(request.tags)}" if request.tags else ""
    among += "" if request.subset is None else f" of subset {request.subset}"
    tagged = "" if quota.tag is None else f", {quota.count} of them tagged {quota.tag}"
    those = "" if quota.tag is None else f" tagged {quota.tag}"
    why = f" ({unavailable} of {tasks} are excluded or already chosen)" if unavailable else ""
    return (
        f"requested {request.task_count} tasks{among}{tagged}; {tasks - unavailable}{those} are available{why}. "
        "Request fewer, or append tasks"
    )
