"""One selection: which tasks to train on next, with tags, the run's mix, and leases."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from bots_service.core.arrays import NO_TASKS, Tasks, contained, united, without
from bots_service.core.belief import Belief
from bots_service.core.checks import MAX_IDS, Name, Tag, TaskId
from bots_service.core.draw.strategies import STRATEGIES, DrawContext, DrawnTasks, Eligible, undrawn
from bots_service.core.mixing import account_of, counts_by_tag, deal, shares_of
from bots_service.core.pool import Part, Pool
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
        """The number of tasks to select; ValueError where the request leaves it open."""
        if self.count is None:
            raise ValueError("a request without a count")
        return self.count


MOST_TIMES = 8  # tasks for each wanted effective group, however few are expected to be effective
GUESSES = 4  # of the number of tasks, by how many groups are effective; then the middle is tried
TINY = 1e-9


@dataclass(frozen=True, slots=True)
class NamedTasks:
    """The tasks that a request names by id.

    excluded: sorted; never selected.
    first: distinct, in the request's order; selected before any others, in flight or not, unless they are excluded or
        not eligible. They count for the run's mix.
    """

    excluded: Tasks = field(default_factory=lambda: NO_TASKS)
    first: Tasks = field(default_factory=lambda: NO_TASKS)


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
    in_flight, first = united(leased), _first_tasks(pool, request, named)
    chosen, reused = [undrawn(first)], int(np.count_nonzero(contained(first, (in_flight,))))
    unavailable = united(named.excluded, first)
    for part, count in list(_quotas(pool, request, context, first=first, unavailable=unavailable, leased=in_flight)):
        wanted, taken = count, unavailable
        if repeatable:
            several, taken = _repeated(part, count, named.excluded, unavailable)
            chosen.append(undrawn(several))
            wanted -= len(several)
        taken = part.keep(taken)
        if len(part) - len(taken) < wanted:
            raise PoolTooSmallError(_too_small(request, tasks=len(part), unavailable=len(taken)))
        later = without(part.keep(in_flight), taken)
        resting = without(part.keep(context.aborts.resting(context.step)), united(taken, later))
        results = _fill(Eligible(pool, belief, part, united(taken, later, resting)), wanted, (resting, later), context)
        tasks = united(*(one.tasks for one in results))
        reused += int(np.count_nonzero(contained(tasks, (later,))))
        unavailable = united(unavailable, tasks)
        chosen += results
    tasks = np.concatenate([one.tasks for one in chosen])
    walks = tuple(walk for one in chosen for walk in one.walks)
    return DrawnTasks(tasks, np.concatenate([one.draws for one in chosen]), walks, reused)


def _first_tasks(pool: Pool, request: SelectRequest, named: NamedTasks) -> Tasks:
    if not len(named.first):
        return named.first
    may_be = named.first[pool.part(request.tags).holds(named.first) & ~contained(named.first, (named.excluded,))]
    return may_be[: request.task_count]


def _quotas(
    pool: Pool, request: SelectRequest, context: DrawContext, *, first: Tasks, unavailable: Tasks, leased: Tasks
) -> Iterator[tuple[Part, int]]:
    """Yield the parts of the pool that fill a selection, each with its number of tasks: those of the run's mix first.

    first: selected already, they count for the mix; unavailable: sorted, excluded or selected; leased: sorted.
    """
    mix, left = context.settings.mix, request.task_count - len(first)
    # A task counts for the first tag that it carries. Another replica may know tags that came with tasks just appended.
    parts = {
        tag: pool.part(request.tags, tag, tuple(other for other in mix if other < tag))
        for tag in mix
        if left and tag in pool.tags
    }
    if parts:
        taken = united(unavailable, leased)
        dealt = deal(
            left,
            shares=shares_of(mix),
            owed={tag: one.missing for tag, one in account_of(mix, context.mix).items()},
            in_flight=counts_by_tag(pool, mix, united(leased, first)),
            free={tag: len(parts[tag]) - len(parts[tag].keep(taken)) if tag in parts else 0 for tag in mix},
        )
        yield from ((parts[tag], count) for tag, count in dealt.items() if count)
        left -= sum(dealt.values())
    if left:
        yield pool.part(request.tags), left


def _repeated(part: Part, count: int, excluded: Tasks, unavailable: Tasks) -> tuple[Tasks, Tasks]:
    """Let all of a part's tasks come as often as a quota of `count` repeatable tasks has room for.

    excluded: sorted tasks that never come; unavailable: sorted, with those that came already.

    Returns:
        These tasks; and, sorted, those that may not fill the rest: tasks that came already may, where there are too few
        others.
    """
    available = without(np.sort(part.members.order), part.keep(excluded))
    times = (count - 1) // len(available) if len(available) else 0
    is_enough = len(part) - len(part.keep(unavailable)) >= count - times * len(available)
    return np.tile(available, times), unavailable if is_enough else excluded


def _fill(eligible: Eligible, count: int, later: tuple[Tasks, ...], context: DrawContext) -> list[DrawnTasks]:
    """Select so many tasks by the run's strategy, and later ones, sorted, in turn where there are too few others."""
    strategy, pool, chosen = STRATEGIES[context.settings.strategy], eligible.pool, list[DrawnTasks]()
    for tasks in (None, *later):
        wanted = min(count, len(eligible) if tasks is None else len(tasks))
        if wanted:
            among = eligible if tasks is None else replace(eligible, part=pool.listed(tasks), excluded=NO_TASKS)
            chosen.append(strategy(among, wanted, context))
            count -= wanted
    return chosen


def _too_small(request: SelectRequest, *, tasks: int, unavailable: int) -> str:
    among = f" tagged {' or '.join(request.tags)}" if request.tags else ""
    among += "" if request.subset is None else f" of subset {request.subset}"
    why = f" ({unavailable} of {tasks} are excluded or already chosen)" if unavailable else ""
    return (
        f"requested {request.task_count} tasks{among}; {tasks - unavailable} are available{why}. "
        "Request fewer, or append tasks"
    )


def enough_tasks(expected: Callable[[int], float], wanted: int, limit: int) -> int:
    """Return the fewest tasks, at most `limit`, of which `wanted` groups are expected to be effective; else the limit.

    expected: how many effective groups to expect of a selection of so many tasks.
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
