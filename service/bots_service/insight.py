"""What is read of runs: how each goes, with a verdict; its steps, its entries, and its tasks."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, get_args

import numpy as np
from msgspec import Struct, structs

from bots_service.access import Caller
from bots_service.core import summary
from bots_service.core import task_table as tables
from bots_service.core.arrays import Floats, Tasks, contained, is_first, united
from bots_service.core.receipt import Calibration, added
from bots_service.core.state import RunState
from bots_service.core.summary import Gain, LastEvaluation, RunStatus, RunVerdict, TagRow, last_evaluation
from bots_service.core.task_table import Segment, Segments, TaskTable
from bots_service.datasets import OpenRun
from bots_service.errors import Flaw, InvalidInputError, InvalidTasksError, UnknownRunError
from bots_service.records import (
    EntryKind,
    Evaluations,
    JournalEntry,
    LeaseTtls,
    OpenDataset,
    Point,
    RefusedReports,
    StoredReceipt,
)
from bots_service.runs import Runs
from bots_service.storage.sql.history import KnownRun, SqlHistory
from bots_service.storage.sql.runs import DEFAULT_RUN

# --- the overview -----------------------------------------------------------------------------------------------------

UNIFORM = "uniform"
PLAIN = (UNIFORM, "shuffle")  # strategies that know nothing of the tasks: as training without a selector
RUN_SORTS = ("attention", "name", "last_step", "step", "effective_task_ratio", "vs_uniform", "evaluation", "rollouts")
LOOKED_AT_ONCE = 64  # runs whose tasks in flight are asked for side by side
MORE_THAN_A_TIME = 1e11  # seconds: a run that needs attention comes before all that need it less, however old


class RunSummary(Struct, frozen=True):
    """How a run goes.

    belief: the kind of its belief.
    strategy: the present strategy of its selections.
    status: new (no step closed), running, stalled (tasks are in flight and the next step is overdue), idle (nothing
        is in flight, or no step closed for a long time) or finished (its trainer said so, and nothing came since).
    step: number of closed steps; a fork counts those of its parent too.
    last_step_at: when the last step closed (RFC 3339, UTC); null before the first.
    reported, effective, rollouts: sums over all closed steps, without steps undone by a rewind.
    effective_task_ratio: over the last 50 steps; null if they reported nothing.
    trend: this ratio along all steps, the newest last; at most 40 points; null where nothing was reported.
    gain: the gain over uniform sampling; null for a run that samples uniformly.
    evaluation: the last of its model, next to a baseline's; null without any.
    verdict: the most urgent that fits.
    attention: whether somebody should look at the run: its verdict says that something is wrong, and it moved within
        three days.
    refused: the reports that were refused as invalid; null without any.
    leased: number of tasks in flight; null in an overview.
    evaluations: all of its model, by name: steps with what was measured after them; null in an overview.
    """

    dataset: str
    run: str
    belief: str
    strategy: str
    created_at: datetime
    status: RunStatus
    step: int
    epoch: int
    seq: int
    last_step_at: datetime | None
    reported: int
    effective: int
    rollouts: float
    effective_task_ratio: float | None
    trend: tuple[float | None, ...]
    gain: Gain | None
    verdict: RunVerdict
    attention: bool
    refused: RefusedReports | None
    leased: int | None = None
    evaluation: LastEvaluation | None = None
    evaluations: Evaluations | None = None

    @property
    def moved_at(self) -> float | None:
        """When it last closed a step, or had a report refused, in seconds since 1970; None if it never did."""
        times = (self.last_step_at, None if self.refused is None else self.refused.last_at)
        return max((at.timestamp() for at in times if at is not None), default=None)


# A run's place in a list, whichever way it is sorted: its group, its value, its dataset and its name. Runs without a
# value come last, and by the gain, runs that are not healthy come after those that are.
ListPosition = tuple[int, float, str, str]


@dataclass(frozen=True, slots=True)
class OverviewQuery:
    """Which runs are asked for, of any dataset and status where these are None.

    search: part of "dataset/run", whatever the case. sort: one of RUN_SORTS, with a leading "-" the other way round.
    after: the place of the last run of the page before.
    """

    search: str | None = None
    dataset: str | None = None
    status: RunStatus | None = None
    attention: bool = False
    sort: str = "-last_step"
    after: ListPosition | None = None
    limit: int = 50

    def wants(self, run: RunSummary) -> bool:
        return (
            (self.dataset is None or run.dataset == self.dataset)
            and (self.status is None or run.status == self.status)
            and (run.attention or not self.attention)
            and (self.search is None or self.search.lower() in f"{run.dataset}/{run.run}".lower())
        )


@dataclass(frozen=True, slots=True)
class OverviewTotals:
    """Sums over all runs that the caller reaches.

    datasets: how many there are.
    runs: how many there are.
    attention: how many need attention.
    new, running, stalled, idle, finished: how many runs have this status.
    reported, effective, rollouts: sums over all their steps.
    """

    datasets: int
    runs: int
    attention: int
    new: int
    running: int
    stalled: int
    idle: int
    finished: int
    reported: int
    effective: int
    rollouts: float


class OverviewPage(Struct, frozen=True):
    """A page of runs.

    matching: how many runs the query is about, on all pages.
    totals: sums over all runs that the key reaches, whatever the query.
    """

    runs: list[RunSummary]
    matching: int
    totals: OverviewTotals


class Overview:
    """Summarizes all runs that the caller's key reaches, or one of them, each with a verdict.

    A run's course is made of a few rows of its journal, which hold sums over all steps by then. It stays in memory
    (3 KB) until the run is gone, or its head and epoch in SQL say that a replica changed its journal.
    """

    def __init__(self, runs: Runs, history: SqlHistory, clock: Callable[[], float] = time.time) -> None:
        """Know no run yet. clock: seconds since 1970, UTC."""
        self._runs, self._history, self._clock = runs, history, clock
        self._known: dict[int, KnownRun] = {}
        self._reading = asyncio.Lock()  # one reads for all that wait

    async def page(self, caller: Caller, query: OverviewQuery) -> tuple[OverviewPage, ListPosition | None]:
        """Return a page of the runs that the query is about, and the place of its last run; None on the last page."""
        known = await self._up_to_date(None, caller.reaches)
        known = [one for one in known if caller.reaches_run(one.head.dataset, one.row.name)]
        others = {one.head.dataset for one in known if one.row.name != DEFAULT_RUN}
        # A dataset's own run is listed once it is used, or while there is no other.
        unused = {
            one.row.id for one in known if one.row.name == DEFAULT_RUN and not (one.head.head or one.head.refused)
        }
        runs = await self._as_they_are_now(
            [one for one in known if one.row.id not in unused or one.head.dataset not in others]
        )
        return await asyncio.to_thread(_page_of, runs, query)

    async def one(self, dataset: str, run: str) -> RunSummary:
        await self._runs.store.datasets.get(dataset)
        known = [one for one in await self._up_to_date(dataset) if one.row.name == run]
        if not known:
            raise UnknownRunError(f"no run {run!r}")
        (found,) = await self._as_they_are_now(known)
        leased = len((await self._runs.live.leases(known[0].row)).tasks)
        return structs.replace(found, leased=leased, evaluations=known[0].row.evaluations)

    async def _up_to_date(self, dataset: str | None, reaches: Callable[[str], bool] = lambda _: True) -> list[KnownRun]:
        """Return what is known of the runs of a dataset; or with None, of all datasets that the caller reaches."""
        async with self._reading:
            heads = await self._history.heads(dataset)
            known = self._known
            asked = {run_id for run_id, one in known.items() if dataset in (None, one.head.dataset)}
            for gone in asked.difference(head.run_id for head in heads):
                del known[gone]
            reached = {name: reaches(name) for name in {head.dataset for head in heads}}
            heads = [head for head in heads if reached[head.dataset]]
            outdated = [head for head in heads if head.run_id not in known or known[head.run_id].head != head]
            known |= await self._history.known(outdated)
            here = defaultdict(list)
            for head in heads:
                if head.run_id in known:  # else it was deleted or rewound meanwhile; the next list reads it
                    here[head.dataset].append(known[head.run_id])
            found = [run for runs in here.values() for run in await self._compared(runs)]
            known |= {run.head.run_id: run for run in found}
            return found

    async def _compared(self, runs: list[KnownRun]) -> list[KnownRun]:
        """Return all runs of a dataset with their gains and evaluations, next to their baselines'."""
        uniform = [run for run in runs if run.strategy == UNIFORM and run.course.sums.reported]
        gained = [await self._with_gain(run, _nearest(run, uniform)) for run in runs]
        return [replace(run, evaluation=_evaluation_of(run, runs)) if run.row.evaluations else run for run in gained]

    async def _with_gain(self, run: KnownRun, baseline: KnownRun | None) -> KnownRun:
        if run.strategy == UNIFORM or baseline is None:
            gain = None if run.strategy == UNIFORM else summary.estimated_gain(run.course)
            return replace(run, gain=gain, compared=None)
        heads = (run.head, baseline.head)
        return run if run.compared == heads else replace(run, gain=await self._measured(run, baseline), compared=heads)

    async def _measured(self, run: KnownRun, baseline: KnownRun) -> Gain:
        first, last = max(run.row.origin_step, baseline.row.origin_step), min(run.step, baseline.step)
        recent = max(first, last - summary.RECENT)
        own = await self._history.ends(run.row, run.head.head, [first, last])
        uniform = await self._history.ends(baseline.row, baseline.head.head, [first, recent, last])
        is_known = own.keys() >= {first, last} and uniform.keys() >= {first, recent, last}  # else one was rewound now
        if last <= first or not is_known:
            return summary.estimated_gain(run.course)
        whole, latest = uniform[last].less(uniform[first]), uniform[last].less(uniform[recent])
        return summary.gain_over(
            baseline.row.name,
            last - first,
            own[last].less(own[first]),
            whole.effective_task_ratio,
            latest.effective_task_ratio,
        )

    async def _as_they_are_now(self, known: list[KnownRun]) -> list[RunSummary]:
        now = self._clock()
        overdue = [one.row for one in known if summary.is_overdue(_since_last_step(one, now), one.course.usual_gap_s)]
        in_flight: set[int] = set()
        for first in range(0, len(overdue), LOOKED_AT_ONCE):
            rows = overdue[first : first + LOOKED_AT_ONCE]
            leased = await asyncio.gather(*map(self._runs.live.leases, rows))
            in_flight |= {row.id for row, each in zip(rows, leased, strict=True) if len(each.tasks)}
        return [_summary_of(one, now, in_flight=one.row.id in in_flight) for one in known]


