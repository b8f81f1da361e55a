"""The overview of runs: the course of each, its gain over uniform sampling, and its verdict.

A course is made of a few rows of the run's journal, which hold sums over all steps by then. It stays in memory until
the journal changes: the run's head and epoch in SQL say so, whichever replica moved it.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple

from msgspec import Struct, structs

from bots_service.access import Caller
from bots_service.core.summary import (
    AT_ONCE_KINDS,
    NO_SUMS,
    RECENT,
    Gain,
    RunStatus,
    RunVerdict,
    estimated_gain,
    is_overdue,
    measured_gain,
    nearest,
    needs_attention,
    status_of,
    verdict_on,
)
from bots_service.errors import UnknownRunError
from bots_service.records import RefusedReports
from bots_service.runs import Runs
from bots_service.storage.sql.history import KnownRun, SqlHistory

UNIFORM = "uniform"
SORTS = ("attention", "name", "created", "last_step", "step", "effective_task_ratio", "vs_uniform", "rollouts")
LOOKED_AT_ONCE = 64  # runs whose tasks in flight are asked for side by side
MORE_THAN_A_TIME = 1e11  # seconds: a run that needs attention comes before all that need it less, however old


class RunSummary(Struct, frozen=True):
    """How a run goes.

    belief: the kind of its belief.
    strategy: the present strategy of its selections.
    status: new (no step closed), running, stalled (tasks are in flight and the next step is overdue) or idle (nothing
        is in flight, or no step closed for a long time).
    step: number of closed steps; a fork counts those of its parent too.
    last_step_at: when the last step closed (RFC 3339, UTC); null before the first.
    reported, effective, rollouts: sums over all closed steps, without steps undone by a rewind.
    effective_task_ratio: over the last 50 steps; null if they reported nothing.
    trend: this ratio along all steps, the newest last; at most 40 points; null where nothing was reported.
    gain: the gain over uniform sampling; null for a run that samples uniformly.
    verdict: the most urgent that fits.
    attention: whether somebody should look at the run: its verdict says that something is wrong, and it moved within
        three days.
    refused: the reports that were refused as invalid; null without any.
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

    @property
    def moved_at(self) -> float | None:
        """When it last closed a step, or had a report refused, in seconds since 1970; None if it never did."""
        times = (self.last_step_at, None if self.refused is None else self.refused.last_at)
        return max((at.timestamp() for at in times if at is not None), default=None)


class RunSummaryWithLeases(RunSummary, frozen=True):
    """How a run goes, and how many of its tasks are in flight.

    leased: number of tasks in flight.
    """

    leased: int


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

    def wants(self, run: RunSummary) -> bool:
        """Return whether the query is about a run."""
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

    runs: list[RunSummary]
    matching: int
    totals: OverviewTotals
    next: Place | None


class Overview:
    """Summarizes all runs that the caller's key reaches, or one of them, each with a verdict.

    What is known of each run that was asked for is some 3 KB; deleted runs leave it.
    """

    def __init__(self, runs: Runs, history: SqlHistory, clock: Callable[[], float] = time.time) -> None:
        """Know no run yet. clock: seconds since 1970, UTC."""
        self._runs, self._history, self._clock = runs, history, clock
        self._known: dict[int, KnownRun] = {}
        self._reading = asyncio.Lock()  # one reads for all that wait

    async def page(self, caller: Caller, query: OverviewQuery) -> OverviewPage:
        """Return a page of the runs that the query is about."""
        known = await self._up_to_date(None, caller.reaches)
        runs = await self._as_they_are_now([one for one in known if caller.reaches_run(one.head.dataset, one.row.name)])
        return await asyncio.to_thread(page_of, runs, query)

    async def one(self, dataset: str, run: str) -> RunSummaryWithLeases:
        """Return one run.

        Raises:
            UnknownDatasetError, UnknownRunError: one of the names is not known.
        """
        await self._runs.store.datasets.get(dataset)
        known = [one for one in await self._up_to_date(dataset) if one.row.name == run]
        if not known:
            raise UnknownRunError(f"no run {run!r}")
        (found,) = await self._as_they_are_now(known)
        leased = len((await self._runs.live.leases(known[0].row)).tasks)
        return RunSummaryWithLeases(**structs.asdict(found), leased=leased)

    async def _up_to_date(self, dataset: str | None, reaches: Callable[[str], bool] = lambda _: True) -> list[KnownRun]:
        """Return what is known of the runs of a dataset; or of all datasets that the caller reaches."""
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
        """Return all runs of a dataset with their gains.

        The baseline of a run is the run that samples uniformly and was created nearest in time; of several, the first
        by name.
        """
        uniform = (run for run in runs if run.strategy == UNIFORM and run.course.sums.reported)
        baselines = [(run.row.created_at, run) for run in sorted(uniform, key=lambda run: run.row.name)]
        return [await self._with_gain(run, nearest(run.row.created_at, baselines)) for run in runs]

    async def _with_gain(self, run: KnownRun, baseline: KnownRun | None) -> KnownRun:
        if run.strategy == UNIFORM or baseline is None:
            return replace(run, gain=None if run.strategy == UNIFORM else estimated_gain(run.course), compared=None)
        journals = (run.head.journal, baseline.head.journal)
        if run.compared == journals:
            return run
        return replace(run, gain=await self._measured(run, baseline), compared=journals)

    async def _measured(self, run: KnownRun, baseline: KnownRun) -> Gain:
        """Return a run's gain over its baseline, over the steps that both have closed."""
        first, last = max(run.row.origin_step, baseline.row.origin_step), min(run.step, baseline.step)
        if last <= first:
            return measured_gain(baseline.row.name, 0, own=NO_SUMS, uniform=NO_SUMS, recent=NO_SUMS)
        recent = max(first, last - RECENT)
        own = await self._history.ends(run.row, run.head.head, [first, last])
        uniform = await self._history.ends(baseline.row, baseline.head.head, [first, recent, last])
        if not own.keys() >= {first, last} or not uniform.keys() >= {first, recent, last}:  # one was rewound meanwhile
            return estimated_gain(run.course)
        return measured_gain(
            baseline.row.name,
            last - first,
            own=own[last].less(own[first]),
            uniform=uniform[last].less(uniform[first]),
            recent=uniform[last].less(uniform[recent]),
        )

    async def _as_they_are_now(self, known: list[KnownRun]) -> list[RunSummary]:
        now = self._clock()
        overdue = [one.row for one in known if is_overdue(since_last_step(one, now), one.course.usual_gap_s)]
        in_flight: set[int] = set()
        for first in range(0, len(overdue), LOOKED_AT_ONCE):
            rows = overdue[first : first + LOOKED_AT_ONCE]
            leased = await asyncio.gather(*map(self._runs.live.leases, rows))
            in_flight |= {row.id for row, each in zip(rows, leased, strict=True) if len(each.tasks)}
        return [summary_of(one, now, in_flight=one.row.id in in_flight) for one in known]


