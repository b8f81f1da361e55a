"""What is read of runs: their steps, their entries, their tasks, and what tasks showed."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from bots_service.core.arrays import Floats, Tasks, contained, is_first, united
from bots_service.core.pool import Pool
from bots_service.core.receipt import Calibration, added
from bots_service.core.state import RunState
from bots_service.core.summary import TagRow, tag_rows
from bots_service.core.task_ids import TaskIds
from bots_service.core.task_table import (
    RETIRED,
    SEGMENTS,
    SORTS,
    Segment,
    TaskTable,
    counts_of,
    ordered,
    segments_of_pool,
    task_table,
)
from bots_service.datasets import OpenRun
from bots_service.errors import Flaw, InvalidInputError, InvalidTasksError, UnknownTaskError
from bots_service.records import (
    EntryKind,
    JournalEntry,
    LeaseTtls,
    OpenDataset,
    Point,
    StoredReceipt,
    VisitsPage,
)
from bots_service.runs import Runs

SHOWN_IDS = 5  # ids that contain an unknown one: enough to see what was meant
IDS_PER_LEASE = 5  # ids of each group, unless more are wanted: enough to know a selection by


@dataclass(frozen=True, slots=True)
class Lease:
    """Tasks whose leases end together, as those of one selection do.

    expires_at: when the leases end (RFC 3339, UTC).
    tasks: how many tasks.
    first: ids of as many as the query asks for.
    """

    expires_at: datetime
    tasks: int
    first: list[str]


@dataclass(frozen=True, slots=True)
class TaskQuery:
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
class TagTable:
    """The tags with most tasks, over the last closed steps; at most 100 of them.

    first_step, last_step: the first and the last of these steps; 0 if none closed, or all were pruned.
    tags: the tags, those with most tasks first.
    """

    first_step: int
    last_step: int
    tags: list[TagRow]


class Insight:
    """Reads runs, and changes nothing. Names that are not known raise UnknownDatasetError or UnknownRunError."""

    def __init__(self, runs: Runs) -> None:
        self.runs, self._store = runs, runs.store
        # Pages that are put in order: each looks at the whole pool, and draws wait for the same threads.
        self._turns = asyncio.Semaphore(2)

    async def steps(self, dataset: str, run: str, after_step: int, limit: int) -> list[StoredReceipt]:
        """Return up to `limit` closed steps of the present history in order, after `after_step`."""

        async def read(opened: OpenRun) -> list[StoredReceipt]:
            await self._store.journal.head(opened.row)  # notices where another replica replaced the run
            return await self._store.history.steps(opened.row, after_step, limit)

        return await self.runs.using(dataset, run, read)

    async def curve(self, dataset: str, run: str, points: int) -> list[Point]:
        """Return the closed steps as at most `points` points, in order; each but the last stands for as many steps."""

        async def read(opened: OpenRun) -> list[Point]:
            state = await self.runs.state_of(opened)
            width = -(-(state.step - opened.row.origin_step) // points)
            return await self._store.history.curve(opened.row, state.seq, max(width, 1))

        return await self.runs.using(dataset, run, read)

    async def calibration(self, dataset: str, run: str, steps: int) -> tuple[int, Calibration]:
        """Return sums of what was predicted before each of the last steps, and observed in it; and of how many steps.

        Steps without outcomes tell nothing of predictions.
        """

        async def read(opened: OpenRun) -> tuple[int, Calibration]:
            state = await self.runs.state_of(opened)
            stored = await self._store.history.steps(opened.row, max(0, state.step - steps), steps)
            shown = [found.calibration for found in stored if found.calibration is not None]
            return len(shown), added(shown)

        return await self.runs.using(dataset, run, read)

    async def entries(
        self, dataset: str, run: str, before: int | None, limit: int, kinds: Sequence[EntryKind] = ()
    ) -> list[JournalEntry]:
        """Return up to `limit` entries before this one, None for the newest; those that a rewind hides too.

        Pruned ones are not there. With `kinds` only entries of these kinds.
        """

        async def read(opened: OpenRun) -> list[JournalEntry]:
            await self._store.journal.head(opened.row)
            return await self._store.history.entries(opened.row, before, limit, kinds)

        return await self.runs.using(dataset, run, read)

    async def task_history(self, dataset: str, run: str, task_id: str, before: int | None, limit: int) -> VisitsPage:
        """Return up to `limit` reports of a task before this entry, None for the newest; hidden ones too.

        A page may be empty and not the last.

        Raises:
            UnknownTaskError: the dataset has no such task.
        """

        async def read(opened: OpenRun) -> VisitsPage:
            await self._store.journal.head(opened.row)
            task = int(opened.dataset.ids.find([task_id])[0])
            if task < 0:
                ids = (await self.runs.datasets.current(opened)).dataset.ids  # another replica may have appended it
                task = int(ids.find([task_id])[0])
                if task < 0:
                    raise UnknownTaskError(await asyncio.to_thread(unknown, task_id, dataset, ids))
            return await self._store.history.visits(opened.row, task, before, limit)

        return await self.runs.using(dataset, run, read)

    async def leases(self, dataset: str, run: str, limit: int, named: int = IDS_PER_LEASE) -> tuple[int, list[Lease]]:
        """Return how many tasks are in flight, and up to `limit` groups of them, those that end soonest first.

        Each group names up to `named` of its tasks. The store that keeps leases ends them by its own clock, so it is
        asked how long each still lasts: a time given here is as right as this machine's clock.
        """
        known, leased = await self.runs.leases(dataset, run)
        return len(leased.tasks), grouped(leased, known, time.time(), limit, named)

    async def tags(self, dataset: str, run: str, steps: int) -> TagTable:
        """Return the tags with most tasks, over the last steps and compared with the steps before."""

        async def read(opened: OpenRun) -> TagTable:
            state = await self.runs.state_of(opened)
            after = max(opened.row.origin_step, state.step - 2 * steps)
            found = await self._store.history.steps(opened.row, after, 2 * steps)
            last, earlier = found[-steps:], found[:-steps]
            pool = (await self.runs.datasets.matching(opened, state)).dataset.pool
            rows = await asyncio.to_thread(tag_rows, pool, last, earlier)
            return TagTable(last[0].step if last else 0, last[-1].step if last else 0, rows)

        return await self.runs.using(dataset, run, read)

    async def tasks(self, dataset: str, run: str, query: TaskQuery) -> TaskPage:
        """Return one page of tasks with the belief about each; retired tasks only if the query asks for them.

        Raises:
            InvalidInputError: an id, a tag or a sort is not known.
        """
        opened, state = await self.runs.using(dataset, run, self._newest)
        async with self._turns:
            return await asyncio.to_thread(page, query, opened.dataset, state)

    async def every_task(
        self, dataset: str, run: str, query: TaskQuery, *, piece: int
    ) -> tuple[OpenDataset, AsyncIterator[TaskTable]]:
        """Return the dataset, and the tasks of all pages of the query, of one state, `piece` tasks at a time.

        Raises:
            InvalidInputError: an id, a tag or a sort is not known.
        """
        opened, state = await self.runs.using(dataset, run, self._newest)

        def in_order() -> Tasks:
            tasks, _ = chosen(query, opened.dataset, state)
            return tasks[
                ordered(query.sort, state, opened.dataset.pool, tasks).argsort(kind="stable")
            ]  # equals by index

        return opened.dataset, _pieces(opened.dataset.pool, state, await asyncio.to_thread(in_order), piece)

    async def _newest(self, run: OpenRun) -> tuple[OpenRun, RunState]:
        state, _ = await self.runs.newest_or_known(run)
        return await self.runs.datasets.matching(run, state), state


def grouped(leased: LeaseTtls, dataset: OpenDataset, now: float, limit: int, named: int = IDS_PER_LEASE) -> list[Lease]:
    """Return up to `limit` groups of tasks whose leases end together, those that end soonest first."""
    order = np.argsort(leased.ttl_s, kind="stable")
    tasks, ttl_s = leased.tasks[order], leased.ttl_s[order]
    begins = np.flatnonzero(is_first(ttl_s))
    sizes = np.diff(begins, append=len(tasks))
    ends = [datetime.fromtimestamp(now + ttl, UTC) for ttl in ttl_s[begins[:limit]].tolist()]
    return [
        Lease(end, size, dataset.ids.take(tasks[begin : begin + min(size, named)]))
        for end, begin, size in zip(ends, begins[:limit].tolist(), sizes[:limit].tolist(), strict=True)
    ]


def unknown(task_id: str, dataset: str, ids: TaskIds) -> str:
    """Return what to say of an id that no task has: it names some ids that contain it."""
    near = ids.take(ids.containing(task_id)[:SHOWN_IDS])
    hint = f"these ids contain it: {', '.join(map(repr, near))}" if near else "search for a part of the id"
    return f"no task {task_id[:80]!r} in dataset {dataset!r}; {hint}"


async def _pieces(pool: Pool, state: RunState, tasks: Tasks, piece: int) -> AsyncIterator[TaskTable]:
    for first in range(0, len(tasks), piece):
        yield await asyncio.to_thread(task_table, state, pool, tasks[first : first + piece])


def chosen(query: TaskQuery, dataset: OpenDataset, state: RunState) -> tuple[Tasks, dict[Segment, int]]:
    """Return the tasks that the query is about, sorted by index, and how many of each segment it could ask for.

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
        wanted = dataset.ids.find(query.ids)
        missing = np.flatnonzero(wanted < 0).tolist()
        if missing:
            flaws = [Flaw(("query", "ids", place), f"no task {query.ids[place][:80]!r}") for place in missing[:20]]
            raise InvalidTasksError("unknown tasks", tuple(flaws))
        tasks = tasks[contained(tasks, (united(wanted),))]
    if query.search is not None:
        tasks = tasks[contained(tasks, (dataset.ids.containing(query.search),))]
    segment = segments_of_pool(state, pool)[tasks]
    is_wanted = segment != RETIRED if query.segment is None else segment == SEGMENTS.index(query.segment)
    return tasks[is_wanted], counts_of(segment)


def page(query: TaskQuery, dataset: OpenDataset, state: RunState) -> TaskPage:
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