def _nearest(run: KnownRun, others: Iterable[KnownRun]) -> KnownRun | None:
    """Return the one that was created nearest in time to a run; of several, the first by name."""
    return min(others, key=lambda one: (abs(one.row.created_at - run.row.created_at), one.row.name), default=None)


def _evaluation_of(run: KnownRun, runs: Sequence[KnownRun]) -> LastEvaluation:
    name = min(run.row.evaluations)
    plain = [one for one in runs if one.strategy in PLAIN and name in one.row.evaluations]
    uniform = [one for one in plain if one.strategy == UNIFORM]
    baseline = None if run.strategy in PLAIN else _nearest(run, uniform or plain)
    other = ((), None) if baseline is None else (baseline.row.evaluations[name], baseline.row.name)
    return last_evaluation(name, run.row.evaluations[name], *other)


def _summary_of(known: KnownRun, now: float, *, in_flight: bool) -> RunSummary:
    head, row, course = known.head, known.row, known.course
    since = _since_last_step(known, now)
    finished = head.finished_seq == head.head
    status = summary.status_of(since, course.usual_gap_s, in_flight=in_flight, finished=finished)
    verdict = summary.verdict_on(
        course,
        known.findings,
        stalled_s=since if status == "stalled" else None,
        uniform=None if known.gain is None else known.gain.uniform_effective_task_ratio,
        # Unless something was accepted since.
        refused=(head.refused.count, head.refused.reason) if head.refused and head.refused_seq == head.head else None,
    )
    found = RunSummary(
        dataset=head.dataset,
        run=row.name,
        belief=row.settings.belief,
        strategy=known.strategy,
        created_at=datetime.fromtimestamp(row.created_at, UTC),
        status=status,
        step=known.step,
        epoch=head.epoch,
        seq=head.head,
        last_step_at=None if course.sums.at is None else datetime.fromtimestamp(course.sums.at, UTC),
        reported=course.sums.reported,
        effective=course.sums.effective,
        rollouts=course.sums.rollouts,
        effective_task_ratio=course.recent.effective_task_ratio,
        trend=course.trend,
        gain=known.gain,
        verdict=verdict,
        attention=False,
        refused=head.refused,
        evaluation=known.evaluation,
    )
    since_moved = None if found.moved_at is None else now - found.moved_at
    return structs.replace(found, attention=summary.needs_attention(verdict, since_moved))