def summary_of(known: KnownRun, now: float, *, in_flight: bool) -> RunSummary:
    """Return a run with its status and verdict at a time, in seconds since 1970, UTC."""
    head, row, course = known.head, known.row, known.course
    since = since_last_step(known, now)
    status = status_of(since, course.usual_gap_s, in_flight=in_flight)
    verdict = verdict_on(
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
    )
    moved_at = found.moved_at
    return structs.replace(found, attention=needs_attention(verdict, None if moved_at is None else now - moved_at))


def since_last_step(known: KnownRun, now: float) -> float | None:
    """Return how many seconds ago a run's last step closed; None before the first."""
    last = known.course.sums.at
    return None if last is None else now - last


def value_of(run: RunSummary, sort: str) -> float | None:
    """Return what a run is sorted by; 0 where that is its name, and None where it has none."""
    match sort:
        case "attention":
            urgency = 2 if run.verdict.kind in AT_ONCE_KINDS else 1
            return None if run.moved_at is None else run.moved_at + run.attention * urgency * MORE_THAN_A_TIME
        case "created":
            return run.created_at.timestamp()
        case "last_step":
            return None if run.last_step_at is None else run.last_step_at.timestamp()
        case "vs_uniform":
            return None if run.gain is None else run.gain.factor
        case "name":
            return 0.0
    value: float | None = getattr(run, sort)
    return value


def place_of(run: RunSummary, sort: str, *, descends: bool) -> Place:
    """Return a run's place in a list."""
    value = value_of(run, sort)
    if value is None:
        return Place(2, 0.0, run.dataset, run.run)
    is_doubtful = sort == "vs_uniform" and run.verdict.kind != "healthy"
    return Place(int(is_doubtful), -value if descends else value, run.dataset, run.run)


def page_of(runs: Sequence[RunSummary], query: OverviewQuery) -> OverviewPage:
    """Return the runs of one page, in the order asked for."""
    sort, descends = query.sort.removeprefix("-"), query.sort.startswith("-")
    backwards = descends and sort == "name"  # a text has no opposite
    found = [(place_of(run, sort, descends=descends), run) for run in runs if query.wants(run)]
    found.sort(key=lambda pair: pair[0], reverse=backwards)
    after = query.after
    behind = [pair for pair in found if after is None or (pair[0] < after if backwards else pair[0] > after)]
    page = behind[: query.limit]
    following = page[-1][0] if len(behind) > len(page) else None
    return OverviewPage([run for _, run in page], len(found), totals_of(runs), following)


def totals_of(runs: Sequence[RunSummary]) -> OverviewTotals:
    """Return the sums over runs."""
    statuses = [run.status for run in runs]
    return OverviewTotals(
        datasets=len({run.dataset for run in runs}),
        runs=len(runs),
        attention=sum(run.attention for run in runs),
        new=statuses.count("new"),
        running=statuses.count("running"),
        stalled=statuses.count("stalled"),
        idle=statuses.count("idle"),
        reported=sum(run.reported for run in runs),
        effective=sum(run.effective for run in runs),
        rollouts=sum(run.rollouts for run in runs),
    )
