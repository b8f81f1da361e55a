"""Summaries of runs: of all of them, searched and sorted, or of one."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from math import nan
from typing import NamedTuple

from bots_service.core.summary.gain import Gain
from bots_service.core.summary.verdict import (
    RunStatus,
    RunVerdict,
    is_overdue,
    status_of,
    urgency,
)
from bots_service.engine.judging import JudgeRuns
from bots_service.engine.run_courses import KnownCourse, RunCourses
from bots_service.errors import UnknownRunError
from bots_service.ports.catalog import Datasets
from bots_service.ports.hot import Leases
from bots_service.usecases.authenticate import Caller

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

    verdict: None if it is not judged yet.
    urgency: 2 if somebody should look at it at once, 1 if somebody should look at it, otherwise 0.
    moved_at: when it last closed a step, or had a report refused; None if it never did.
    """

    known: KnownCourse
    status: RunStatus
    verdict: RunVerdict | None
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
        course = self.known.newest.course
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
        is_doubtful = sort == "vs_uniform" and (self.verdict is None or self.verdict.kind != "healthy")
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
    attention: how many need attention, of those that are judged.
    unjudged: how many are not judged yet.
    new, running, stalled, idle: how many runs have this status.
    reported, effective, rollouts: sums over all their steps.
    """

    datasets: int
    runs: int
    attention: int
    unjudged: int
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
class SummarizeRuns:
    """Summarize all runs that the caller's key reaches, or one of them, each with a verdict."""

    datasets: Datasets
    courses: RunCourses
    leases: Leases
    judging: JudgeRuns
    clock: Callable[[], float] = time.time

    async def __call__(self, caller: Caller, query: OverviewQuery) -> OverviewPage:
        """Return a page of the runs that the query is about; verdicts may be some seconds old, or missing yet."""
        known = await self._reached(caller)
        outdated = [run for run in known if run.is_whole and not run.is_judged]
        if await self.judging.judge_soon(sorted(outdated, key=turn_of)):
            known = await self._reached(caller)
        runs = await self._as_they_are_now(known)
        return await asyncio.to_thread(page_of, runs, query)

    async def _reached(self, caller: Caller) -> list[KnownCourse]:
        known = await self.courses.all(caller.reaches)
        return [one for one in known if caller.reaches_run(one.head.dataset, one.row.name)]

    async def one(self, dataset: str, run: str) -> SummedRun:
        """Return one run.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """
        known = await self._known(dataset, run)
        if not known.is_judged:
            judgement = await self.judging.judge(dataset, run)
            known = await self._known(dataset, run)  # its receipts are complete by now
            known = replace(known, notes=replace(known.notes, judgement=judgement))
        return (await self._as_they_are_now([known]))[0]

    async def with_leases(self, dataset: str, run: str) -> tuple[SummedRun, int]:
        """Return one run, and how many of its tasks are in flight.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """
        found = await self.one(dataset, run)
        return found, len(await self.leases.leased(found.known.row))

    def in_background(self) -> AbstractAsyncContextManager[None]:
        """Stop at the end what is judged for lists."""
        return self.judging.in_background()

    async def _known(self, dataset: str, run: str) -> KnownCourse:
        await self.datasets.get(dataset)
        for known in await self.courses.of(dataset):
            if known.row.name == run:
                return known
        raise UnknownRunError(f"no run {run!r}")

    async def _as_they_are_now(self, known: list[KnownCourse]) -> list[SummedRun]:
        now = self.clock()
        overdue = [one.row for one in known if is_overdue(since_last_step(one, now), one.newest.course.usual_gap_s)]
        in_flight: set[int] = set()
        for first in range(0, len(overdue), LOOKED_AT_ONCE):
            rows = overdue[first : first + LOOKED_AT_ONCE]
            leased = await asyncio.gather(*map(self.leases.leased, rows))
            in_flight |= {row.id for row, tasks in zip(rows, leased, strict=True) if len(tasks)}
        return [summed(one, now, in_flight=one.row.id in in_flight) for one in known]


def turn_of(run: KnownCourse) -> tuple[bool, float]:
    """Return when a run is judged, among others: first those that never were, the newest of them first.

    Of those that have moved since, the one comes first that has not for the longest time: a run at work would else keep
    others from ever having a turn.
    """
    at = run.newest.course.last_step_at or 0.0
    is_judged = run.findings is not None
    return is_judged, at if is_judged else -at


def summed(known: KnownCourse, now: float, *, in_flight: bool) -> SummedRun:
    """Return a run with its status and verdict at a time, in seconds since 1970, UTC."""
    since = since_last_step(known, now)
    status = status_of(since, known.newest.course.usual_gap_s, in_flight=in_flight)
    verdict = known.verdict(since if status == "stalled" else None)
    refused = known.notes.refused
    times = (known.newest.course.last_step_at, None if refused is None else refused.last_at)
    moved_at = max((at for at in times if at is not None), default=None)
    return SummedRun(known, status, verdict, urgency(verdict, None if moved_at is None else now - moved_at), moved_at)


def since_last_step(known: KnownCourse, now: float) -> float | None:
    """Return how many seconds ago a run's last step closed; None before the first."""
    last = known.newest.course.last_step_at
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
    sums = [run.known.newest.course.sums for run in runs]
    statuses = [run.status for run in runs]
    return OverviewTotals(
        datasets=len({run.dataset for run in runs}),
        runs=len(runs),
        attention=sum(run.urgency > 0 for run in runs),
        unjudged=sum(run.verdict is None for run in runs),
        new=statuses.count("new"),
        running=statuses.count("running"),
        stalled=statuses.count("stalled"),
        idle=statuses.count("idle"),
        reported=sum(one.reported for one in sums),
        effective=sum(one.effective for one in sums),
        rollouts=sum(one.rollouts for one in sums),
    )
