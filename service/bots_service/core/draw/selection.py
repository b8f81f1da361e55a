"""One selection: which tasks to train on next, with tags, the run's mix, and leases."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from bots_service.core.arrays import Floats, Tasks, contained, united, without
from bots_service.core.belief.protocol import Belief
from bots_service.core.checks import MAX_IDS, Name, Tag, TaskId
from bots_service.core.draw.context import DrawContext, Strategy, StrategyResult, undrawn
from bots_service.core.draw.eligible import Eligible
from bots_service.core.draw.mixing import deal
from bots_service.core.draw.strategies import STRATEGIES
from bots_service.core.mix import shares_of
from bots_service.core.mix_account import account_of, counts_by_tag
from bots_service.core.pool import Part, Pool
from bots_service.core.walks import Walk
from bots_service.errors import PoolTooSmallError

LARGEST_COUNT = 100_000
Count = Annotated[int, Meta(ge=1, le=LARGEST_COUNT)]


class SelectRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A request for tasks.

    count: number of tasks; None where want_effective decides it.
    subset: only tasks of this subset of the dataset.
    tags: only tasks with one of these tags.
    exclude: tasks never to select.
    first: tasks to select before any others, in flight or not; excluded or retired tasks, and tasks without the tags or
        outside the subset, are skipped.
    want_effective: in place of a count, as few tasks as are expected to give so many effective groups.
    """

    dataset: Name
    count: Count | None = None
    run: Name = "default"
    subset: Name | None = None
    tags: Annotated[tuple[Tag, ...], Meta(max_length=64)] = ()
    exclude: Annotated[tuple[TaskId, ...], Meta(max_length=MAX_IDS)] = ()
    first: Annotated[tuple[TaskId, ...], Meta(max_length=MAX_IDS)] = ()
    want_effective: Count | None = None

    @property
    def task_count(self) -> int:
        """The number of tasks to select.

        Raises:
            ValueError: the request leaves it open.
        """
        if self.count is None:
            raise ValueError("a request without a count")
        return self.count


MOST_TIMES = 8  # tasks for each wanted effective group, however few are expected to be effective
GUESSES = 4  # of the number of tasks, by how many groups are effective; then the middle is tried
TINY = 1e-9
NO_TASKS: Tasks = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class NamedTasks:
    """The tasks that a request names by id.

    excluded: sorted; never selected.
    first: distinct, in the request's order; selected before any others, in flight or not, unless they are excluded or
        not eligible. They count for the run's mix.
    """

    excluded: Tasks = field(default_factory=lambda: NO_TASKS)
    first: Tasks = field(default_factory=lambda: NO_TASKS)


@dataclass(frozen=True, slots=True)
class DrawnTasks:
    """The selected tasks.

    tasks: [n] distinct unless they are repeatable; the `first` tasks, then those of each tag of the mix, nearest first
        if the strategy knows distances.
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
    """A number of tasks with a tag (None: any).

    but: tags that the tasks must not carry.
    """

    tag: str | None
    count: int
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
    holds for tasks that rest after aborts, which come before leased ones. The tags of the run's mix are filled in
    order; each ignores those after it.

    Args:
        belief: the run's belief.
        pool: its tasks.
        request: a valid request: its tags exist.
        context: settings, position and random numbers of the run.
        named: the tasks that the request names.
        leased: tasks in flight, in any order.
        repeatable: whether a task may come again where a quota wants more tasks than there are.

    Raises:
        PoolTooSmallError: fewer tasks than requested are available, including leased ones.
        ValueError: a tag is unknown.
    """
    in_flight = united(leased)
    first = first_tasks(pool, request, named)
    chosen = [undrawn(first)]
    reused = len(first) - len(without(united(first), in_flight))
    unavailable = united(named.excluded, first)
    mixed = mix_counts(pool, request, context, first=first, unavailable=unavailable, leased=in_flight)
    for quota in tag_quotas(mixed, request.task_count - len(first)):
        left, taken = quota, unavailable
        if repeatable:
            left, several, taken = repeated(pool, request, quota, named.excluded, unavailable)
            chosen.append(undrawn(several))
        results, again = fill_quota(belief, pool, request, left, context, unavailable=taken, leased=in_flight)
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


