"""The overview of runs: the course of each, its gain over uniform sampling, and its verdict.

A course is made of a few rows of the run's journal, which hold sums over all steps by then. It stays in memory until
the journal changes: the run's head and epoch in SQL say so, whichever replica moved it.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import nan
from typing import NamedTuple

from bots_service.access import Caller
from bots_service.core.receipt import NO_SUMS
from bots_service.core.run_settings import StrategyName
from bots_service.core.summary.course import RECENT, Gain, RunCourse, estimated_gain, measured_gain, nearest
from bots_service.core.summary.verdict import (
    RefusedReports,
    RunProgress,
    RunStatus,
    RunVerdict,
    is_overdue,
    status_of,
    urgency,
    verdict_on,
)
from bots_service.errors import UnknownRunError
from bots_service.records import RunRow
from bots_service.runs import Runs
from bots_service.storage.sql.courses import RunHead, SqlCourses, StoredCourse

Journal = tuple[str, int, int]
"""A run's uid, epoch and last entry: the same for the same journal."""


def journal_of(head: RunHead) -> Journal:
    """Return which journal a run has."""
    return head.uid, head.epoch, head.head


@dataclass(frozen=True, slots=True)
class KnownCourse:
    """What is known of a run.

    head: where it stood when this was read.
    row: the run; its head and epoch may be older.
    stored: what its journal tells.
    refused: its refused reports; None without any.
    gain: over uniform sampling; None for a run that samples uniformly.
    compared: the journals of the run and of its baseline from which the gain was measured.
    """

    head: RunHead
    row: RunRow
    stored: StoredCourse
    refused: RefusedReports | None = None
    gain: Gain | None = None
    compared: tuple[Journal, Journal] | None = None

    @property
    def course(self) -> RunCourse:
        """Its closed steps, summed up."""
        return self.stored.course

    @property
    def strategy(self) -> StrategyName:
        """The strategy in use."""
        return self.stored.strategy

    @property
    def step(self) -> int:
        """How many steps it has closed, those before a fork included."""
        return self.row.origin_step + self.course.steps

    def verdict(self, stalled_s: float | None) -> RunVerdict:
        """Return what to think of it.

        Args:
            stalled_s: seconds since its last step, if its status is stalled; otherwise None.
        """
        refused = self.refused
        is_refused_still = refused is not None and refused.seq == self.head.head  # nothing was accepted since
        progress = RunProgress(
            steps=self.course.steps,
            stalled_s=stalled_s,
            usual_gap_s=self.course.usual_gap_s,
            recent=self.course.recent,
            uniform=None if self.gain is None else self.gain.uniform_effective_task_ratio,
            refused=refused if is_refused_still else None,
        )
        return verdict_on(progress, self.stored.findings)


UNIFORM = "uniform"