def _since_last_step(known: KnownRun, now: float) -> float | None:
    last = known.course.sums.at
    return None if last is None else now - last


def _value_of(run: RunSummary, sort: str) -> float | None:
    match sort:
        case "attention":
            urgency = 2 if run.verdict.kind in summary.AT_ONCE_KINDS else 1
            return None if run.moved_at is None else run.moved_at + run.attention * urgency * MORE_THAN_A_TIME
        case "last_step":
            return None if run.last_step_at is None else run.last_step_at.timestamp()
        case "vs_uniform":
            return None if run.gain is None else run.gain.factor
        case "evaluation":
            return None if run.evaluation is None else run.evaluation.difference
        case "name":
            return 0.0
    value: float | None = getattr(run, sort)
    return value


def _place_of(run: RunSummary, sort: str, *, descends: bool) -> ListPosition:
    value = _value_of(run, sort)
    if value is None:
        return 2, 0.0, run.dataset, run.run
    is_doubtful = sort == "vs_uniform" and run.verdict.kind != "healthy"
    return int(is_doubtful), -value if descends else value, run.dataset, run.run


def _page_of(runs: Sequence[RunSummary], query: OverviewQuery) -> tuple[OverviewPage, ListPosition | None]:
    sort, descends = query.sort.removeprefix("-"), query.sort.startswith("-")
    backwards = descends and sort == "name"  # a text has no opposite
    found = [(_place_of(run, sort, descends=descends), run) for run in runs if query.wants(run)]
    found.sort(key=lambda pair: pair[0], reverse=backwards)
    after = query.after
    behind = [pair for pair in found if after is None or (pair[0] < after if backwards else pair[0] > after)]
    page = behind[: query.limit]
    following = page[-1][0] if len(behind) > len(page) else None
    statuses = Counter(dict.fromkeys(get_args(RunStatus), 0))
    statuses.update(run.status for run in runs)
    totals = OverviewTotals(
        datasets=len({run.dataset for run in runs}),
        runs=len(runs),
        attention=sum(run.attention for run in runs),
        **statuses,
        reported=sum(run.reported for run in runs),
        effective=sum(run.effective for run in runs),
        rollouts=sum(run.rollouts for run in runs),
    )
    return OverviewPage([run for _, run in page], len(found), totals), following