def mix_counts(
    pool: Pool, request: SelectRequest, context: DrawContext, *, first: Tasks, unavailable: Tasks, leased: Tasks
) -> dict[str, int]:
    """Return how many tasks of each tag of the run's mix to select; empty without a mix.

    Args:
        pool: the tasks.
        request: its tags limit what is free.
        context: settings and account of the run.
        first: tasks that are selected already; they count for the mix.
        unavailable: sorted tasks that are excluded or already selected.
        leased: sorted tasks in flight.
    """
    mix = context.settings.mix
    count = request.task_count - len(first)
    if not mix or not count:
        return {}
    taken, free = united(unavailable, leased), dict.fromkeys(mix, 0)
    for tag in mix.keys() & pool.tags.keys():  # another replica may know tags that came with tasks appended just now
        part = pool.part(request.tags, tag, before(tag, mix))
        free[tag] = len(part) - len(part.keep(taken))
    return deal(
        count,
        shares=shares_of(mix),
        owed={tag: one.missing for tag, one in account_of(mix, context.mix).items()},
        in_flight=counts_by_tag(pool, mix, united(leased, first)),
        free=free,
    )


def before(tag: str, mix: Mapping[str, object]) -> tuple[str, ...]:
    """Return the tags of the mix that come before this one: a task counts for the first that it carries."""
    return tuple(other for other in mix if other < tag)


def tag_quotas(mixed: Mapping[str, int], count: int) -> Iterator[TagQuota]:
    """Yield the tags of the mix with their numbers of tasks, then the rest of `count` tasks."""
    for tag, wanted in mixed.items():
        if wanted:
            yield TagQuota(tag, wanted, before(tag, mixed))
    if rest := count - sum(mixed.values()):
        yield TagQuota(None, rest)


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
    quota = replace(quota, count=left)
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
) -> tuple[list[StrategyResult], int]:
    """Select the tasks of one quota; return the results and how many of their tasks are leased.

    Args:
        unavailable: sorted tasks that are excluded or already selected.
        leased: sorted tasks in flight.
    """
    part = quota.part(pool, request)
    unavailable = part.keep(unavailable)
    leased_here = without(part.keep(leased), unavailable)
    free = len(part) - len(unavailable) - len(leased_here)
    if free + len(leased_here) < quota.count:
        raise PoolTooSmallError(too_small(request, tasks=len(part), unavailable=len(unavailable)))
    excluded, fresh = united(unavailable, leased_here), min(quota.count, free)
    again = quota.count - fresh
    strategy, chosen = STRATEGIES[context.settings.strategy], list[StrategyResult]()
    if fresh:
        avoided = context.aborts.resting(context.step)
        chosen += avoiding(avoided, strategy, Eligible(pool, belief, part, excluded), fresh, context)
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


def too_small(request: SelectRequest, *, tasks: int, unavailable: int) -> str:
    """Return the message: what was requested, what is available, and what to do."""
    among = f" tagged {' or '.join(request.tags)}" if request.tags else ""
    among += "" if request.subset is None else f" of subset {request.subset}"
    why = f" ({unavailable} of {tasks} are excluded or already chosen)" if unavailable else ""
    return (
        f"requested {request.task_count} tasks{among}; {tasks - unavailable} are available{why}. "
        "Request fewer, or append tasks"
    )


def enough_tasks(expected: Callable[[int], float], wanted: int, limit: int) -> int:
    """Return the fewest tasks of which so many groups are expected to be effective; the limit if none are enough.

    Args:
        expected: how many effective groups to expect of a selection of so many tasks.
        wanted: effective groups, at least 1.
        limit: the most tasks, at least 1.
    """
    too_few, enough, tasks, tries = 0, limit, min(2 * wanted, limit), 0
    while enough - too_few > 1:
        found, tries = expected(tasks), tries + 1
        if found < wanted:
            too_few = tasks
        else:
            enough = tasks
        guess = ceil(tasks * wanted / max(found, TINY)) if tries < GUESSES else (too_few + enough) // 2
        tasks = max(min(guess, enough - 1), too_few + 1)
    return enough