class RunCourses:
    """A cache of courses, by run. It grows by some 3 KB a run that was asked for; deleted runs leave it."""

    def __init__(self, courses: SqlCourses) -> None:
        """Know no run yet."""
        self._courses = courses
        self._known: dict[int, KnownCourse] = {}
        self._reading = asyncio.Lock()  # one reads for all that wait

    async def of(self, dataset: str) -> list[KnownCourse]:
        """Return the runs of a dataset; none if it does not exist."""
        async with self._reading:
            heads = await self._courses.heads(dataset)
            self._forget({run_id for run_id, known in self._known.items() if known.head.dataset == dataset}, heads)
            return await self._up_to_date(heads)

    async def all(self, reaches: Callable[[str], bool]) -> list[KnownCourse]:
        """Return the runs of the datasets that the caller reaches."""
        async with self._reading:
            heads = await self._courses.heads()
            self._forget(set(self._known), heads)
            reached = {name: reaches(name) for name in {head.dataset for head in heads}}
            return await self._up_to_date([head for head in heads if reached[head.dataset]])

    def _forget(self, known: set[int], heads: list[RunHead]) -> None:
        for run_id in known.difference(head.run_id for head in heads):
            del self._known[run_id]

    async def _up_to_date(self, heads: list[RunHead]) -> list[KnownCourse]:
        """Return what is known of runs at these heads, which are all of their datasets."""
        outdated = [head for head in heads if self._course_at(head) is None or self._known[head.run_id].head != head]
        rows = await self._courses.rows([head.run_id for head in outdated]) if outdated else {}
        refused = await self._courses.refused([head.run_id for head in outdated if head.refused_reports])
        there = [head for head in outdated if head.run_id in rows and rows[head.run_id].uid == head.uid]
        unread = [head for head in there if self._course_at(head) is None]
        read = await self._courses.read([(rows[head.run_id], head.head) for head in unread])
        for head in there:
            known = self._course_at(head)
            stored = read.get(head.run_id) if known is None else known.stored
            if stored is not None:  # else it was deleted or rewound meanwhile; the next list reads it
                gain, compared = (None, None) if known is None else (known.gain, known.compared)
                row, of_run = rows[head.run_id], refused.get(head.run_id)
                self._known[head.run_id] = KnownCourse(head, row, stored, of_run, gain, compared)
        here = defaultdict(list)
        for head in heads:
            if head.run_id in self._known:
                here[head.dataset].append(self._known[head.run_id])
        found = [run for runs in here.values() for run in await self._compared(runs)]
        self._known |= {run.head.run_id: run for run in found}
        return found

    def _course_at(self, head: RunHead) -> KnownCourse | None:
        """Return what is known of a run, if its journal is still the same."""
        known = self._known.get(head.run_id)
        return known if known is not None and journal_of(known.head) == journal_of(head) else None

    async def _compared(self, runs: list[KnownCourse]) -> list[KnownCourse]:
        """Return all runs of a dataset with their gains.

        The baseline of a run is the run that samples uniformly and was created nearest in time; of several, the first
        by name.
        """
        baselines = sorted(
            (run for run in runs if run.strategy == UNIFORM and run.course.sums.reported),
            key=lambda run: run.row.name,
        )
        times = [run.row.created_at for run in baselines]
        compared = []
        for run in runs:
            baseline = nearest(run.row.created_at, times, baselines)
            if run.strategy == UNIFORM or baseline is None:
                gain = None if run.strategy == UNIFORM else estimated_gain(run.course)
                compared.append(replace(run, gain=gain, compared=None))
                continue
            journals = (journal_of(run.head), journal_of(baseline.head))
            if run.compared != journals:
                run = replace(run, gain=await self._measured(run, baseline), compared=journals)  # noqa: PLW2901
            compared.append(run)
        return compared

    async def _measured(self, run: KnownCourse, baseline: KnownCourse) -> Gain:
        """Return a run's gain over its baseline, over the steps that both have closed."""
        first, last = max(run.row.origin_step, baseline.row.origin_step), min(run.step, baseline.step)
        if last <= first:
            return measured_gain(baseline.row.name, 0, own=NO_SUMS, uniform=NO_SUMS, recent=NO_SUMS)
        recent = max(first, last - RECENT)
        own = await self._courses.ends(run.row, run.head.head, [first, last])
        uniform = await self._courses.ends(baseline.row, baseline.head.head, [first, recent, last])
        if not own.keys() >= {first, last} or not uniform.keys() >= {first, recent, last}:  # one was rewound meanwhile
            return estimated_gain(run.course)
        return measured_gain(
            baseline.row.name,
            last - first,
            own=own[last].sums.less(own[first].sums),
            uniform=uniform[last].sums.less(uniform[first].sums),
            recent=uniform[last].sums.less(uniform[recent].sums),
        )


SORTS = ("attention", "name", "created", "last_step", "step", "effective_task_ratio", "vs_uniform", "rollouts")
LOOKED_AT_ONCE = 64  # runs whose tasks in flight are asked for side by side
MORE_THAN_A_TIME = 1e11  # seconds: a run that needs attention comes before all that need it less, however old


class Place(NamedTuple):
    """A run's place in a list.

    group: those of a greater one come later, whichever way the list is sorted: runs without a value come last, and by
        the gain, runs that are not healthy come after those that are.
    """

    group: int
    value: float
    dataset: str
    run: str


@dataclass(frozen=True, slots=True)
class SummedRun:
    """A run as lists show it, now.

    urgency: 2 if somebody should look at it at once, 1 if somebody should look at it, otherwise 0.
    moved_at: when it last closed a step, or had a report refused; None if it never did.
    """

    known: KnownCourse
    status: RunStatus
    verdict: RunVerdict
    urgency: int
    moved_at: float | None

    @property
    def dataset(self) -> str:
        """The dataset's name."""
        return self.known.head.dataset

    @property
    def gain(self) -> Gain | None:
        """Its gain over uniform sampling; None for a run that samples uniformly."""
        return self.known.gain

    def value(self, sort: str) -> float | None:
        """Return what the run is sorted by; 0 where that is its name, and None where it has none."""
        course = self.known.course
        match sort:
            case "attention":
                return None if self.moved_at is None else self.moved_at + self.urgency * MORE_THAN_A_TIME
            case "created":
                return self.known.row.created_at
            case "last_step":
                return course.last_step_at
            case "step":
                return self.known.step
            case "effective_task_ratio":
                return course.recent.effective_task_ratio
            case "vs_uniform":
                return None if self.gain is None else self.gain.factor
            case "rollouts":
                return course.sums.rollouts
        return 0.0

    def place(self, sort: str, *, descends: bool) -> Place:
        """Return its place in a list."""
        value = self.value(sort)
        signed = nan if value is None else -value if descends else value
        is_doubtful = sort == "vs_uniform" and self.verdict.kind != "healthy"
        group = 2 if value is None else int(is_doubtful)
        return Place(group, 0.0 if value is None else signed, self.dataset, self.known.row.name)