# --- one run ----------------------------------------------------------------------------------------------------------

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

    ids: only these; empty for all. search: only tasks whose id contains it, whatever the case of ASCII letters.
    segment: None for all that are not retired. sort: one of SORTS, with a leading "-" for descending. after: value and
    index of the last task of the page before.
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

    matching: how many tasks the query is about, on all pages. segments: how many of each segment it would be about, if
    it asked for that one. next: what `after` must be for the next page.
    """

    dataset: OpenDataset
    table: TaskTable
    matching: int
    segments: dict[Segment, int]
    next: tuple[float, int] | None


@dataclass(frozen=True, slots=True)
class TagTable:
    """The tags that the verifier guard watches, at most 128, over the last closed steps.

    first_step, last_step: the first and the last of these steps; 0 if none closed.
    tags: the tags, those with most tasks first.
    """

    first_step: int
    last_step: int
    tags: list[TagRow]


Rest = ParamSpec("Rest")
Result = TypeVar("Result")


def _of_run(
    read: Callable[Concatenate["Insight", OpenRun, Rest], Awaitable[Result]],
) -> Callable[Concatenate["Insight", str, str, Rest], Coroutine[Any, Any, Result]]:
    """Let a method that reads an open run take the names of its dataset and of the run."""

    @wraps(read)
    async def reading(self: "Insight", dataset: str, run: str, /, *rest: Rest.args, **named: Rest.kwargs) -> Result:
        return await self.runs.using(dataset, run, lambda opened: read(self, opened, *rest, **named))

    return reading


class Insight:
    """Reads runs, and changes nothing. Names that are not known raise UnknownDatasetError or UnknownRunError."""

    def __init__(self, runs: Runs) -> None:
        self.runs, self._store = runs, runs.store
        # Pages that are put in order: each looks at the whole pool, and draws wait for the same threads.
        self._turns = asyncio.Semaphore(2)

    @_of_run
    async def steps(self, run: OpenRun, after_step: int, limit: int) -> list[StoredReceipt]:
        """Return up to `limit` closed steps of the present history in order, after `after_step`."""
        await self._store.journal.head(run.row)  # notices where another replica replaced the run
        return await self._store.history.steps(run.row, after_step, limit)

    @_of_run
    async def curve(self, run: OpenRun, points: int) -> list[Point]:
        """Return the closed steps as at most `points` points, in order; each but the last stands for as many steps."""
        state = await self.runs.state_of(run)
        width = -(-state.step // points)
        return await self._store.history.curve(run.row, state.seq, max(width, 1))

    @_of_run
    async def calibration(self, run: OpenRun, steps: int) -> tuple[int, Calibration]:
        """Return how many of the last steps have outcomes, and sums of what was predicted before each and observed."""
        state = await self.runs.state_of(run)
        stored = await self._store.history.steps(run.row, max(0, state.step - steps), steps)
        shown = [found.calibration for found in stored if found.calibration is not None]
        return len(shown), added(shown)

    @_of_run
    async def entries(
        self, run: OpenRun, before: int | None, limit: int, kinds: Sequence[EntryKind] = ()
    ) -> list[JournalEntry]:
        """Return up to `limit` entries before this one, None for the newest; those that a rewind hides too.

        With `kinds` only entries of these kinds.
        """
        await self._store.journal.head(run.row)
        return await self._store.history.entries(run.row, before, limit, kinds)

    async def leases(self, dataset: str, run: str, limit: int, named: int = IDS_PER_LEASE) -> tuple[int, list[Lease]]:
        """Return how many tasks are in flight, and up to `limit` groups of them, those that end soonest first.

        Each group names up to `named` of its tasks. The store that keeps leases ends them by its own clock, so it is
        asked how long each still lasts: a time given here is as right as this machine's clock.
        """
        known, leased = await self.runs.leases(dataset, run)
        return len(leased.tasks), _grouped(leased, known, time.time(), limit, named)

    @_of_run
    async def tags(self, run: OpenRun, steps: int) -> TagTable:
        """Return the watched tags, over the last steps and compared with the steps before."""
        state = await self.runs.state_of(run)
        found = await self._store.history.steps(run.row, max(0, state.step - 2 * steps), 2 * steps)
        last, earlier = found[-steps:], found[:-steps]
        pool = (await self.runs.datasets.matching(run, state)).dataset.pool
        rows = await asyncio.to_thread(summary.tag_rows, pool, last, earlier)
        return TagTable(last[0].step if last else 0, last[-1].step if last else 0, rows)

    async def tasks(self, dataset: str, run: str, query: TaskQuery) -> TaskPage:
        """Return a page of tasks with the belief about each. Raises InvalidInputError: an id or the tag is unknown."""
        opened, state = await self._newest(dataset, run)
        async with self._turns:
            return await asyncio.to_thread(_page, query, opened.dataset, state)

    @_of_run
    async def _newest(self, run: OpenRun) -> tuple[OpenRun, RunState]:
        state, _ = await self.runs.newest_or_known(run)
        return await self.runs.datasets.matching(run, state), state


def _grouped(leased: LeaseTtls, dataset: OpenDataset, now: float, limit: int, named: int) -> list[Lease]:
    order = np.argsort(leased.ttl_s, kind="stable")
    tasks, ttl_s = leased.tasks[order], leased.ttl_s[order]
    begins = np.flatnonzero(is_first(ttl_s))
    sizes = np.diff(begins, append=len(tasks))
    ends = [datetime.fromtimestamp(now + ttl, UTC) for ttl in ttl_s[begins[:limit]].tolist()]
    return [
        Lease(end, size, dataset.ids.take(tasks[begin : begin + min(size, named)]))
        for end, begin, size in zip(ends, begins[:limit].tolist(), sizes[:limit].tolist(), strict=True)
    ]


def _chosen(query: TaskQuery, dataset: OpenDataset, state: RunState) -> tuple[Tasks, Segments, dict[Segment, int]]:
    """Return the tasks that the query is about, sorted by index, the segments of the pool's tasks, and their numbers.

    These count what the query would be about if it asked for that segment.
    """
    pool = dataset.pool
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
    segments = tables.segments_of_pool(state, pool)
    segment = segments[tasks]
    shown = None if query.segment is None else tables.SEGMENTS.index(query.segment)
    is_wanted = segment != tables.RETIRED if shown is None else segment == shown
    return tasks[is_wanted], segments, tables.counts_of(segment)


def _page(query: TaskQuery, dataset: OpenDataset, state: RunState) -> TaskPage:
    tasks, segments, counts = _chosen(query, dataset, state)
    count = len(tasks)
    values: Floats = tables.ordered(query.sort, state, dataset.pool, tasks)
    if query.after is not None:
        value, index = query.after
        behind = (values > value) | ((values == value) & (tasks > index))
        tasks, values = tasks[behind], values[behind]
    more = len(tasks) > query.limit
    if more:  # only these are sorted
        near = values <= np.partition(values, query.limit - 1)[query.limit - 1]
        tasks, values = tasks[near], values[near]
    order = values.argsort(kind="stable")[: query.limit]  # equals by index
    last = (float(values[order[-1]]), int(tasks[order[-1]])) if more else None
    table = tables.task_table(state, dataset.pool, tasks[order], segments)
    return TaskPage(dataset, table, count, counts, last)
