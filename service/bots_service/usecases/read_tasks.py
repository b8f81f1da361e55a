"""GET tasks of a run: the belief about each of them, by page or as a whole."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import numpy as np

from bots_service.core.arrays import Floats, Tasks, contained, united
from bots_service.core.pool import Pool
from bots_service.core.segments import RETIRED, SEGMENTS, Segment, counts_of, segments_of_pool
from bots_service.core.state import RunState
from bots_service.core.task_table import SORTS, TaskTable, ordered, task_table
from bots_service.engine.catch_up import CatchUp
from bots_service.engine.open_runs import OpenRun, OpenRuns
from bots_service.errors import Flaw, InvalidInputError, InvalidTasksError
from bots_service.ports.records import OpenDataset


@dataclass(frozen=True, slots=True)
class Query:
    """Which tasks, in which order.

    ids: only these, in the given order of the sort; empty for all.
    tag: only tasks that carry it; None for all.
    search: only tasks whose id contains it, whatever the case of ASCII letters; None for all.
    segment: only tasks of this segment; None for all that are not retired.
    sort: one of SORTS, with a leading "-" for descending.
    after: value and index of the last task of the page before; None for the first page.
    """

    ids: tuple[str, ...] = ()
    tag: str | None = None
    search: str | None = None
    segment: Segment | None = None
    sort: str = "index"
    after: tuple[float, int] | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True)
class TaskPage:
    """Some tasks, with the belief about them.

    matching: how many tasks the query is about, on all pages.
    segments: how many tasks of each segment the query would be about, if it asked for that one.
    next: what `after` must be for the next page.
    """

    dataset: OpenDataset
    table: TaskTable
    matching: int
    segments: dict[Segment, int]
    next: tuple[float, int] | None


@dataclass(frozen=True, slots=True)
class ReadTasks:
    """Read beliefs; retired tasks are left out unless asked for.

    turns: of pages that are put in order. Each looks at the whole pool, and draws wait for the same threads.
    """

    open_runs: OpenRuns
    catch_up: CatchUp
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(2))

    async def __call__(self, dataset: str, run: str, query: Query) -> TaskPage:
        """Return one page.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
            InvalidInputError: an id, a tag or a sort is not known.
        """
        opened, state = await self.open_runs.using(dataset, run, self._newest)
        async with self.turns:
            return await asyncio.to_thread(page, query, opened.dataset, state)

    async def whole(
        self, dataset: str, run: str, query: Query, *, piece: int
    ) -> tuple[OpenDataset, AsyncIterator[TaskTable]]:
        """Return the dataset, and the tasks of all pages of the query, of one state.

        Args:
            dataset: its name.
            run: the run's name.
            query: which tasks, in which order; all of them, whatever its limit.
            piece: how many tasks a piece has.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
            InvalidInputError: an id, a tag or a sort is not known.
        """
        opened, state = await self.open_runs.using(dataset, run, self._newest)
        tasks = await asyncio.to_thread(in_order, query, opened.dataset, state)
        return opened.dataset, _pieces(opened.dataset.pool, state, tasks, piece)

    async def _newest(self, run: OpenRun) -> tuple[OpenRun, RunState]:
        state = (await self.catch_up.newest_or_known(run)).state
        return await self.open_runs.matching(run, state), state


async def _pieces(pool: Pool, state: RunState, tasks: Tasks, piece: int) -> AsyncIterator[TaskTable]:
    for first in range(0, len(tasks), piece):
        yield await asyncio.to_thread(task_table, state, pool, tasks[first : first + piece])


def matching(query: Query, dataset: OpenDataset) -> Tasks:
    """Return the tasks of all segments that the query is about, sorted by index.

    Raises:
        InvalidInputError: an id, the tag or the sort is not known.
    """
    pool = dataset.pool
    if query.sort.removeprefix("-") not in SORTS:
        message = f"{query.sort!r} is not one of {', '.join(SORTS)}, with or without a leading -"
        raise InvalidInputError("unknown sort order", (Flaw(("query", "sort"), message),))
    if query.tag is not None and query.tag not in pool.tags:
        flaw = Flaw(("query", "tag"), f"no task has the tag {query.tag!r}")
        raise InvalidInputError("unknown tag", (flaw,))
    tasks = np.arange(len(pool), dtype=np.int32) if query.tag is None else pool.tags[query.tag]
    if query.ids:
        tasks = _common(_named(query.ids, dataset), tasks)
    if query.search is not None:
        tasks = _common(dataset.ids.containing(query.search), tasks)
    return tasks


def _named(ids: tuple[str, ...], dataset: OpenDataset) -> Tasks:
    """Return the tasks of these ids, sorted.

    Raises:
        InvalidTasksError: an id is not known.
    """
    wanted = dataset.ids.find(ids)
    missing = np.flatnonzero(wanted < 0).tolist()
    if missing:
        flaws = [Flaw(("query", "ids", place), f"no task {ids[place][:80]!r}") for place in missing[:20]]
        raise InvalidTasksError("unknown tasks", tuple(flaws))
    return united(wanted)


def _common(some: Tasks, others: Tasks) -> Tasks:
    """Return the tasks that are in both sets, sorted as both are."""
    return some[contained(some, (others,))]


def chosen(query: Query, dataset: OpenDataset, state: RunState) -> tuple[Tasks, dict[Segment, int]]:
    """Return the tasks that the query is about, sorted by index, and how many of each segment it could ask for.

    Raises:
        InvalidInputError: an id, the tag or the sort is not known.
    """
    tasks = matching(query, dataset)
    segment = segments_of_pool(state, dataset.pool)[tasks]
    wanted = segment != RETIRED if query.segment is None else segment == SEGMENTS.index(query.segment)
    return tasks[wanted], counts_of(segment)


def in_order(query: Query, dataset: OpenDataset, state: RunState) -> Tasks:
    """Return the tasks of all pages of the query, in the order asked for.

    Raises:
        InvalidInputError: an id, the tag or the sort is not known.
    """
    tasks, _ = chosen(query, dataset, state)
    return tasks[ordered(query.sort, state, dataset.pool, tasks).argsort(kind="stable")]  # equal values by index


def page(query: Query, dataset: OpenDataset, state: RunState) -> TaskPage:
    """Return the tasks of one page, in the order asked for.

    Raises:
        InvalidInputError: an id, the tag or the sort is not known.
    """
    tasks, segments = chosen(query, dataset, state)
    count = len(tasks)
    values: Floats = ordered(query.sort, state, dataset.pool, tasks)
    if query.after is not None:
        value, index = query.after
        behind = (values > value) | ((values == value) & (tasks > index))
        tasks, values = tasks[behind], values[behind]
    if len(tasks) > query.limit:
        nearest = np.argpartition(values, query.limit)
        # Equal values may be cut anywhere by the partition: take all of the border value, then sort by index too.
        candidates = np.flatnonzero(values <= values[nearest[query.limit]])
    else:
        candidates = np.arange(len(tasks))
    order = candidates[np.lexsort((tasks[candidates], values[candidates]))][: query.limit]
    more = len(tasks) > len(order)
    last = (float(values[order[-1]]), int(tasks[order[-1]])) if more else None
    table = task_table(state, dataset.pool, tasks[order])
    return TaskPage(dataset, table, count, segments, last)