@dataclass(frozen=True, slots=True)
class OverviewQuery:
    """Which runs are asked for.

    search: part of "dataset/run", whatever the case; dataset, status: None for any.
    attention: only runs that need attention.
    sort: one of SORTS, with a leading "-" the other way round.
    after: the place of the last run of the page before.
    """

    search: str | None = None
    dataset: str | None = None
    status: RunStatus | None = None
    attention: bool = False
    sort: str = "-last_step"
    after: Place | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class OverviewTotals:
    """Sums over all runs that the caller reaches.

    datasets: how many there are.
    runs: how many there are.
    attention: how many need attention.
    new, running, stalled, idle: how many runs have this status.
    reported, effective, rollouts: sums over all their steps.
    """

    datasets: int
    runs: int
    attention: int
    new: int
    running: int
    stalled: int
    idle: int
    reported: int
    effective: int
    rollouts: float


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """A page of runs. matching: how many the query is about; next: the place of the last run, None on the last page."""

    runs: list[SummedRun]
    matching: int
    totals: OverviewTotals
    next: Place | None


@dataclass(frozen=True, slots=True)
class Overview:
    """Summarize all runs that the caller's key reaches, or one of them, each with a verdict."""

    runs: Runs
    courses: RunCourses
    clock: Callable[[], float] = time.time

    async def page(self, caller: Caller, query: OverviewQuery) -> OverviewPage:
        """Return a page of the runs that the query is about."""
        known = await self.courses.all(caller.reaches)
        runs = await self._as_they_are_now([one for one in known if caller.reaches_run(one.head.dataset, one.row.name)])
        return await asyncio.to_thread(page_of, runs, query)

    async def one(self, dataset: str, run: str) -> SummedRun:
        """Return one run.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """
        return (await self._as_they_are_now([await self._known(dataset, run)]))[0]

    async def with_leases(self, dataset: str, run: str) -> tuple[SummedRun, int]:
        """Return one run, and how many of its tasks are in flight.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """
        found = await self.one(dataset, run)
        return found, len((await self.runs.live.leases(found.known.row)).tasks)

    async def _known(self, dataset: str, run: str) -> KnownCourse:
        await self.runs.store.datasets.get(dataset)
        for known in await self.courses.of(dataset):
            if known.row.name == run:
                return known
        raise UnknownRunError(f"no run {run!r}")

    async def _as_they_are_now(self, known: list[KnownCourse]) -> list[SummedRun]:
        now = self.clock()
        overdue = [one.row for one in known if is_overdue(since_last_step(one, now), one.course.usual_gap_s)]
        in_flight: set[int] = set()
        for first in range(0, len(overdue), LOOKED_AT_ONCE):
            rows = overdue[first : first + LOOKED_AT_ONCE]
            leased = await asyncio.gather(*map(self.runs.live.leases, rows))
            in_flight |= {row.id for row, each in zip(rows, leased, strict=True) if len(each.tasks)}
        return [summed(one, now, in_flight=one.row.id in in_flight) for one in known]


def summed(known: KnownCourse, now: float, *, in_flight: bool) -> SummedRun:
    """Return a run with its status and verdict at a time, in seconds since 1970, UTC."""
    since = since_last_step(known, now)
    status = status_of(since, known.course.usual_gap_s, in_flight=in_flight)
    verdict = known.verdict(since if status == "stalled" else None)
    refused = known.refused
    times = (known.course.last_step_at, None if refused is None else refused.last_at)
    moved_at = max((at for at in times if at is not None), default=None)
    return SummedRun(known, status, verdict, urgency(verdict, None if moved_at is None else now - moved_at), moved_at)


def since_last_step(known: KnownCourse, now: float) -> float | None:
    """Return how many seconds ago a run's last step closed; None before the first."""
    last = known.course.last_step_at
    return None if last is None else now - last


def page_of(runs: list[SummedRun], query: OverviewQuery) -> OverviewPage:
    """Return the runs of one page, in the order asked for."""
    sort, descends = query.sort.removeprefix("-"), query.sort.startswith("-")
    backwards = descends and sort == "name"  # a text has no opposite
    found = [(run.place(sort, descends=descends), run) for run in runs if is_wanted(run, query)]
    found.sort(key=lambda pair: pair[0], reverse=backwards)
    after = query.after
    behind = [pair for pair in found if after is None or (pair[0] < after if backwards else pair[0] > after)]
    page = behind[: query.limit]
    following = page[-1][0] if len(behind) > len(page) else None
    return OverviewPage([run for _, run in page], len(found), totals_of(runs), following)


def is_wanted(run: SummedRun, query: OverviewQuery) -> bool:
    """Return whether the query is about a run."""
    return (
        (query.dataset is None or run.dataset == query.dataset)
        and (query.status is None or run.status == query.status)
        and (run.urgency > 0 or not query.attention)
        and (query.search is None or query.search.lower() in f"{run.dataset}/{run.known.row.name}".lower())
    )


def totals_of(runs: list[SummedRun]) -> OverviewTotals:
    """Return the sums over runs."""
    sums = [run.known.course.sums for run in runs]
    statuses = [run.status for run in runs]
    return OverviewTotals(
        datasets=len({run.dataset for run in runs}),
        runs=len(runs),
        attention=sum(run.urgency > 0 for run in runs),
        new=statuses.count("new"),
        running=statuses.count("running"),
        stalled=statuses.count("stalled"),
        idle=statuses.count("idle"),
        reported=sum(one.reported for one in sums),
        effective=sum(one.effective for one in sums),
        rollouts=sum(one.rollouts for one in sums),
    )
